"""DescribeQuorum (key 55, v0-2): who leads the metadata quorum and how far its voters are. kafka-metadata-quorum, UIs.

Apache Kafka answers for exactly one topic with exactly one partition, `__cluster_metadata-0`; whatever else is asked makes every
partition of the request one that isn't here. v1: fetch times. v2: messages, directory ids, listeners of the nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.raft.quorum import VoterProgress
from kafkapy.types import CLUSTER_METADATA_TOPIC
from kafkapy.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    RequestTopic,
    ResponsePartition,
    ResponseTopic,
)

if TYPE_CHECKING:
    from kafkapy.raft.node import MetadataNode

# A node without a vote that has not fetched for this long is not listed any more.
OBSERVER_FORGOTTEN_MS = 300_000


def handle(context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Answer from the committed image, whose end is the high watermark, and from what the leader has heard of the others."""
    if not _is_metadata_partition(request.topics):
        return DescribeQuorumResponse(error_message="", topics=[_unknown(topic) for topic in request.topics])
    controller = context.broker.controller
    if controller.epoch is None:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition = ResponsePartition(error_code=code, error_message=code.explanation, leader_id=-1)
        return DescribeQuorumResponse(
            error_message="", topics=[ResponseTopic(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])]
        )
    metadata = context.broker.metadata
    voters = sorted({*metadata.settings.voters, metadata.settings.node_id})
    partition = ResponsePartition(
        error_message="",
        leader_id=metadata.settings.node_id,
        leader_epoch=controller.epoch,
        high_watermark=metadata.image.next_offset,
        current_voters=[_voter(metadata, controller.image.next_offset, node_id, context.now_ms) for node_id in voters],
        observers=[
            ReplicaState(
                replica_id=node_id,
                replica_directory_id=seen.directory_id,
                log_end_offset=seen.fetch_offset,
                last_fetch_timestamp=seen.fetch_time_ms,
                last_caught_up_timestamp=seen.caught_up_time_ms,
            )
            for node_id, seen in sorted(metadata.observers.items())
            if context.now_ms - seen.fetch_time_ms < OBSERVER_FORGOTTEN_MS
        ],
    )
    return DescribeQuorumResponse(
        error_message="",
        topics=[ResponseTopic(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
        nodes=[_node(context, node_id) for node_id in voters] if context.api_version >= 2 else [],
    )


def _voter(metadata: MetadataNode, end_offset: int, node_id: int, now_ms: int) -> ReplicaState:
    """A voter's state. The leader doesn't fetch from itself: it is where it is, now."""
    if node_id == metadata.settings.node_id:
        progress = VoterProgress(end_offset, now_ms, now_ms)
    else:
        progress = metadata.quorum.progress.get(node_id, VoterProgress(-1, -1, -1))
    return ReplicaState(
        replica_id=node_id,
        log_end_offset=progress.log_end_offset,
        last_fetch_timestamp=progress.fetch_time_ms,
        last_caught_up_timestamp=progress.caught_up_time_ms,
    )


def _is_metadata_partition(topics: list[RequestTopic]) -> bool:
    return (
        len(topics) == 1
        and topics[0].topic_name == CLUSTER_METADATA_TOPIC
        and [one.partition_index for one in topics[0].partitions] == [0]
    )


def _unknown(topic: RequestTopic) -> ResponseTopic:
    return ResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            ResponsePartition(
                partition_index=one.partition_index,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                error_message="This server does not host this topic-partition.",
            )
            for one in topic.partitions
        ],
    )


def _node(context: RequestContext, node_id: int) -> Node:
    """A voter with its controller's listeners: as it has registered them, else as the list of voters has them. On one node there may be none."""
    metadata = context.broker.metadata
    registration = metadata.image.controllers.get(node_id)
    if registration is not None:
        places = [Listener(name=one.name, host=one.host, port=one.port) for one in registration.listeners]
    else:
        address = metadata.voter_address(node_id)
        names = context.broker.config.controller_listener_names
        places = [Listener(name=names[0].upper(), host=address[0], port=address[1])] if address and names else []
    return Node(node_id=node_id, listeners=places)
