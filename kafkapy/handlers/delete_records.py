"""DeleteRecords (key 21, v0-2): move a log's start forward; whole segments below it are deleted soon after.

An offset of -1 is the high watermark. Beyond the high watermark: OFFSET_OUT_OF_RANGE. A compacted topic refuses with POLICY_VIOLATION,
because compaction, not the client, decides what goes.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode, KafkaError, StorageError
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.lookup import led_partition
from kafkapy.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def handle(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Answer each partition on its own."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_delete(context, topic.name, asked) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _delete(context: RequestContext, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    try:
        partition = led_partition(context, topic, asked.partition_index)
        low_watermark = partition.delete_records(asked.offset)
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
    return DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=low_watermark)
