"""DeleteAcls (key 31): remove the access rules that match filters; the numbers are explained in describe_acls.py.

Versions
- 1: prefixed names (KIP-290).
- 2: flexible (KIP-482).
- 3: rules about users (KIP-373).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int8, int16, int32, string


class DeleteAclsFilter(Struct):
    resource_type_filter: int = int8()
    # In these filters null matches everything.
    resource_name_filter: str | None = string(nullable="1+")
    pattern_type_filter: int = int8(default=3)
    principal_filter: str | None = string(nullable="1+")
    host_filter: str | None = string(nullable="1+")
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsMatchingAcl(Struct):
    """A rule that matched and is gone, unless it has an error of its own."""

    error_code: int = int16()
    error_message: str | None = string(nullable="1+")
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsFilterResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="1+")
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


class DeleteAclsRequest(Request, key=31, versions="1-3", flexible="2+"):
    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter)


class DeleteAclsResponse(Response, key=31, versions="1-3", flexible="2+"):
    throttle_time_ms: int = int32()
    # In the order of the request.
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)
