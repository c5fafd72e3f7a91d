"""DescribeAcls (key 29): the access rules that match a filter. Admin, kafka-acls, terraform, UIs.

Numbers, here and in the two modules about creating and deleting rules. Resource type: 1 any, 2 topic, 3 group,
4 cluster, 5 transactional id, 6 delegation token, 7 user. Pattern type: 1 any, 2 match, 3 literal, 4 prefixed; any and
match are for filters only. Permission: 1 any, 2 deny, 3 allow. Operation: 1 any, 2 all, then the single ones.

Versions
- 1: prefixed names (KIP-290).
- 2: flexible (KIP-482).
- 3: rules about users, for delegation tokens on somebody's behalf (KIP-373).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int8, int16, int32, string


class AclDescription(Struct):
    # As "User:name".
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DescribeAclsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)
    acls: list[AclDescription] = array(AclDescription)


class DescribeAclsRequest(Request, key=29, versions="1-3", flexible="2+"):
    resource_type_filter: int = int8()
    # In these filters null matches everything.
    resource_name_filter: str | None = string(nullable="1+")
    pattern_type_filter: int = int8(default=3)
    principal_filter: str | None = string(nullable="1+")
    host_filter: str | None = string(nullable="1+")
    operation: int = int8()
    permission_type: int = int8()


class DescribeAclsResponse(Response, key=29, versions="1-3", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="1+")
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)
