"""DescribeTopicPartitions (key 75): topics partition by partition, a page at a time.

Unlike Metadata it tells the eligible leader replicas (KIP-966), and an answer stays small however large the topics are.
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int16, int32, string, struct, uuid


class TopicRequest(Struct):
    """A topic to describe."""

    name: str = string()


class Cursor(Struct):
    """Where a page begins: topics go by name, partitions by number."""

    topic_name: str = string()
    partition_index: int = int32()


class DescribeTopicPartitionsRequest(Request, key=75, versions="0", flexible="0+"):
    """Describe these topics, or all if none is named."""

    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: Cursor | None = struct(Cursor, nullable="0+", default=None)  # The last answer's next_cursor.


class DescribeTopicPartitionsResponsePartition(Struct):
    """A partition."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1, ignorable=True)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    eligible_leader_replicas: list[int] | None = array(int32, nullable="0+", default=None)
    last_known_elr: list[int] | None = array(int32, nullable="0+", default=None)
    offline_replicas: list[int] = array(int32, ignorable=True)


class DescribeTopicPartitionsResponseTopic(Struct):
    """A topic with those of its partitions that fit the page."""

    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: bytes = uuid(ignorable=True)
    is_internal: bool = boolean(ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(DescribeTopicPartitionsResponsePartition)
    topic_authorized_operations: int = int32(default=-2147483648)  # One bit per ACL operation.


class DescribeTopicPartitionsResponse(Response, key=75, versions="0", flexible="0+"):
    """A page."""

    throttle_time_ms: int = int32(ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: Cursor | None = struct(Cursor, nullable="0+", default=None)  # Null on the last page.
