"""IncrementalAlterConfigs (key 44, v0-1): change single values of topics, brokers, groups, metrics subscriptions, loggers.

The levels of loggers belong to this process alone and are changed at once. Everything else is a matter of the cluster: it
counts, on every node, when the answer leaves.
"""

from __future__ import annotations

from kafkapy.config.dynamic import Change
from kafkapy.config.resources import ResourceType
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.handlers.broker_loggers import alter_loggers
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.decisions import decide
from kafkapy.handlers.wait import Wait
from kafkapy.raft.configs import incremental_alter_configs
from kafkapy.raft.decision import Decision
from kafkapy.raft.image import MetadataImage
from kafkapy.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

# The request has no time limit of its own.
TIMEOUT_MS = 30_000


def handle(context: RequestContext, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse | Wait:
    """Change the loggers, then decide on the rest at once."""
    of_loggers, rest = split_loggers(context, request)
    if not rest.resources:
        return of_loggers

    def make(image: MetadataImage) -> Decision:
        decision = incremental_alter_configs(image, rest, context.broker.config)
        decision.response.responses += of_loggers.responses
        return decision

    def refuse(code: ErrorCode, message: str | None) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(
            responses=[
                *(_result(one, code, message or code.explanation) for one in rest.resources),
                *of_loggers.responses,
            ]
        )

    response: IncrementalAlterConfigsResponse | Wait = decide(context, TIMEOUT_MS, make, refuse)
    return response


def split_loggers(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> tuple[IncrementalAlterConfigsResponse, IncrementalAlterConfigsRequest]:
    """Change the loggers of this process; the answer for them, and the request without them, which is for the controller."""
    node_id = context.broker.config.node_id
    loggers = [one for one in request.resources if one.resource_type == ResourceType.BROKER_LOGGER]
    rest = [one for one in request.resources if one.resource_type != ResourceType.BROKER_LOGGER]
    return (
        IncrementalAlterConfigsResponse(
            responses=[_alter_loggers(node_id, one, request.validate_only) for one in loggers]
        ),
        IncrementalAlterConfigsRequest(resources=rest, validate_only=request.validate_only),
    )


def _alter_loggers(node_id: int, resource: AlterConfigsResource, validate_only: bool) -> AlterConfigsResourceResponse:
    changes = [Change(one.name, one.config_operation, one.value) for one in resource.configs]
    try:
        alter_loggers(resource.resource_name, node_id, changes, validate_only)
    except KafkaError as error:
        return _result(resource, error.code, error.message)
    return _result(resource, ErrorCode.NONE, None)


def _result(resource: AlterConfigsResource, code: ErrorCode, message: str | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
