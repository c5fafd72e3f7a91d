"""ListGroups (key 16): the groups that this broker coordinates; a client asks all brokers. Admin, UIs, Burrow.

Versions
- 0: ids and protocol types.
- 1: throttle time (KIP-124).
- 2: throttled clients wait by themselves (KIP-219).
- 3: flexible (KIP-482).
- 4: filter by state, and the state of each group (KIP-518).
- 5: filter by group type, and the type of each group (KIP-848).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, string


class ListedGroup(Struct):
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+", ignorable=True)
    # classic, consumer, share or streams.
    group_type: str = string("5+", ignorable=True)


class ListGroupsRequest(Request, key=16, versions="0-5", flexible="3+"):
    # Empty filters let everything through; letter case does not count.
    states_filter: list[str] = array(string, "4+")
    types_filter: list[str] = array(string, "5+")


class ListGroupsResponse(Response, key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
