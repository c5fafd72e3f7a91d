"""JoinGroup (key 11): become a member of a classic group. Consumers, Connect and schema registries.

The coordinator holds the answers back until every member has joined again or the rebalance timeout is over. The
leader alone learns the other members, since it is the one that hands out the partitions.

Versions
- 0: the session timeout serves as rebalance timeout too.
- 1: a rebalance timeout of its own (KIP-62).
- 2: throttle time (KIP-124).
- 3: throttled clients wait by themselves (KIP-219).
- 4: a new member is first told its id with MEMBER_ID_REQUIRED and joins again with it (KIP-394).
- 5: static members (KIP-345).
- 6: flexible (KIP-482).
- 7: the answer repeats the protocol's type, and its name may be null (KIP-559).
- 8: the member says why it joins (KIP-800).
- 9: the leader may be told to leave the assignment as it is (KIP-814).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, bytes_, int16, int32, string


class JoinGroupRequestProtocol(Struct):
    name: str = string()
    # Opaque to the broker; for a consumer it is ConsumerProtocolSubscription.
    metadata: bytes = bytes_()


class JoinGroupResponseMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    # Of the protocol that was chosen.
    metadata: bytes = bytes_()


class JoinGroupRequest(Request, key=11, versions="0-9", flexible="6+"):
    group_id: str = string()
    session_timeout_ms: int = int32()
    # -1: the session timeout.
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    # Empty when joining for the first time.
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string()
    # In the member's order of preference; the coordinator takes one that all members have.
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponse(Response, key=11, versions="0-9", flexible="6+"):
    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    # Empty for everyone but the leader.
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
