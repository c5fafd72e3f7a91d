"""DeleteAcls (key 31, v1-3): without an authorizer there are no rules; each filter is refused by itself."""

from __future__ import annotations

from kafkapy.errors import ErrorCode, ProtocolError
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.describe_acls import UNKNOWN
from kafkapy.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


def handle(context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Refuse each filter, once all have turned out to be proper ones."""
    for one in request.filters:
        if UNKNOWN in (one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type):
            raise ProtocolError("a filter of access rules contains an unknown element")
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured.")
            for _ in request.filters
        ]
    )
