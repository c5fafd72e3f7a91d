"""DeleteRecords (key 21, v0-2): move a log's start forward; whole segments below it are deleted soon after.

An offset of -1 is the high watermark. Beyond the high watermark: OFFSET_OUT_OF_RANGE. A compacted topic refuses with POLICY_VIOLATION,
because compaction, not the client, decides what goes. The answer waits until the followers whose brokers live have deleted the records too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkapy.errors import ErrorCode, KafkaError, StorageError
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.lookup import led_partition
from kafkapy.handlers.wait import Wait
from kafkapy.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from kafkapy.log.partition import Partition


class Pending(NamedTuple):
    """A partition whose followers have not deleted the records yet."""

    partition: Partition
    offset: int
    leader_epoch: int
    answer: DeleteRecordsPartitionResult


def handle(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse | Wait:
    """Answer each partition on its own, all together when the last of them is done."""
    pending: list[Pending] = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_delete(context, topic.name, asked, pending) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )
    if not pending:
        return response

    def again(expired: bool) -> DeleteRecordsResponse | None:
        pending[:] = [entry for entry in pending if not _is_done(context, entry)]
        if pending and not expired:
            return None
        for entry in pending:
            entry.answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        return response

    keys = tuple(entry.partition for entry in pending)
    return Wait(keys, context.now_ms + max(0, request.timeout_ms), again)


def _is_done(context: RequestContext, entry: Pending) -> bool:
    """Whether there is nothing left to wait for in this partition."""
    partition, answer = entry.partition, entry.answer
    if not partition.is_leader or partition.leader_epoch != entry.leader_epoch:
        answer.error_code, answer.low_watermark = ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        return True
    answer.low_watermark = _low_watermark(context, partition)
    return answer.low_watermark >= entry.offset


def _low_watermark(context: RequestContext, partition: Partition) -> int:
    """What is before it is gone from all replicas whose broker lives."""
    brokers = context.broker.image.brokers
    return partition.low_watermark(lambda node: node in brokers and brokers[node].is_active)


def _delete(
    context: RequestContext, topic: str, asked: DeleteRecordsPartition, pending: list[Pending]
) -> DeleteRecordsPartitionResult:
    try:
        partition = led_partition(context, topic, asked.partition_index)
        partition.delete_records(asked.offset)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(
            partition_index=asked.partition_index, low_watermark=-1, error_code=error.code
        )
    except StorageError as error:
        context.broker.storage_failed(error)
        return DeleteRecordsPartitionResult(
            partition_index=asked.partition_index, low_watermark=-1, error_code=ErrorCode.KAFKA_STORAGE_ERROR
        )
    context.broker.wake(partition)
    offset = partition.high_watermark if asked.offset == -1 else asked.offset
    answer = DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=_low_watermark(context, partition)
    )
    if answer.low_watermark < offset:
        pending.append(Pending(partition, offset, partition.leader_epoch, answer))
    return answer
