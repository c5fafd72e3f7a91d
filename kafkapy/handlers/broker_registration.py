"""BrokerRegistration (key 62, v0-4): a broker that starts asks the active controller for its place in the cluster.

The answer is the broker epoch. It says as well that another process of the same node id is running, or that the broker belongs to another cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.decisions import decide_all
from kafkapy.handlers.wait import Wait
from kafkapy.raft.registrations import register_broker
from kafkapy.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

if TYPE_CHECKING:
    from kafkapy.raft.decision import Decision
    from kafkapy.raft.image import BrokerRegistration, MetadataImage

# The request has no time limit of its own.
TIMEOUT_MS = 30_000


def handle(context: RequestContext, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse | Wait:
    """Decide; a new process begins without a session."""
    controller, config = context.broker.controller, context.broker.config

    def make(image: MetadataImage) -> Sequence[Decision]:
        existing = image.brokers.get(request.broker_id)
        has_session = (
            existing is not None
            and not _is_replaced(existing, request)
            and controller.sessions.is_alive(
                existing.id, existing.epoch, context.now_ms, config.broker_session_timeout_ms
            )
        )
        decisions = register_broker(image, request, config, has_session=has_session)
        if existing is not None and existing.incarnation_id != request.incarnation_id:
            controller.sessions.forget(existing.id)
        return decisions

    def refuse(code: ErrorCode, message: str | None) -> BrokerRegistrationResponse:
        return BrokerRegistrationResponse(error_code=code)

    response: BrokerRegistrationResponse | Wait = decide_all(context, TIMEOUT_MS, make, refuse)
    return response


def _is_replaced(existing: BrokerRegistration, request: BrokerRegistrationRequest) -> bool:
    """Whether the process before has ended for certain: its ports belong to the new one, and no two processes can have the same."""
    before = {(one.name, one.host, one.port) for one in existing.listeners}
    return before == {(one.name, one.host, one.port) for one in request.listeners}
