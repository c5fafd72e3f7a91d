"""OffsetFetch (key 9, v1-10): how far groups have read.

v1-7 ask about one group, v8+ about many; null topics (v2+) mean all that the group committed. A partition without an
offset is answered with -1 and no error, and so is every partition of a group that does not exist. require_stable
(v7+): where a transaction holds an offset back, UNSTABLE_OFFSET_COMMIT. v9+:
a member of the consumer protocol says its epoch and is refused when it is stale. v10 names topics by id.

Offsets are shown only when they are committed on all replicas, so the answer may wait for the high watermark.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.groups.commits import NO_LEADER_EPOCH, NO_OFFSET, FetchedOffset
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.group_replies import answer
from kafkapy.handlers.wait import Wait
from kafkapy.types import ZERO_UUID
from kafkapy.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

ERROR_CODE_VERSION = 2
MANY_GROUPS_VERSION = 8
TOPIC_ID_VERSION = 10


def handle(context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse | Wait:
    """Answer once everything that the groups wrote is committed."""
    if context.api_version >= MANY_GROUPS_VERSION:
        asked = request.groups
    else:
        asked = [_as_group(request)]

    def respond() -> OffsetFetchResponse:
        groups = [_fetch_group(context, group, request.require_stable) for group in asked]
        if context.api_version >= MANY_GROUPS_VERSION:
            return OffsetFetchResponse(groups=groups)
        return _as_single(context, groups[0], asked[0])

    reply = context.broker.groups.when_committed([group.group_id for group in asked], context.now_ms, respond)
    response: OffsetFetchResponse | Wait = answer(context, reply)
    return response


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """The question of an old version in the form of the new ones."""
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _fetch_group(
    context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    groups = context.broker.groups
    try:
        groups.check_fetch(group.group_id, group.member_id, group.member_epoch, context.now_ms)
        if group.topics is None:
            topics = _fetch_all(context, group, require_stable)
        else:
            topics = [_fetch_topic(context, group.group_id, topic, require_stable) for topic in group.topics]
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _fetch_topic(
    context: RequestContext, group_id: str, asked: OffsetFetchRequestTopics, require_stable: bool
) -> OffsetFetchResponseTopics:
    name, topic_id = asked.name, ZERO_UUID
    if context.api_version >= TOPIC_ID_VERSION:
        topic_id = asked.topic_id
        found = context.broker.replicas.by_id.get(topic_id)
        if found is None:
            unknown = [
                FetchedOffset(partition, NO_OFFSET, NO_LEADER_EPOCH, "", ErrorCode.UNKNOWN_TOPIC_ID)
                for partition in asked.partition_indexes
            ]
            return _topic_answer("", topic_id, unknown)
        name = found.name
    fetched = context.broker.groups.fetch_offsets(
        group_id, name, topic_id, asked.partition_indexes, require_stable=require_stable
    )
    return _topic_answer(name, topic_id, fetched)


def _fetch_all(
    context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> list[OffsetFetchResponseTopics]:
    topics = []
    for name, partitions in context.broker.groups.committed_partitions(group.group_id).items():
        topic_id = ZERO_UUID
        if context.api_version >= TOPIC_ID_VERSION:
            found = context.broker.replicas.topics.get(name)
            if found is None:
                # The topic is gone, and an answer by id cannot even name it.
                continue
            topic_id = found.topic_id
        fetched = context.broker.groups.fetch_offsets(
            group.group_id, name, topic_id, partitions, require_stable=require_stable
        )
        topics.append(_topic_answer(name, topic_id, fetched))
    return topics


def _topic_answer(name: str, topic_id: bytes, fetched: list[FetchedOffset]) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=name,
        topic_id=topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=one.partition,
                committed_offset=one.offset,
                committed_leader_epoch=one.leader_epoch,
                metadata=one.metadata,
                error_code=one.code,
            )
            for one in fetched
        ],
    )


def _as_single(
    context: RequestContext, group: OffsetFetchResponseGroup, asked: OffsetFetchRequestGroup
) -> OffsetFetchResponse:
    """The answer in the form of the old versions. Before v2 an error of the whole goes into every partition."""
    if group.error_code and context.api_version < ERROR_CODE_VERSION:
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=partition,
                            committed_offset=NO_OFFSET,
                            metadata="",
                            error_code=group.error_code,
                        )
                        for partition in topic.partition_indexes
                    ],
                )
                for topic in asked.topics or ()
            ]
        )
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=one.partition_index,
                        committed_offset=one.committed_offset,
                        committed_leader_epoch=one.committed_leader_epoch,
                        metadata=one.metadata,
                        error_code=one.error_code,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
