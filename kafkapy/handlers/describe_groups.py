"""DescribeGroups (key 15, v0-6): state and members of classic groups.

A group that does not exist, or is of another type, is described as Dead; v6 says GROUP_ID_NOT_FOUND with it. Subscriptions
are shown of stable groups only, because they are those for the chosen protocol; assignments are the last that were handed out.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.groups.classic_group import ClassicGroup
from kafkapy.groups.states import GroupState
from kafkapy.handlers.cluster_view import GROUP_OPERATIONS
from kafkapy.handlers.context import RequestContext
from kafkapy.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

NOT_FOUND_VERSION = 6


def handle(context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Describe each group on its own."""
    described = [_describe(context, group_id) for group_id in request.groups]
    if request.include_authorized_operations:
        for group in described:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=described)


def _describe(context: RequestContext, group_id: str) -> DescribedGroup:
    try:
        group = context.broker.groups.describe_classic_group(group_id)
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            return DescribedGroup(group_id=group_id, error_code=error.code)
        if context.api_version < NOT_FOUND_VERSION:
            return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        return DescribedGroup(
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            error_code=error.code,
            error_message=error.message,
        )
    return _describe_group(group)


def _describe_group(group: ClassicGroup) -> DescribedGroup:
    is_stable = group.state is GroupState.STABLE
    protocol = (group.protocol_name or "") if is_stable else ""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.protocols.get(protocol, b"") if is_stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )
