"""Deletes groups that have no members, with their offsets.

Version 1: a throttled client is told so in an answer that isn't held back.
Version 2: compact encodings.
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
