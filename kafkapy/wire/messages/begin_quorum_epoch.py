"""BeginQuorumEpoch (key 53): a new leader of the metadata quorum makes itself known to the voters.

Versions
- 0: KIP-595.
- 1: flexible; directory ids, and where the leader listens (KIP-853).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, string, uint16, uuid


class RequestPartition(Struct):
    """The leadership of one partition's quorum."""

    partition_index: int = int32()
    voter_directory_id: bytes = uuid("1+", ignorable=True)
    leader_id: int = int32()
    leader_epoch: int = int32()


class RequestTopic(Struct):
    """Leaderships in one topic."""

    topic_name: str = string()
    partitions: list[RequestPartition] = array(RequestPartition)


class LeaderEndpoint(Struct):
    """Where one listener of the leader can be reached."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class BeginQuorumEpochRequest(Request, key=53, versions="0-1", flexible="1+"):
    """I lead."""

    cluster_id: str | None = string(nullable="0+", default=None)
    voter_id: int = int32("1+", default=-1, ignorable=True)  # Who is told.
    topics: list[RequestTopic] = array(RequestTopic)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+", ignorable=True)


class ResponsePartition(Struct):
    """What the voter knows of one partition's quorum."""

    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


class ResponseTopic(Struct):
    """What the voter knows in one topic."""

    topic_name: str = string()
    partitions: list[ResponsePartition] = array(ResponsePartition)


class NodeEndpoint(Struct):
    """Where a leader named above can be reached."""

    node_id: int = int32()
    host: str = string()
    port: int = uint16()


class BeginQuorumEpochResponse(Response, key=53, versions="0-1", flexible="1+"):
    """Accepted, or who leads instead."""

    error_code: int = int16()
    topics: list[ResponseTopic] = array(ResponseTopic)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, tagged="1+")
