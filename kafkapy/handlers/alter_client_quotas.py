"""AlterClientQuotas (key 49, v0-1): set and remove quotas of users, client ids and addresses. kafka-configs, Admin.

They are kept with the cluster's metadata and told to whoever asks. This broker does not slow anybody down by them.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.decisions import decide
from kafkapy.handlers.wait import Wait
from kafkapy.raft.quotas import alter_client_quotas
from kafkapy.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntry,
)

# The request has no time limit of its own.
TIMEOUT_MS = 30_000


def handle(context: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse | Wait:
    """Decide on all entities at once."""

    def refuse(code: ErrorCode, message: str | None) -> AlterClientQuotasResponse:
        text = message or code.explanation
        return AlterClientQuotasResponse(
            entries=[
                ResponseEntry(error_code=code, error_message=text, entity=entry.entity) for entry in request.entries
            ]
        )

    response: AlterClientQuotasResponse | Wait = decide(
        context, TIMEOUT_MS, lambda image: alter_client_quotas(image, request), refuse
    )
    return response
