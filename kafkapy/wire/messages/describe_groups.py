"""DescribeGroups (key 15): the state and members of classic groups. kafka-consumer-groups, Admin, UIs.

The coordinator of each group answers. A group that does not exist is reported as dead.

Versions
- 0: state, protocol and members.
- 1: throttle time (KIP-124).
- 2: throttled clients wait by themselves (KIP-219).
- 3: authorized operations on request (KIP-430).
- 4: instance ids of static members (KIP-345).
- 5: flexible (KIP-482).
- 6: an unknown group, or one of another type, is the error GROUP_ID_NOT_FOUND with a message (KIP-1043).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, bytes_, int16, int32, string


class DescribedGroupMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
    client_id: str = string()
    # As Java prints an address: a slash in front.
    client_host: str = string()
    # What the member gave at JoinGroup and got at SyncGroup, opaque to the broker.
    member_metadata: bytes = bytes_()
    member_assignment: bytes = bytes_()


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    # The name of the chosen protocol; empty unless the group is stable.
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    # A bit set as in Metadata; the default says "not asked for".
    authorized_operations: int = int32("3+", default=-(2**31))


class DescribeGroupsRequest(Request, key=15, versions="0-6", flexible="5+"):
    groups: list[str] = array(string)
    include_authorized_operations: bool = boolean("3+")


class DescribeGroupsResponse(Response, key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup)
