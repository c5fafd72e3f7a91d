"""ControllerRegistration (key 70, v0): a controller tells the active one where it listens and what it can run (KIP-919)."""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.decisions import decide
from kafkapy.handlers.wait import Wait
from kafkapy.raft.cluster import registered_controller
from kafkapy.raft.image import ControllerRegistration, FeatureRange, Listener
from kafkapy.wire.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse

# The request has no time limit of its own.
TIMEOUT_MS = 30_000


def handle(context: RequestContext, request: ControllerRegistrationRequest) -> ControllerRegistrationResponse | Wait:
    """Take it into the metadata; the last registration of an id counts."""
    registration = ControllerRegistration(
        id=request.controller_id,
        incarnation_id=request.incarnation_id,
        listeners=tuple(Listener(one.name, one.host, one.port, one.security_protocol) for one in request.listeners),
        features={
            one.name: FeatureRange(one.min_supported_version, one.max_supported_version) for one in request.features
        },
        zk_migration_ready=request.zk_migration_ready,
    )

    def refuse(code: ErrorCode, message: str | None) -> ControllerRegistrationResponse:
        return ControllerRegistrationResponse(error_code=code, error_message=message or code.explanation)

    response: ControllerRegistrationResponse | Wait = decide(
        context,
        TIMEOUT_MS,
        lambda image: registered_controller(image, registration)._replace(response=ControllerRegistrationResponse()),
        refuse,
    )
    return response
