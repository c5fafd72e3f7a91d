"""AssignReplicasToDirs (key 73, v0): a broker tells the active controller which log directory holds which replica (KIP-858)."""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.decisions import decide_all
from kafkapy.handlers.wait import Wait
from kafkapy.raft.directories import assign_replicas
from kafkapy.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

# The request has no time limit of its own.
TIMEOUT_MS = 30_000


def handle(context: RequestContext, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse | Wait:
    """Decide on all replicas at once."""
    config = context.broker.config

    def refuse(code: ErrorCode, message: str | None) -> AssignReplicasToDirsResponse:
        return AssignReplicasToDirsResponse(error_code=code)

    response: AssignReplicasToDirsResponse | Wait = decide_all(
        context, TIMEOUT_MS, lambda image: assign_replicas(image, request, config), refuse
    )
    return response
