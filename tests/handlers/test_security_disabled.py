"""Access rules without an authorizer: refused in the shape of each request, in Apache Kafka's words."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kafkapy.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafkapy.wire.messages.describe_acls import DescribeAclsRequest
from kafkapy.wire.schema import Request
from tests.support.wire_client import WireClient

ANY = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
RULE = {
    "resource_type": 2,
    "resource_name": "t",
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_are_refused(wire: WireClient, version: int) -> None:
    """Describing is refused as a whole, creating and deleting once for each rule and filter."""
    described = wire.request(DescribeAclsRequest(**ANY), version)
    assert (described.error_code, described.resources) == (ErrorCode.SECURITY_DISABLED, [])
    assert described.error_message == "No Authorizer is configured on the broker"
    created = wire.request(CreateAclsRequest(creations=[AclCreation(**RULE), AclCreation(**RULE)]), version)
    assert [(one.error_code, one.error_message) for one in created.results] == [
        (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    ] * 2
    deleted = wire.request(DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY)]), version)
    assert [(one.error_code, one.error_message, one.matching_acls) for one in deleted.filter_results] == [
        (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.", [])
    ]


@pytest.mark.parametrize(
    "request_",
    [
        DescribeAclsRequest(**{**ANY, "resource_type_filter": 0}),
        CreateAclsRequest(creations=[AclCreation(**RULE), AclCreation(**{**RULE, "operation": 0})]),
        DeleteAclsRequest(filters=[DeleteAclsFilter(**{**ANY, "permission_type": 0})]),
    ],
    ids=["describe", "create", "delete"],
)
def test_unknown_elements_close_the_connection(wire: WireClient, request_: Request) -> None:
    """The number that stands for "unknown" makes no rule and no filter."""
    wire.send(request_, 3)
    assert wire.is_closed()
