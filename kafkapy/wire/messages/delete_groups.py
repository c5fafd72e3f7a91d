"""DeleteGroups (key 42): deletes groups that have no members, with their offsets.

Versions
- 0: KIP-229.
- 1: throttled clients wait by themselves (KIP-219).
- 2: flexible (KIP-482).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, string


class DeleteGroupsRequest(Request, key=42, versions="0-2", flexible="2+"):
    """Delete these groups."""

    groups_names: list[str] = array(string)


class DeletableGroupResult(Struct):
    """How it went for one group."""

    group_id: str = string()
    error_code: int = int16()


class DeleteGroupsResponse(Response, key=42, versions="0-2", flexible="2+"):
    """How it went, group by group."""

    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
