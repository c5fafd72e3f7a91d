"""OffsetCommit (key 8, v2-10): remember how far a group has read.

A partition that does not exist is refused with UNKNOWN_TOPIC_OR_PARTITION (v10, which names topics by id:
UNKNOWN_TOPIC_ID); the others are committed all the same. v2-4 may bring a retention of their own. From v9 on the
generation may be a member epoch of the consumer protocol.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkapy.errors import ErrorCode
from kafkapy.groups.commits import Commit
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.group_replies import answer, caller
from kafkapy.handlers.wait import Wait
from kafkapy.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_ID_VERSION = 10


def handle(context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse | Wait:
    """Commit the partitions that exist, and answer for all in the order of the request."""
    commits: list[Commit] = []
    # For each partition the code that is known already, or None for the coordinator to say.
    known: list[ErrorCode | None] = []
    for topic in request.topics:
        for code, commit in _check_topic(context, topic):
            known.append(code)
            if code is None:
                commits.append(commit)

    def respond(codes: list[ErrorCode]) -> OffsetCommitResponse:
        decided = iter(codes)
        return _respond(request, (next(decided) if code is None else code for code in known))

    if not commits:
        return respond([])
    member = (request.member_id, request.group_instance_id, request.generation_id_or_member_epoch)
    reply = context.broker.groups.commit_offsets(
        caller(context), request.group_id, member, commits, request.retention_time_ms, respond
    )
    response: OffsetCommitResponse | Wait = answer(context, reply)
    return response


def _check_topic(context: RequestContext, topic: OffsetCommitRequestTopic) -> Iterator[tuple[ErrorCode | None, Commit]]:
    replicas = context.broker.replicas
    if context.api_version >= TOPIC_ID_VERSION:
        found = replicas.by_id.get(topic.topic_id)
        missing = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        found = replicas.topics.get(topic.name)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    name, topic_id, count = ("", b"", 0) if found is None else (found.name, found.topic_id, found.partition_count)
    for partition in topic.partitions:
        index = partition.partition_index
        code = None
        if found is None:
            code = missing
        elif not 0 <= index < count:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        yield (
            code,
            Commit(
                name,
                topic_id,
                index,
                partition.committed_offset,
                partition.committed_leader_epoch,
                partition.committed_metadata,
            ),
        )


def _respond(request: OffsetCommitRequest, codes: Iterator[ErrorCode]) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=next(codes))
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
