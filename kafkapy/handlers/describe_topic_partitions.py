"""DescribeTopicPartitions (key 75, v0): topics page by page. The first choice of Java's Admin.describeTopics, and so of Spark's driver.

Topics go by name, partitions by number; a page holds at most `max.request.partition.size.limit` partitions and says where the next one begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkapy.errors import ErrorCode
from kafkapy.handlers.cluster_view import TOPIC_OPERATIONS, Liveness
from kafkapy.handlers.context import RequestContext
from kafkapy.raft.topic_names import INTERNAL_TOPICS, is_valid_topic_name
from kafkapy.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from kafkapy.raft.image import PartitionImage


def handle(context: RequestContext, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """One page from the image."""
    image = context.broker.image
    liveness = Liveness(image)
    names = sorted({topic.name for topic in request.topics} if request.topics else set(image.topics.by_name))
    cursor = request.cursor
    if cursor is not None:
        asked = names
        names = [name for name in names if name >= cursor.topic_name]
        if cursor.partition_index < 0 or (request.topics and names[:1] != [cursor.topic_name]):
            return DescribeTopicPartitionsResponse(topics=[_refused(name, ErrorCode.INVALID_REQUEST) for name in asked])
    room = max(1, min(request.response_partition_limit, context.broker.config.max_request_partition_size_limit))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        topic = image.topics.get(name)
        if topic is None:
            valid = is_valid_topic_name(name)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION
            refused = _refused(name, unknown)
            refused.is_internal = name in INTERNAL_TOPICS
            refused.topic_authorized_operations = TOPIC_OPERATIONS
            response.topics.append(refused)
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if not room:
            response.next_cursor = Cursor(topic_name=name, partition_index=first)
            return response
        page = topic.partitions[first : first + room]
        room -= len(page)
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.id,
                is_internal=name in INTERNAL_TOPICS,
                partitions=[_partition(liveness, first + at, partition) for at, partition in enumerate(page)],
                topic_authorized_operations=TOPIC_OPERATIONS,
            )
        )
        if first + len(page) < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=first + len(page))
            return response
    return response


def _refused(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name)


def _partition(liveness: Liveness, index: int, partition: PartitionImage) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader < 0 else ErrorCode.NONE,
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.eligible_leader_replicas),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=liveness.offline(partition),
    )
