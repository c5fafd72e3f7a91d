"""LeaveGroup (key 13, v0-5): give up membership of a classic group. v3+: many members at once, also by instance id."""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.group_replies import answer, caller
from kafkapy.handlers.wait import Wait
from kafkapy.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def handle(context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse | Wait:
    """Hand the request to the coordinator."""
    response: LeaveGroupResponse | Wait = answer(context, context.broker.groups.leave_group(caller(context), request))
    return response
