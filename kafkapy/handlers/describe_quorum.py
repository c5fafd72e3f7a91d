"""DescribeQuorum (key 55, v0-2): who leads the metadata quorum and how far its voters are. kafka-metadata-quorum, UIs.

Apache Kafka answers for exactly one topic with exactly one partition, `__cluster_metadata-0`; whatever else is asked makes every
partition of the request one that isn't here. v1: fetch times. v2: messages, directory ids, listeners of the nodes.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.raft.image import MetadataImage
from kafkapy.raft.topic_names import CLUSTER_METADATA_TOPIC
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


def handle(context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Answer from the committed image, whose end is the high watermark, and the controller's, which is ahead by what is in flight."""
    if not _is_metadata_partition(request.topics):
        return DescribeQuorumResponse(error_message="", topics=[_unknown(topic) for topic in request.topics])
    controller = context.broker.controller
    image = context.broker.image
    if controller.epoch is None:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition = ResponsePartition(error_code=code, error_message=code.explanation, leader_id=-1)
        return DescribeQuorumResponse(
            error_message="", topics=[ResponseTopic(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])]
        )
    node_id = context.broker.config.node_id
    # The leader doesn't fetch from itself: it is where it is, now.
    leader = ReplicaState(
        replica_id=node_id,
        log_end_offset=controller.image.next_offset,
        last_fetch_timestamp=context.now_ms,
        last_caught_up_timestamp=context.now_ms,
    )
    partition = ResponsePartition(
        error_message="",
        leader_id=node_id,
        leader_epoch=controller.epoch,
        high_watermark=image.next_offset,
        current_voters=[leader],
    )
    return DescribeQuorumResponse(
        error_message="",
        topics=[ResponseTopic(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
        nodes=[_node(image, node_id)] if context.api_version >= 2 else [],
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


def _node(image: MetadataImage, node_id: int) -> Node:
    """The voter with the listeners at which its controller registered; on one node nobody else has to reach it, so there may be none."""
    registration = image.controllers.get(node_id)
    listeners = () if registration is None else registration.listeners
    return Node(node_id=node_id, listeners=[Listener(name=one.name, host=one.host, port=one.port) for one in listeners])
