"""UnregisterBroker (key 64, v0): remove a broker from the cluster's metadata. kafka-cluster unregister, Admin.

It is for brokers that won't come back. One that is running takes it literally too: it serves nothing until it is started again.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.decisions import decide_all
from kafkapy.handlers.wait import Wait
from kafkapy.raft.unregistration import unregister_broker
from kafkapy.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

# The request has no time limit of its own.
TIMEOUT_MS = 30_000


def handle(context: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse | Wait:
    """Decide, and answer when it is committed."""
    config = context.broker.config

    def refuse(code: ErrorCode, message: str | None) -> UnregisterBrokerResponse:
        return UnregisterBrokerResponse(error_code=code, error_message=message or code.explanation)

    response: UnregisterBrokerResponse | Wait = decide_all(
        context, TIMEOUT_MS, lambda image: unregister_broker(image, request.broker_id, config), refuse
    )
    return response
