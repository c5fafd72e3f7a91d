"""JoinGroup (key 11, v0-9): become a member of a classic group, or join its next generation.

The answer comes when all members have joined, or the rebalance timeout is over. From v4 on a newcomer is first told
its member id (MEMBER_ID_REQUIRED). See groups/states.py for what a group does with it.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.group_replies import answer, caller
from kafkapy.handlers.wait import Wait
from kafkapy.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse


def handle(context: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse | Wait:
    """Hand the request to the coordinator."""
    response: JoinGroupResponse | Wait = answer(context, context.broker.groups.join_group(caller(context), request))
    return response
