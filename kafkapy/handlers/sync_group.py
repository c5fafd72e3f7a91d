"""SyncGroup (key 14, v0-5): the leader of a classic group hands in the assignment, the others wait for theirs."""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.group_replies import answer, caller
from kafkapy.handlers.wait import Wait
from kafkapy.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(context: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse | Wait:
    """Hand the request to the coordinator."""
    response: SyncGroupResponse | Wait = answer(context, context.broker.groups.sync_group(caller(context), request))
    return response
