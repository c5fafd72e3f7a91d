"""AddRaftVoter (key 80): makes a controller a voter of the metadata quorum.

Versions
- 0: KIP-853.
- 1: whether the answer comes only after the new set of voters is committed.
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int16, int32, string, uint16, uuid


class Listener(Struct):
    """Where one listener of the voter can be reached."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class AddRaftVoterRequest(Request, key=80, versions="0-1", flexible="0+"):
    """Add this voter."""

    cluster_id: str | None = string(nullable="0+")
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    listeners: list[Listener] = array(Listener)
    ack_when_committed: bool = boolean("1+", default=True)


class AddRaftVoterResponse(Response, key=80, versions="0-1", flexible="0+"):
    """How it went."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", ignorable=True)
