"""Growing and deleting topics: pure decisions on an image, with Apache Kafka's codes and sentences."""

from __future__ import annotations

from collections import Counter

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.decision import DECISION_RECORDS_MAX, Decision
from kafkapy.raft.image import MetadataImage, TopicImage
from kafkapy.raft.image_records import partition_record
from kafkapy.raft.placement import seed_after
from kafkapy.raft.topics import (
    TOO_MANY_PARTITIONS,
    check_manual_assignment,
    new_partition,
    place_new,
    usable_brokers,
)
from kafkapy.types import ZERO_UUID
from kafkapy.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kafkapy.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kafkapy.wire.metadata_records import RemoveTopicRecord
from kafkapy.wire.schema import Record


def create_partitions(image: MetadataImage, request: CreatePartitionsRequest) -> Decision:
    """Give topics more partitions. Each topic is grown or refused by itself."""
    records: list[Record] = []
    results: list[CreatePartitionsTopicResult] = []
    duplicates = [name for name, count in Counter(topic.name for topic in request.topics).items() if count > 1]
    for topic in request.topics:
        if topic.name in duplicates:
            continue
        result = CreatePartitionsTopicResult(name=topic.name)
        results.append(result)
        try:
            added = _grow(image, topic)
            if len(records) + len(added) > DECISION_RECORDS_MAX:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        else:
            records += added
    for name in duplicates:
        results.append(
            CreatePartitionsTopicResult(
                name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
            )
        )
    return Decision([] if request.validate_only else records, CreatePartitionsResponse(results=results))


def _grow(image: MetadataImage, wanted: CreatePartitionsTopic) -> list[Record]:
    """The records of a topic's new partitions."""
    topic = image.topics.get(wanted.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    before = len(topic.partitions)
    if wanted.count == before:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {before} partition(s).")
    if wanted.count < before:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {before} partition(s); {wanted.count} would not be an increase.",
        )
    added = wanted.count - before
    if added > DECISION_RECORDS_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS)
    if wanted.assignments is None:
        replication_factor = len(topic.partitions[0].replicas)
        # Go on where the last partition began, so that leaders stay evenly spread.
        seed = seed_after(usable_brokers(image), topic.partitions[-1].replicas[0], before)
        placed = place_new(image, added, replication_factor, seed)
    else:
        placed = _manual(image, topic, [assignment.broker_ids for assignment in wanted.assignments], added)
    return [
        partition_record(topic.id, before + number, new_partition(image, before + number, replicas))
        for number, replicas in enumerate(placed)
    ]


def _manual(image: MetadataImage, topic: TopicImage, assignments: list[list[int]], added: int) -> list[list[int]]:
    if len(assignments) != added:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(assignments)} assignment(s) were specified.",
        )
    for broker_ids in assignments:
        check_manual_assignment(image, broker_ids, len(topic.partitions[0].replicas))
        if not any(image.brokers[broker_id].is_active for broker_id in broker_ids):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "All brokers specified in the manual partition assignment for partition "
                f"{len(topic.partitions)} are fenced or in controlled shutdown.",
            )
    return assignments


def delete_topics(image: MetadataImage, request: DeleteTopicsRequest) -> Decision:
    """Delete topics by name, or by id since version 6. A deleted topic's configuration goes with it."""
    wanted = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    records: list[Record] = []
    results: list[DeletableTopicResult] = []
    duplicates: list[DeletableTopicResult] = []
    times = Counter(_identity(image, state) for state in wanted)
    for state in wanted:
        identity = _identity(image, state)
        result = DeletableTopicResult(name=state.name, topic_id=state.topic_id)
        if times[identity] > 1:
            if not any(identity == _identity_of_result(image, other) for other in duplicates):
                text = "Duplicate topic name." if state.name is not None else "Duplicate topic id."
                result.error_code, result.error_message = ErrorCode.INVALID_REQUEST, text
                duplicates.append(result)
            continue
        results.append(result)
        try:
            topic = _find(image, state)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        else:
            result.name, result.topic_id = topic.name, topic.id
            records.append(RemoveTopicRecord(topic_id=topic.id))
    return Decision(records, DeleteTopicsResponse(responses=results + duplicates))


def _find(image: MetadataImage, state: DeleteTopicState) -> TopicImage:
    if state.name is None:
        if state.topic_id == ZERO_UUID:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        topic = image.topics.get_by_id(state.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        return topic
    if state.topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    topic = image.topics.get(state.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    return topic


def _identity(image: MetadataImage, state: DeleteTopicState) -> object:
    """What two requests for the same topic have in common: its id where there is one."""
    if state.name is None:
        return state.topic_id if state.topic_id != ZERO_UUID else object()
    topic = image.topics.get(state.name)
    return state.name if topic is None or state.topic_id != ZERO_UUID else topic.id


def _identity_of_result(image: MetadataImage, result: DeletableTopicResult) -> object:
    return _identity(image, DeleteTopicState(name=result.name, topic_id=result.topic_id))
