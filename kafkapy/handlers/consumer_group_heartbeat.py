"""ConsumerGroupHeartbeat (key 68, v0-1): join, stay in and leave a consumer group (KIP-848).

v0: the coordinator draws a newcomer's member id. v1: the client does, and may subscribe by a regular expression. See
groups/consumer_protocol.py.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.group_replies import answer, caller
from kafkapy.handlers.wait import Wait
from kafkapy.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

GROUP_VERSION = "group.version"


def handle(context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse | Wait:
    """Hand the request to the coordinator, unless the cluster has this kind of group switched off."""
    if not context.broker.image.features.get(GROUP_VERSION):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    reply = context.broker.groups.consumer_group_heartbeat(caller(context), request)
    response: ConsumerGroupHeartbeatResponse | Wait = answer(context, reply)
    return response
