"""Heartbeat (key 12, v0-4): a member of a classic group is alive; REBALANCE_IN_PROGRESS tells it to join again."""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.group_replies import caller
from kafkapy.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    """Hand the request to the coordinator."""
    response: HeartbeatResponse = context.broker.groups.heartbeat(caller(context), request)
    return response
