"""CreateAcls (key 30): add access rules; the numbers are explained in describe_acls.py. Admin, kafka-acls, terraform.

Versions
- 1: prefixed names (KIP-290).
- 2: flexible (KIP-482).
- 3: rules about users (KIP-373).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int8, int16, int32, string


class AclCreation(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class AclCreationResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="1+")


class CreateAclsRequest(Request, key=30, versions="1-3", flexible="2+"):
    creations: list[AclCreation] = array(AclCreation)


class CreateAclsResponse(Response, key=30, versions="1-3", flexible="2+"):
    throttle_time_ms: int = int32()
    # In the order of the request.
    results: list[AclCreationResult] = array(AclCreationResult)
