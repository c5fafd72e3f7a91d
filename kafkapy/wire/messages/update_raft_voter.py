"""UpdateRaftVoter (key 82): a voter of the metadata quorum tells the leader where it listens and what it can run.

It tells it because the voters stand in the log itself (KIP-853).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, string, struct, uint16, uuid


class Listener(Struct):
    """Where one listener of the voter can be reached."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class KRaftVersionFeature(Struct):
    """The range of kraft.version that the voter can run."""

    min_supported_version: int = int16()
    max_supported_version: int = int16()


class UpdateRaftVoterRequest(Request, key=82, versions="0", flexible="0+"):
    """This is me now."""

    cluster_id: str | None = string(nullable="0+")
    current_leader_epoch: int = int32()
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    listeners: list[Listener] = array(Listener)
    k_raft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature)


class CurrentLeader(Struct):
    """The leader that the answering node knows."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)
    host: str = string()
    port: int = int32()


class UpdateRaftVoterResponse(Response, key=82, versions="0", flexible="0+"):
    """How it went."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    current_leader: CurrentLeader = struct(CurrentLeader, tag=0, tagged="0+")
