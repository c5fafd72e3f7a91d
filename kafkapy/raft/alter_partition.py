"""A partition's leader changes the ISR: a pure decision on an image, with Apache Kafka's codes.

The leader tells on which leader epoch and partition epoch its wish is based. One that is based on less than the controller knows is refused, so
that two changes never cross; one that is based on more can only mean that this controller isn't the active one any longer. Nobody joins
the ISR who is fenced, shutting down, or another process than the leader thinks.

With the last replica of a reassignment in sync the reassignment is complete, which may take the leadership away from the very leader that asks.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.errors import ErrorCode
from kafkapy.raft.decision import DECISION_RECORDS_MAX, Decision
from kafkapy.raft.image import MetadataImage, PartitionImage, TopicImage
from kafkapy.raft.leadership import RECOVERED, RECOVERING, Leadership, Wanted
from kafkapy.raft.registrations import check_broker_epoch
from kafkapy.raft.topics_delta import changed_partition
from kafkapy.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartition,
    ResponsePartition,
    ResponseTopic,
)
from kafkapy.wire.metadata_records import NO_LEADER_CHANGE
from kafkapy.wire.schema import Record


def alter_partition(image: MetadataImage, request: AlterPartitionRequest, config: BrokerConfig) -> Decision:
    """Each partition is changed or refused by itself; KafkaError STALE_BROKER_EPOCH for a leader that has registered anew since."""
    check_broker_epoch(image, request.broker_id, request.broker_epoch)
    leadership = Leadership(image, config)
    records: list[Record] = []
    topics: list[ResponseTopic] = []
    seen: set[tuple[bytes, int]] = set()
    for asked in request.topics:
        answers: list[ResponsePartition] = []
        topics.append(ResponseTopic(topic_id=asked.topic_id, partitions=answers))
        topic = image.topics.get_by_id(asked.topic_id)
        for wanted in asked.partitions:
            if topic is None:
                answers.append(_refused(wanted, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            if (asked.topic_id, wanted.partition_index) in seen:
                answers.append(_refused(wanted, ErrorCode.INVALID_UPDATE_VERSION))
                continue
            if len(records) == DECISION_RECORDS_MAX:
                answers.append(_refused(wanted, ErrorCode.OPERATION_NOT_ATTEMPTED))
                continue
            seen.add((asked.topic_id, wanted.partition_index))
            answer, changed = _alter(image, leadership, topic, wanted, request.broker_id)
            answers.append(answer)
            records += changed
    return Decision(records, AlterPartitionResponse(topics=topics), leadership.told())


def _alter(
    image: MetadataImage, leadership: Leadership, topic: TopicImage, wanted: RequestPartition, broker_id: int
) -> tuple[ResponsePartition, list[Record]]:
    number = wanted.partition_index
    if not 0 <= number < len(topic.partitions):
        return _refused(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), []
    partition = topic.partitions[number]
    members = wanted.new_isr_with_epochs or [BrokerState(broker_id=one) for one in wanted.new_isr]
    code = _reason_to_refuse(image, partition, wanted, members, broker_id)
    if code is not None:
        return _refused(wanted, code), []
    record = leadership.change(
        topic,
        number,
        Wanted(isr=[one.broker_id for one in members], leader_recovery_state=wanted.leader_recovery_state),
    )
    if record is None:
        return _state(number, partition), []
    if record.leader not in (NO_LEADER_CHANGE, broker_id):
        return _refused(wanted, ErrorCode.NEW_LEADER_ELECTED), [record]
    return _state(number, changed_partition(partition, record)), [record]


def _reason_to_refuse(
    image: MetadataImage,
    partition: PartitionImage,
    wanted: RequestPartition,
    members: Sequence[BrokerState],
    broker_id: int,
) -> ErrorCode | None:
    isr = [one.broker_id for one in members]
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if wanted.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if wanted.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if not isr or len(set(isr)) != len(isr) or not set(isr).issubset(partition.replicas) or broker_id not in isr:
        return ErrorCode.INVALID_REQUEST
    if wanted.leader_recovery_state not in (RECOVERED, RECOVERING):
        return ErrorCode.INVALID_REQUEST
    if wanted.leader_recovery_state == RECOVERING and (len(isr) > 1 or partition.leader_recovery_state == RECOVERED):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(image, one) for one in members):
        return ErrorCode.INELIGIBLE_REPLICA
    return None


def _is_eligible(image: MetadataImage, member: BrokerState) -> bool:
    """Whether the replica's broker is alive, and the process that the leader knows; -1 stands for one whose epoch it doesn't."""
    broker = image.brokers.get(member.broker_id)
    return broker is not None and broker.is_active and member.broker_epoch in (-1, broker.epoch)


def _refused(wanted: RequestPartition, code: ErrorCode) -> ResponsePartition:
    return ResponsePartition(partition_index=wanted.partition_index, error_code=code)


def _state(number: int, partition: PartitionImage) -> ResponsePartition:
    return ResponsePartition(
        partition_index=number,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )
