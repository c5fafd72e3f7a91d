"""SyncGroup (key 14): the leader of a classic group hands in the assignment, every member picks up its own share.

Versions
- 0: the bare exchange.
- 1: throttle time (KIP-124).
- 2: throttled clients wait by themselves (KIP-219).
- 3: static members (KIP-345).
- 4: flexible (KIP-482).
- 5: both sides name the protocol they believe in, so that a mix-up shows (KIP-559).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, bytes_, int16, int32, string


class SyncGroupRequestAssignment(Struct):
    member_id: str = string()
    # Opaque to the broker; for a consumer it is ConsumerProtocolAssignment.
    assignment: bytes = bytes_()


class SyncGroupRequest(Request, key=14, versions="0-5", flexible="4+"):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    # Empty from everyone but the leader.
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


class SyncGroupResponse(Response, key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = bytes_()
