"""LeaveGroup (key 13): give up membership of a classic group. Consumers at close; Admin to remove members.

Versions
- 0: one member, by its id.
- 1: throttle time (KIP-124).
- 2: throttled clients wait by themselves (KIP-219).
- 3: many members, also static ones by their instance id, each with its own error (KIP-345).
- 4: flexible (KIP-482).
- 5: a member says why it leaves (KIP-800).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, string


class MemberIdentity(Struct):
    # Empty when a static member is named by its instance id alone.
    member_id: str = string()
    group_instance_id: str | None = string(nullable="3+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)


class MemberResponse(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable="3+")
    error_code: int = int16()


class LeaveGroupRequest(Request, key=13, versions="0-5", flexible="4+"):
    group_id: str = string()
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


class LeaveGroupResponse(Response, key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, "3+")
