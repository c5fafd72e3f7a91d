"""BrokerHeartbeat (key 63, v0-2): a broker tells the active controller that it lives, and asks to be unfenced or to stop.

The answer leaves when what follows from it is committed: a broker that is told to be unfenced, is.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.decisions import decide_all
from kafkapy.handlers.wait import Wait
from kafkapy.raft.membership import heartbeat
from kafkapy.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

# The request has no time limit of its own.
TIMEOUT_MS = 30_000


def handle(context: RequestContext, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse | Wait:
    """Renew the session, and decide."""
    controller, config = context.broker.controller, context.broker.config

    def refuse(code: ErrorCode, message: str | None) -> BrokerHeartbeatResponse:
        return BrokerHeartbeatResponse(error_code=code)

    response: BrokerHeartbeatResponse | Wait = decide_all(
        context,
        TIMEOUT_MS,
        lambda image: heartbeat(image, request, config, controller.sessions, context.now_ms),
        refuse,
    )
    return response
