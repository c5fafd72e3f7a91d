"""CreateTopics (key 19, v2-7): decide, and answer when every broker of the cluster can know the topics.

v4: -1 partitions or replicas mean the broker's default. v5: the answer tells partitions, replicas and configuration. v7: topic ids.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.decisions import decide
from kafkapy.handlers.wait import Wait
from kafkapy.raft.topics import create_topics
from kafkapy.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse


def handle(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse | Wait:
    """Decide on all topics at once."""
    broker = context.broker

    def refuse(code: ErrorCode, message: str | None) -> CreateTopicsResponse:
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name=topic.name, error_code=code, error_message=message, configs=None)
                for topic in request.topics
            ]
        )

    return decide(
        context,
        request.timeout_ms,
        lambda image: create_topics(image, request, broker.config, broker.controller.new_uuid),
        refuse,
    )
