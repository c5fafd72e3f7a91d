"""RemoveRaftVoter (key 81): takes a controller's vote in the metadata quorum away (KIP-853)."""

from kafkapy.wire.schema import Request, Response, int16, int32, string, uuid


class RemoveRaftVoterRequest(Request, key=81, versions="0", flexible="0+"):
    """Remove this voter."""

    cluster_id: str | None = string(nullable="0+")
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()


class RemoveRaftVoterResponse(Response, key=81, versions="0", flexible="0+"):
    """How it went."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", ignorable=True)
