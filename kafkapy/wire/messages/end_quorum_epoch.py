"""EndQuorumEpoch (key 54): a leader of the metadata quorum steps down, so that the voters need not wait for its silence.

Versions
- 0: KIP-595.
- 1: flexible; candidates with their directory ids, and where the leader listens (KIP-853).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, string, uint16, uuid


class ReplicaInfo(Struct):
    """A voter that may take over."""

    candidate_id: int = int32()
    candidate_directory_id: bytes = uuid()


class RequestPartition(Struct):
    """The end of one partition's leadership. Voters that have come furthest stand first among the candidates."""

    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32()
    preferred_successors: list[int] = array(int32, "0", ignorable=True)
    preferred_candidates: list[ReplicaInfo] = array(ReplicaInfo, "1+", ignorable=True)


class RequestTopic(Struct):
    """Ends of leaderships in one topic."""

    topic_name: str = string()
    partitions: list[RequestPartition] = array(RequestPartition)


class LeaderEndpoint(Struct):
    """Where one listener of the leader can be reached."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class EndQuorumEpochRequest(Request, key=54, versions="0-1", flexible="1+"):
    """I no longer lead."""

    cluster_id: str | None = string(nullable="0+", default=None)
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


class EndQuorumEpochResponse(Response, key=54, versions="0-1", flexible="1+"):
    """Heard, or who leads instead."""

    error_code: int = int16()
    topics: list[ResponseTopic] = array(ResponseTopic)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, tagged="1+")
