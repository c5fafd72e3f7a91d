"""Metadata (key 3, v0-13): brokers, topics, leaders. The second request of every client.

v0: no topics means all; from v1 null means all and none means none. v4: the client says whether topics may be created. v7: leader epochs.
v8: authorized operations. v10: topic ids in the answer. v12: topics can be asked for by id. v13: an error for the whole answer.

A topic that does not exist is created if the broker (`auto.create.topics.enable`) and the client allow it, and the answer waits until it is there;
Kafka lets the client come back for it, but the ready answer is as legal and saves every client its first retry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkapy.errors import ErrorCode
from kafkapy.handlers.cluster_view import (
    CLUSTER_OPERATIONS,
    TOPIC_OPERATIONS,
    Liveness,
    controller_id,
    endpoints,
)
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.topic_creation import create_missing_topics
from kafkapy.handlers.wait import Wait
from kafkapy.raft.topic_names import INTERNAL_TOPICS, is_valid_topic_name
from kafkapy.types import ZERO_UUID
from kafkapy.wire.messages.metadata import (
    OPERATIONS_NOT_REQUESTED,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from kafkapy.raft.image import PartitionImage, TopicImage


def handle(context: RequestContext, request: MetadataRequest) -> MetadataResponse | Wait:
    """Answer from the image, after creating what may be created."""
    asked = request.topics
    if asked and context.api_version >= 10 and not _is_answerable(context.api_version, asked):
        return _refuse_ids(asked)
    all_topics = asked is None or (not asked and context.api_version == 0)
    if not all_topics and asked and request.allow_auto_topic_creation:
        image = context.broker.image
        named = (topic.name for topic in asked if topic.name and topic.topic_id == ZERO_UUID)
        missing = [name for name in named if image.topics.get(name) is None]
        if missing:
            return create_missing_topics(context, missing, lambda errors: _respond(context, request, asked, errors))
    return _respond(context, request, None if all_topics else asked, {})


def _is_answerable(version: int, asked: list[MetadataRequestTopic]) -> bool:
    """Versions 10 and 11 carry ids but cannot be asked by them; from 12 on every topic needs a name or an id."""
    if version < 12:
        return all(topic.topic_id == ZERO_UUID and topic.name is not None for topic in asked)
    return all(topic.topic_id != ZERO_UUID or topic.name is not None for topic in asked)


def _refuse_ids(asked: list[MetadataRequestTopic]) -> MetadataResponse:
    """The whole request is invalid, and Kafka then answers nothing but that."""
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id)
            for topic in asked
        ]
    )


def _respond(
    context: RequestContext,
    request: MetadataRequest,
    asked: list[MetadataRequestTopic] | None,
    errors: dict[str, ErrorCode],
) -> MetadataResponse:
    image = context.broker.image
    liveness = Liveness(image)
    if asked is None:
        topics = [_topic(liveness, request, image.topics.by_name[name]) for name in sorted(image.topics.by_name)]
    else:
        unique = {(topic.name, topic.topic_id): topic for topic in asked}
        answers = (_asked_topic(context, liveness, request, topic, errors) for topic in unique.values())
        topics = list({(answer.name, answer.topic_id): answer for answer in answers}.values())
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=place.node_id, host=place.host, port=place.port, rack=place.rack)
            for place in endpoints(context)
        ],
        cluster_id=image.cluster_id,
        controller_id=controller_id(context),
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else OPERATIONS_NOT_REQUESTED,
    )


def _asked_topic(
    context: RequestContext,
    liveness: Liveness,
    request: MetadataRequest,
    asked: MetadataRequestTopic,
    errors: dict[str, ErrorCode],
) -> MetadataResponseTopic:
    topics = context.broker.image.topics
    by_id = asked.topic_id != ZERO_UUID
    topic = topics.get_by_id(asked.topic_id) if by_id else topics.get(asked.name or "")
    if topic is not None:
        return _topic(liveness, request, topic)
    if by_id:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
    name = asked.name or ""
    code = errors.get(name)
    if code is None:
        valid = is_valid_topic_name(name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)


def _topic(liveness: Liveness, request: MetadataRequest, topic: TopicImage) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(liveness, index, partition) for index, partition in enumerate(topic.partitions)],
        topic_authorized_operations=TOPIC_OPERATIONS
        if request.include_topic_authorized_operations
        else OPERATIONS_NOT_REQUESTED,
    )


def _partition(liveness: Liveness, index: int, partition: PartitionImage) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader < 0 else ErrorCode.NONE,
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=liveness.offline(partition),
    )
