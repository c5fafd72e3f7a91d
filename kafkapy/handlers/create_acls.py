"""CreateAcls (key 30, v1-3): without an authorizer nobody would enforce a rule, so none is taken; each is refused by itself."""

from __future__ import annotations

from kafkapy.errors import ErrorCode, ProtocolError
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.describe_acls import UNKNOWN
from kafkapy.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def handle(context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Refuse each rule, once all have turned out to be proper ones."""
    for one in request.creations:
        if UNKNOWN in (one.resource_type, one.resource_pattern_type, one.operation, one.permission_type):
            raise ProtocolError("an access rule contains an unknown element")
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured.")
            for _ in request.creations
        ]
    )
