"""OffsetForLeaderEpoch (key 23, v2-4): where an epoch ended in the leader's log, so that others know what they share with it.

A consumer validates its position with it after a change of leader; Java and librdkafka do so whenever Metadata gives epochs.
v2: current leader epoch is checked (KIP-320). v3: replica id. v4: flexible.
"""

from __future__ import annotations

from kafkapy.errors import KafkaError
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.lookup import led_partition
from kafkapy.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(context: RequestContext, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Answer each partition on its own."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_answer(context, topic.topic, asked) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _answer(context: RequestContext, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = led_partition(context, topic, asked.partition, asked.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(partition=asked.partition, error_code=error.code)
    epoch, end_offset = partition.end_offset_for_epoch(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
