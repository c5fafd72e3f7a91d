"""AlterConfigs (key 33, v0-2): replace all values of a resource. IncrementalAlterConfigs has taken its place in newer clients.

The levels of loggers cannot be changed by it, as in Kafka.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.decisions import decide
from kafkapy.handlers.wait import Wait
from kafkapy.raft.configs import alter_configs
from kafkapy.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

# The request has no time limit of its own.
TIMEOUT_MS = 30_000


def handle(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse | Wait:
    """Decide on all resources at once."""
    config = context.broker.config

    def refuse(code: ErrorCode, message: str | None) -> AlterConfigsResponse:
        return AlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    error_code=code,
                    error_message=message or code.explanation,
                    resource_type=one.resource_type,
                    resource_name=one.resource_name,
                )
                for one in request.resources
            ]
        )

    response: AlterConfigsResponse | Wait = decide(
        context, TIMEOUT_MS, lambda image: alter_configs(image, request, config), refuse
    )
    return response
