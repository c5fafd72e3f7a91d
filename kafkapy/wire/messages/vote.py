"""Vote (key 52): a candidate asks a voter of the metadata quorum for its vote.

Versions
- 0: KIP-595.
- 1: directory ids, because a voter with an empty disk is another voter (KIP-853).
- 2: pre-votes, which ask whether an election would succeed before anyone's epoch grows (KIP-996).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int16, int32, int64, string, uint16, uuid


class RequestPartition(Struct):
    """A candidacy for one partition's quorum."""

    partition_index: int = int32()
    replica_epoch: int = int32()
    replica_id: int = int32()  # The candidate.
    replica_directory_id: bytes = uuid("1+", ignorable=True)
    voter_directory_id: bytes = uuid("1+", ignorable=True)
    last_offset_epoch: int = int32()  # Only a candidate whose log is at least as new as the voter's can win its vote.
    last_offset: int = int64()
    pre_vote: bool = boolean("2+")


class RequestTopic(Struct):
    """Candidacies in one topic."""

    topic_name: str = string()
    partitions: list[RequestPartition] = array(RequestPartition)


class VoteRequest(Request, key=52, versions="0-2", flexible="0+"):
    """Vote for me."""

    cluster_id: str | None = string(nullable="0+", default=None)
    voter_id: int = int32("1+", default=-1, ignorable=True)  # Who is asked.
    topics: list[RequestTopic] = array(RequestTopic)


class ResponsePartition(Struct):
    """The vote for one partition's quorum."""

    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    vote_granted: bool = boolean()


class ResponseTopic(Struct):
    """The votes in one topic."""

    topic_name: str = string()
    partitions: list[ResponsePartition] = array(ResponsePartition)


class NodeEndpoint(Struct):
    """Where a leader named above can be reached."""

    node_id: int = int32()
    host: str = string()
    port: int = uint16()


class VoteResponse(Response, key=52, versions="0-2", flexible="0+"):
    """Granted or not, and who leads if anyone does."""

    error_code: int = int16()
    topics: list[ResponseTopic] = array(ResponseTopic)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, tagged="1+")
