"""DeleteTopics (key 20, v1-6): the topics are gone for everybody when the answer leaves; their files follow later.

v3: TOPIC_DELETION_DISABLED where delete.topic.enable is false. v5: error messages. v6: by id.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.decisions import decide
from kafkapy.handlers.wait import Wait
from kafkapy.raft.topic_changes import delete_topics
from kafkapy.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

DELETION_DISABLED_VERSION = 3


def handle(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse | Wait:
    """Decide on all topics at once."""
    wanted = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]

    def refuse(code: ErrorCode, message: str | None) -> DeleteTopicsResponse:
        text = message or code.explanation
        return DeleteTopicsResponse(
            responses=[
                DeletableTopicResult(name=one.name, topic_id=one.topic_id, error_code=code, error_message=text)
                for one in wanted
            ]
        )

    if not context.broker.config.delete_topic_enable:
        if context.api_version < DELETION_DISABLED_VERSION:
            return refuse(ErrorCode.INVALID_REQUEST, "This version does not support topic deletion.")
        return refuse(ErrorCode.TOPIC_DELETION_DISABLED, None)
    response: DeleteTopicsResponse | Wait = decide(
        context, request.timeout_ms, lambda image: delete_topics(image, request), refuse
    )
    return response
