"""Creating topics: a pure decision on an image, with Apache Kafka's codes and sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.definitions import Value
from kafkapy.config.describe import describe_topic
from kafkapy.config.log_config import topic_defaults, validate_topic_configs
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.decision import DECISION_RECORDS_MAX, Decision, UuidSource
from kafkapy.raft.image import TOPIC, MetadataImage, PartitionImage
from kafkapy.raft.image_records import partition_record
from kafkapy.raft.placement import UsableBroker, place
from kafkapy.raft.topic_names import check_topic_name, collision_key, has_collision_chars
from kafkapy.types import CLUSTER_METADATA_TOPIC
from kafkapy.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkapy.wire.metadata_records import ConfigRecord, TopicRecord
from kafkapy.wire.schema import Record

TOO_MANY_PARTITIONS = "Excessively large number of partitions per request."


def create_topics(
    image: MetadataImage, request: CreateTopicsRequest, config: BrokerConfig, new_uuid: UuidSource
) -> Decision:
    """Each topic is created or refused by itself; with `validate_only` nothing is written."""
    defaults = _topic_defaults(config)
    records: list[Record] = []
    results: list[CreatableTopicResult] = []
    duplicates = [name for name, count in Counter(topic.name for topic in request.topics).items() if count > 1]
    seed = len(image.topics)
    for topic in request.topics:
        if topic.name in duplicates:
            continue
        try:
            _check_name(image, topic.name)
            created = _create(image, topic, config, defaults, new_uuid(), seed)
            if len(records) + len(created) > DECISION_RECORDS_MAX:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS)
        except KafkaError as error:
            results.append(_refused(topic.name, error))
            continue
        records += created
        seed += 1  # The next topic begins with the next broker.
        results.append(_created(topic, created, config))
    for name in duplicates:
        results.append(_refused(name, KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")))
    return Decision([] if request.validate_only else records, CreateTopicsResponse(topics=results))


def _check_name(image: MetadataImage, name: str) -> None:
    if name == CLUSTER_METADATA_TOPIC:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
        )
    check_topic_name(name)
    if name in image.topics.by_name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if has_collision_chars(name):
        others = image.topics.collisions.get(collision_key(name))
        if others:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {min(others)}"
            )


def _create(
    image: MetadataImage,
    topic: CreatableTopic,
    config: BrokerConfig,
    defaults: Mapping[str, Value],
    topic_id: bytes,
    seed: int,
) -> list[Record]:
    """The records of a new topic: itself, its partitions, its configuration."""
    nulls = [setting.name for setting in topic.configs if setting.value is None]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
    validate_topic_configs({setting.name: setting.value for setting in topic.configs}, defaults)
    if topic.assignments:
        if topic.replication_factor != -1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            )
        if topic.num_partitions != -1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            )
        placed = _manual_assignments(image, topic.assignments)
    else:
        placed = _automatic_assignments(image, topic, config, seed)
    records: list[Record] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    for number, replicas in enumerate(placed):
        partition = new_partition(image, number, replicas)
        records.append(partition_record(topic_id, number, partition))
    records += [
        ConfigRecord(resource_type=TOPIC, resource_name=topic.name, name=setting.name, value=setting.value)
        for setting in topic.configs
    ]
    return records


def _automatic_assignments(
    image: MetadataImage, topic: CreatableTopic, config: BrokerConfig, seed: int
) -> list[list[int]]:
    replication_factor = topic.replication_factor
    if replication_factor < -1 or replication_factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    count = config.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    if count > DECISION_RECORDS_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS)
    if replication_factor == -1:
        replication_factor = config.default_replication_factor
    return place_new(image, count, replication_factor, seed)


def place_new(image: MetadataImage, count: int, replication_factor: int, seed: int) -> list[list[int]]:
    """Places for new partitions, or INVALID_REPLICATION_FACTOR in the words in which a client is told."""
    try:
        return place(usable_brokers(image), count, replication_factor, seed)
    except KafkaError as error:
        raise KafkaError(
            error.code, f"Unable to replicate the partition {replication_factor} time(s): {error.message}"
        ) from error


def usable_brokers(image: MetadataImage) -> list[UsableBroker]:
    """Who may be given new replicas: not who is shutting down, nor who has no log directory left for them."""
    return [
        UsableBroker(broker.id, broker.rack, broker.fenced)
        for broker in image.brokers.values()
        if not broker.in_controlled_shutdown
        and (not broker.log_dirs or not set(broker.log_dirs).issubset(broker.cordoned_log_dirs or ()))
    ]


def _manual_assignments(image: MetadataImage, assignments: Sequence[CreatableReplicaAssignment]) -> list[list[int]]:
    by_number: dict[int, list[int]] = {}
    expected: int | None = None
    for assignment in assignments:
        number = assignment.partition_index
        if number in by_number:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {number}",
            )
        check_manual_assignment(image, assignment.broker_ids, expected)
        expected = len(assignment.broker_ids)
        if not any(image.brokers[broker_id].is_active for broker_id in assignment.broker_ids):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"All brokers specified in the manual partition assignment for partition {number} are fenced or in controlled shutdown.",
            )
        by_number[number] = assignment.broker_ids
    if sorted(by_number) != list(range(len(by_number))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return [by_number[number] for number in range(len(by_number))]


def check_manual_assignment(image: MetadataImage, broker_ids: Sequence[int], expected: int | None) -> None:
    """Refuse replicas that make no sense: none, twice the same, on a broker that there isn't, or fewer or more than elsewhere."""
    if not broker_ids:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment includes an empty replica list."
        )
    previous: int | None = None
    for broker_id in sorted(broker_ids):
        if broker_id not in image.brokers:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered.",
            )
        if broker_id == previous:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes the broker {broker_id} more than once.",
            )
        previous = broker_id
    if expected is not None and len(broker_ids) != expected:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The manual partition assignment includes a partition with {len(broker_ids)} replica(s), "
            f"but this is not consistent with previous partitions, which have {expected} replica(s).",
        )


def new_partition(image: MetadataImage, number: int, replicas: Iterable[int]) -> PartitionImage:
    """A partition as it begins: in sync is who is there, and the first of them leads."""
    everywhere = tuple(replicas)
    in_sync = tuple(broker_id for broker_id in everywhere if image.brokers[broker_id].is_active)
    return PartitionImage(
        replicas=everywhere,
        isr=in_sync,
        leader=in_sync[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=tuple(image.brokers[broker_id].default_directory for broker_id in everywhere),
    )


def _created(topic: CreatableTopic, records: Sequence[Record], config: BrokerConfig) -> CreatableTopicResult:
    first = records[0]
    assert isinstance(first, TopicRecord)
    partitions = [record for record in records if hasattr(record, "replicas")]
    own = {setting.name: setting.value for setting in topic.configs if setting.value is not None}
    return CreatableTopicResult(
        name=topic.name,
        topic_id=first.topic_id,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=_settings(config, own),
    )


def _refused(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message, configs=[])


def _settings(config: BrokerConfig, own: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    """What DescribeConfigs would tell of the new topic, sorted as Kafka sorts it here."""
    if not own:
        return _settings_of_most(config)
    entries = sorted(describe_topic(config, own), key=lambda entry: entry.name)
    return [CreatableTopicConfigs(name=one.name, value=one.value, config_source=one.source) for one in entries]


# A broker has one configuration at a time; a new one takes the old one's place here.
@lru_cache(maxsize=1)
def _settings_of_most(config: BrokerConfig) -> list[CreatableTopicConfigs]:
    """Those of a topic without any of its own: the answers share them, and nobody changes an answer."""
    entries = sorted(describe_topic(config, {}), key=lambda entry: entry.name)
    return [CreatableTopicConfigs(name=one.name, value=one.value, config_source=one.source) for one in entries]


_topic_defaults = lru_cache(maxsize=1)(topic_defaults)
