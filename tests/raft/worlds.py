"""Random but sensible metadata: sequences of records that fit the image they are replayed on, of every type there is."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.raft.cluster import NodeIdentity, bootstrap, register_broker, register_controller, unfence_broker
from kafkapy.raft.configs import incremental_alter_configs
from kafkapy.raft.delta import MetadataDelta
from kafkapy.raft.image import Listener, MetadataImage
from kafkapy.raft.producer_ids import allocate_producer_ids
from kafkapy.raft.topic_changes import create_partitions, delete_topics
from kafkapy.raft.topics import create_topics
from kafkapy.wire import metadata_records as records
from kafkapy.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkapy.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkapy.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkapy.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.wire.schema import Record

CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"
CONFIG = BrokerConfig()
BROKERS = (1, 2, 3)


def _identity(dice: random.Random, node_id: int) -> NodeIdentity:
    return NodeIdentity(
        node_id,
        dice.randbytes(16),
        (Listener("PLAINTEXT", f"host-{node_id}", 9092, 0),),
        rack=dice.choice((None, "a", "b")),
        log_dirs=(dice.randbytes(16),) * dice.randrange(1, 3),
    )


def _topic(dice: random.Random, image: MetadataImage) -> str | None:
    names = sorted(image.topics.by_name)
    return dice.choice(names) if names else None


def _create(dice: random.Random, image: MetadataImage) -> list[Record]:
    topics = [
        CreatableTopic(
            name=f"{dice.choice(('t', 't.', 't_'))}{dice.randrange(30)}",
            num_partitions=dice.randrange(1, 6),
            replication_factor=dice.randrange(1, 4),
            configs=[CreatableTopicConfig(name="retention.ms", value="5000")] * dice.randrange(2),
        )
        for _ in range(dice.randrange(1, 4))
    ]
    return create_topics(image, CreateTopicsRequest(topics=topics), CONFIG, lambda: dice.randbytes(16)).records


def _delete(dice: random.Random, image: MetadataImage) -> list[Record]:
    return delete_topics(image, DeleteTopicsRequest(topics=[DeleteTopicState(name=_topic(dice, image) or "t")])).records


def _grow(dice: random.Random, image: MetadataImage) -> list[Record]:
    topic = CreatePartitionsTopic(name=_topic(dice, image) or "t", count=dice.randrange(1, 9), assignments=None)
    return create_partitions(image, CreatePartitionsRequest(topics=[topic])).records


def _configure(dice: random.Random, image: MetadataImage) -> list[Record]:
    kind, name, key = dice.choice(
        (
            (2, _topic(dice, image) or "t", "segment.ms"),
            (4, "", "log.cleaner.threads"),
            (16, "metrics", "interval.ms"),
            (32, "group", "consumer.session.timeout.ms"),
        )
    )
    operation = dice.randrange(2)
    change = AlterableConfig(name=key, config_operation=operation, value=None if operation else "50000")
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    return incremental_alter_configs(image, IncrementalAlterConfigsRequest(resources=[resource]), CONFIG).records


def _change_partition(dice: random.Random, image: MetadataImage) -> list[Record]:
    topic = image.topics.get(_topic(dice, image) or "")
    if topic is None:
        return []
    number = dice.randrange(len(topic.partitions))
    replicas = list(topic.partitions[number].replicas)
    record = records.PartitionChangeRecord(partition_id=number, topic_id=topic.id)
    if dice.random() < 0.5:
        record.leader = dice.choice([*replicas, -1])
    if dice.random() < 0.5:
        record.isr = replicas[: dice.randrange(1, len(replicas) + 1)]
    if dice.random() < 0.3:
        record.eligible_leader_replicas, record.last_known_elr = replicas[:1], replicas[-1:]
    if dice.random() < 0.2:
        record.adding_replicas, record.leader_recovery_state = [9], dice.randrange(2)
    return [record]


def _clear_elr(dice: random.Random, image: MetadataImage) -> list[Record]:
    return [records.ClearElrRecord(topic_name=dice.choice(("", _topic(dice, image) or "")))]


def _register(dice: random.Random, image: MetadataImage) -> list[Record]:
    identity = _identity(dice, dice.choice(BROKERS))
    return [*register_broker(image, identity).records, *register_controller(image, identity).records]


def _change_broker(dice: random.Random, image: MetadataImage) -> list[Record]:
    broker = image.brokers[dice.choice(sorted(image.brokers))]
    if dice.random() < 0.5:
        return unfence_broker(image, _identity(dice, broker.id)).records
    kinds: list[Record] = [
        records.FenceBrokerRecord(id=broker.id, epoch=broker.epoch),
        records.UnfenceBrokerRecord(id=broker.id, epoch=broker.epoch),
        records.BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=1, log_dirs=[dice.randbytes(16)]
        ),
    ]
    return [dice.choice(kinds)]


def _producer_ids(dice: random.Random, image: MetadataImage) -> list[Record]:
    return allocate_producer_ids(image, 1, 5).records


def _security(dice: random.Random, image: MetadataImage) -> list[Record]:
    user, number = f"user-{dice.randrange(3)}", bytes([dice.randrange(4)]) * 16
    entity = [records.EntityData(entity_type="user", entity_name=dice.choice((None, user)))]
    kinds: list[Record] = [
        records.ClientQuotaRecord(
            entity=entity, key="producer_byte_rate", value=dice.random(), remove=dice.random() < 0.4
        ),
        records.UserScramCredentialRecord(
            name=user, mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
        ),
        records.RemoveUserScramCredentialRecord(name=user, mechanism=1),
        records.AccessControlEntryRecord(
            id=number, resource_type=2, resource_name="t", pattern_type=3, principal=user, host="*", operation=3
        ),
        records.RemoveAccessControlEntryRecord(id=number),
        records.DelegationTokenRecord(
            owner=user, requester=user, renewers=["a"], issue_timestamp=1, max_timestamp=2, token_id=user
        ),
        records.RemoveDelegationTokenRecord(token_id=user),
        records.FeatureLevelRecord(name="group.version", feature_level=dice.randrange(2)),
        records.NoOpRecord(),
        records.ZkMigrationStateRecord(),
    ]
    return [dice.choice(kinds)]


_STEPS: tuple[Callable[[random.Random, MetadataImage], list[Record]], ...] = (
    _create,
    _create,
    _delete,
    _grow,
    _configure,
    _change_partition,
    _change_partition,
    _clear_elr,
    _register,
    _change_broker,
    _producer_ids,
    _security,
    _security,
)


def replay(image: MetadataImage, changes: list[Record]) -> MetadataImage:
    """The image after these records."""
    delta = MetadataDelta(image)
    for record in changes:
        delta.replay(record)
    return delta.apply(image.offset + len(changes), 1, 1)


def decisions(seed: int, count: int) -> Iterator[tuple[list[Record], MetadataImage]]:
    """A new cluster, then so many decisions: the records of each, and the image after it."""
    dice = random.Random(seed)
    image = MetadataImage(CLUSTER_ID)
    first = bootstrap(image, 1).records
    image = replay(image, first)
    yield first, image
    for node_id in BROKERS:
        identity = _identity(dice, node_id)
        changes = register_broker(image, identity).records
        image = replay(image, changes)
        yield changes, image
        changes = unfence_broker(image, identity).records
        image = replay(image, changes)
        yield changes, image
    for _ in range(count):
        changes = dice.choice(_STEPS)(dice, image)
        if changes:
            image = replay(image, changes)
            yield changes, image


def world(seed: int, count: int = 30) -> MetadataImage:
    """The image after so many decisions."""
    *_, (_, image) = decisions(seed, count)
    return image
