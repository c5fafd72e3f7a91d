"""DescribeQuorum (key 55): who leads the metadata quorum, and how far its voters and observers have come.

Versions
- 0: KIP-595.
- 1: when each replica fetched last, and when it had last caught up (KIP-836).
- 2: error messages, directory ids, and the listeners of the nodes (KIP-853).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, int64, string, uint16, uuid


class RequestPartition(Struct):
    """A partition: the metadata log has only partition 0."""

    partition_index: int = int32()


class RequestTopic(Struct):
    """A topic: only `__cluster_metadata` has a quorum."""

    topic_name: str = string()
    partitions: list[RequestPartition] = array(RequestPartition)


class DescribeQuorumRequest(Request, key=55, versions="0-2", flexible="0+"):
    """How are the quorums of these partitions?"""

    topics: list[RequestTopic] = array(RequestTopic)


class ReplicaState(Struct):
    """How far a replica has come, as the leader sees it."""

    replica_id: int = int32()
    replica_directory_id: bytes = uuid("2+")
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = int64("1+", default=-1, ignorable=True)


class ResponsePartition(Struct):
    """The quorum of a partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+", ignorable=True)
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[ReplicaState] = array(ReplicaState)
    observers: list[ReplicaState] = array(ReplicaState)


class ResponseTopic(Struct):
    """The quorums of a topic's partitions."""

    topic_name: str = string()
    partitions: list[ResponsePartition] = array(ResponsePartition)


class Listener(Struct):
    """Where a node can be reached."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class Node(Struct):
    """A voter."""

    node_id: int = int32()
    listeners: list[Listener] = array(Listener)


class DescribeQuorumResponse(Response, key=55, versions="0-2", flexible="0+"):
    """The quorums."""

    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+", ignorable=True)
    topics: list[ResponseTopic] = array(ResponseTopic)
    nodes: list[Node] = array(Node, "2+")
