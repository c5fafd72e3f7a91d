"""OffsetDelete (key 47, v0): drop committed offsets, but of topics that members of the group still read."""

from __future__ import annotations

from collections.abc import Iterator

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.group_replies import answer, caller
from kafkapy.handlers.wait import Wait
from kafkapy.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse | Wait:
    """Delete what exists; a partition that does not is UNKNOWN_TOPIC_OR_PARTITION."""
    asked = [(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions]
    topics = context.broker.replicas.topics
    exists = [name in topics and 0 <= index < topics[name].partition_count for name, index in asked]

    def respond(codes: list[ErrorCode]) -> OffsetDeleteResponse:
        decided = iter(codes)
        return _respond(request, (next(decided) if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for known in exists))

    present = [one for one, known in zip(asked, exists, strict=True) if known]
    try:
        reply = context.broker.groups.delete_offsets(caller(context), request.group_id, present, respond)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    response: OffsetDeleteResponse | Wait = answer(context, reply)
    return response


def _respond(request: OffsetDeleteRequest, codes: Iterator[ErrorCode]) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=one.partition_index, error_code=next(codes))
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
