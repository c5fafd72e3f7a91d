"""DescribeAcls (key 29, v1-3): there is no authorizer, so there are no rules to tell of, and the answer says so.

An unknown number (0) in the filter is a malformed request to Apache Kafka, which closes the connection; so do we.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode, ProtocolError
from kafkapy.handlers.context import RequestContext
from kafkapy.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

UNKNOWN = 0


def handle(context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Refuse, once the request has turned out to be a proper one."""
    kinds = (
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )
    if UNKNOWN in kinds:
        raise ProtocolError("the filter of access rules contains an unknown element")
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )
