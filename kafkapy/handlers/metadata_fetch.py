"""Fetch as a controller's listener answers it: the metadata log, for brokers that are no voters (KIP-595).

Exactly one partition can be fetched, partition 0 of `__cluster_metadata`. Only what is committed is served, and only by the active
controller; anybody else answers with who that is. Who is behind the beginning of the log is told which snapshot to fetch. Who has what was
never committed here belongs to another cluster or has lost its disk: it is told where the logs part, as raft does.

v13: the topic is named by its id. v12: last fetched epoch, diverging epoch, snapshot id.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.wait import METADATA_CHANGED, Wait
from kafkapy.raft.metadata_log import METADATA_TOPIC_ID
from kafkapy.types import CLUSTER_METADATA_TOPIC
from kafkapy.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)

LAST_EPOCH_VERSION = 12
TOPIC_IDS_VERSION = 13
REPLICA_STATE_VERSION = 15
ENDPOINTS_VERSION = 16


def handle(context: RequestContext, request: FetchRequest) -> FetchResponse | Wait:
    """Answer with batches, or wait for the next ones."""
    broker = context.broker
    if request.cluster_id is not None and request.cluster_id != broker.image.cluster_id:
        return FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    asked = _metadata_partition(context, request)
    if asked is None or context.api_version < LAST_EPOCH_VERSION:
        return FetchResponse(error_code=ErrorCode.INVALID_REQUEST)

    def again(expired: bool) -> FetchResponse | None:
        answer = _answer(context, asked)
        has_news = answer.error_code or answer.records or answer.snapshot_id.end_offset >= 0
        if has_news or answer.diverging_epoch.end_offset >= 0 or expired:
            return _response(context, answer)
        return None

    if broker.controller.is_active:
        replica_id = (
            request.replica_state.replica_id if context.api_version >= REPLICA_STATE_VERSION else request.replica_id
        )
        broker.metadata.note_observer(replica_id, asked.replica_directory_id, asked.fetch_offset, context.now_ms)
    ready = again(expired=request.max_wait_ms <= 0)
    return ready if ready is not None else Wait((METADATA_CHANGED,), context.now_ms + request.max_wait_ms, again)


def _metadata_partition(context: RequestContext, request: FetchRequest) -> FetchPartition | None:
    """The one partition that may be asked for, if it is that."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic = request.topics[0]
    by_id = context.api_version >= TOPIC_IDS_VERSION
    named = topic.topic_id == METADATA_TOPIC_ID if by_id else topic.topic == CLUSTER_METADATA_TOPIC
    return topic.partitions[0] if named and topic.partitions[0].partition == 0 else None


def _answer(context: RequestContext, asked: FetchPartition) -> PartitionData:
    broker = context.broker
    epoch = broker.controller.epoch
    leader = LeaderIdAndEpoch(leader_id=broker.metadata.leader_id, leader_epoch=broker.image.epoch)
    answer = PartitionData(partition_index=0, high_watermark=-1, current_leader=leader, records=None)
    if epoch is None:
        answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return answer
    leader.leader_epoch = epoch
    if asked.current_leader_epoch > epoch:
        answer.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
        return answer
    if 0 <= asked.current_leader_epoch < epoch:
        answer.error_code = ErrorCode.FENCED_LEADER_EPOCH
        return answer
    log = broker.metadata.log
    answer.high_watermark = answer.last_stable_offset = log.end_offset
    answer.log_start_offset = log.start_offset
    snapshot = log.newest_snapshot
    if asked.fetch_offset < log.start_offset or (asked.fetch_offset == 0 and snapshot is not None):
        assert snapshot is not None, "a log that doesn't begin at 0 has a snapshot"
        answer.snapshot_id = SnapshotId(end_offset=snapshot[0], epoch=snapshot[1])
        return answer
    common = log.common_end(asked.fetch_offset, asked.last_fetched_epoch)
    if common is not None:
        answer.diverging_epoch = EpochEndOffset(epoch=common[0], end_offset=common[1])
        return answer
    answer.records = log.read(asked.fetch_offset, asked.partition_max_bytes)
    return answer


def _response(context: RequestContext, answer: PartitionData) -> FetchResponse:
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(topic=CLUSTER_METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[answer])
        ]
    )
    leader_id = answer.current_leader.leader_id
    if context.api_version >= ENDPOINTS_VERSION and leader_id >= 0:
        place = context.broker.metadata.voter_address(leader_id)
        if place is not None:
            response.node_endpoints = [NodeEndpoint(node_id=leader_id, host=place[0], port=place[1])]
    return response
