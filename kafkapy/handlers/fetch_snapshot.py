"""FetchSnapshot (key 59, v0-1): a snapshot of the metadata log, part by part, for a broker that lags behind the log's beginning (KIP-630).

Served by the active controller only, on the controllers' listeners. v1: where the leader is.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.types import CLUSTER_METADATA_TOPIC
from kafkapy.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderIdAndEpoch,
    RequestPartition,
    ResponsePartition,
    ResponseTopic,
)


def handle(context: RequestContext, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    """Answer with the bytes at the position asked for."""
    if request.cluster_id is not None and request.cluster_id != context.broker.image.cluster_id:
        return FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    return FetchSnapshotResponse(
        topics=[
            ResponseTopic(
                name=topic.name,
                partitions=[_part(context, topic.name, one, request.max_bytes) for one in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _part(context: RequestContext, topic: str, asked: RequestPartition, max_bytes: int) -> ResponsePartition:
    broker = context.broker
    epoch = broker.controller.epoch
    part = ResponsePartition(
        index=asked.partition,
        snapshot_id=asked.snapshot_id,
        position=asked.position,
        current_leader=LeaderIdAndEpoch(leader_id=broker.metadata.leader_id, leader_epoch=broker.image.epoch),
        unaligned_records=b"",
    )
    if topic != CLUSTER_METADATA_TOPIC or asked.partition != 0:
        part.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif epoch is None:
        part.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    elif asked.current_leader_epoch > epoch:
        part.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
    elif 0 <= asked.current_leader_epoch < epoch:
        part.error_code = ErrorCode.FENCED_LEADER_EPOCH
    else:
        part.current_leader.leader_epoch = epoch
        snapshot = (asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        found = broker.metadata.log.read_snapshot_part(snapshot, max(0, asked.position), max(0, max_bytes))
        if found is None:
            part.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        elif not 0 <= asked.position < found[1]:
            part.error_code = ErrorCode.POSITION_OUT_OF_RANGE
        else:
            part.unaligned_records, part.size = found
    return part
