"""CreatePartitions (key 37, v0-3): give topics more partitions, placed by the controller or by hand."""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.decisions import decide
from kafkapy.handlers.wait import Wait
from kafkapy.raft.topic_changes import create_partitions
from kafkapy.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


def handle(context: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse | Wait:
    """Decide on all topics at once."""

    def refuse(code: ErrorCode, message: str | None) -> CreatePartitionsResponse:
        return CreatePartitionsResponse(
            results=[
                CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message)
                for topic in request.topics
            ]
        )

    response: CreatePartitionsResponse | Wait = decide(
        context, request.timeout_ms, lambda image: create_partitions(image, request), refuse
    )
    return response
