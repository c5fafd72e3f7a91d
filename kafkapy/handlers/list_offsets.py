"""ListOffsets (key 2, v1-11): offsets by timestamp, and the special ones. Consumers that start, lag monitors, Spark before every batch.

    timestamp  meaning                                 from version
    -1         the end: high watermark, or last stable offset when read_committed   1
    -2         the log's start                         1
    -3         the record with the largest timestamp   7 (KIP-734)
    -4         the start of the local log, which is the log's start here   8 (KIP-405)
    -5         the latest tiered offset: there is none here   9 (KIP-1005)
    -6         the earliest offset pending upload: there is none here   11 (KIP-1023)
    >= 0       the first record at or after it; none: offset and timestamp -1, and no error

Anything else, or a special one in too low a version: UNSUPPORTED_VERSION on the partition.

A new leader doesn't know at once how much was committed before it: until its high watermark has reached the beginning of its epoch, consumers are
told OFFSET_NOT_AVAILABLE (LEADER_NOT_AVAILABLE before version 5) rather than an end that lies before one they have been told already. The same for
a time whose record lies beyond the high watermark.
"""

from __future__ import annotations

from collections import Counter

from kafkapy.errors import ErrorCode, KafkaError, StorageError
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.lookup import led_partition, local_partition
from kafkapy.log.partition import Partition
from kafkapy.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
# A tool that asks any replica, not only the leader.
DEBUGGING_REPLICA = -2
_FIRST_VERSION = {
    LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11
}  # fmt: skip


def handle(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Look each partition up; an error is that partition's own. A partition named twice is refused, as Kafka does."""
    committed_only = request.isolation_level == 1
    named = Counter((topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions)
    topics = []
    for topic in request.topics:
        answers = []
        for asked in topic.partitions:
            try:
                if named[topic.name, asked.partition_index] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST)
                answers.append(_look_up(context, topic.name, asked, committed_only, request.replica_id))
            except KafkaError as error:
                answers.append(
                    ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error.code)
                )
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


def _look_up(
    context: RequestContext, topic: str, asked: ListOffsetsPartition, committed_only: bool, replica_id: int
) -> ListOffsetsPartitionResponse:
    timestamp = asked.timestamp
    if timestamp < 0 and context.api_version < _FIRST_VERSION.get(timestamp, 1 << 15):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if replica_id == DEBUGGING_REPLICA:
        partition = local_partition(context, topic, asked.partition_index)
        partition.check_epoch(asked.current_leader_epoch)
    else:
        partition = led_partition(context, topic, asked.partition_index, asked.current_leader_epoch)
    try:
        found_timestamp, offset, epoch = _find(context, partition, timestamp, committed_only, replica_id)
    except StorageError as error:
        context.broker.storage_failed(error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from error
    answer = ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, timestamp=found_timestamp, offset=offset
    )
    if context.api_version >= 4:
        answer.leader_epoch = epoch
    return answer


def _find(
    context: RequestContext, partition: Partition, timestamp: int, committed_only: bool, replica_id: int
) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch) of what was asked for."""
    log = partition.log
    if replica_id >= 0:
        end = log.log_end_offset
    else:
        end = partition.last_stable_offset if committed_only else partition.high_watermark
    if timestamp == LATEST:
        if replica_id < 0:
            _check_end_is_known(context, partition)
        return -1, end, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        return -1, start, log.epoch_for_offset(start)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return -1, -1, -1
    found = log.max_timestamp_offset() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if found is None or found.offset >= end:
        if timestamp >= 0 and replica_id < 0:
            _check_end_is_known(context, partition)
        return -1, -1, -1
    return found.timestamp, found.offset, found.leader_epoch


def _check_end_is_known(context: RequestContext, partition: Partition) -> None:
    """Refuse while a new leader can't tell yet how much is committed."""
    if partition.is_leader and len(partition.replicas) > 1 and partition.high_watermark < partition.epoch_start_offset:
        code = ErrorCode.OFFSET_NOT_AVAILABLE if context.api_version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE
        raise KafkaError(code, "the high watermark has not reached the leader's epoch yet")
