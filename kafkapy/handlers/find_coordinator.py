"""FindCoordinator (key 10, v0-6): which broker keeps a group or a transactional id.

It is the leader of the partition of `__consumer_offsets` or `__transaction_state` that the key hashes to. A topic that
does not exist yet is created first, and the answer waits for that. v0-3 ask for one key, v4+ for many. Share
partitions (key type 2) are not served.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkapy.errors import ErrorCode
from kafkapy.handlers.cluster_view import endpoint
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.topic_creation import create_missing_topics
from kafkapy.handlers.wait import Wait
from kafkapy.hashing import partition_for
from kafkapy.types import OFFSETS_TOPIC, TRANSACTION_TOPIC
from kafkapy.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP = 0
TRANSACTION = 1
_TOPIC_BY_KEY_TYPE = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTION_TOPIC}

MANY_KEYS_VERSION = 4


class _Place(NamedTuple):
    """A coordinator, or why there is none."""

    node_id: int = -1
    host: str = ""
    port: int = -1
    code: ErrorCode = ErrorCode.NONE


def handle(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse | Wait:
    """Look the leaders up, after creating the topic if need be."""
    keys = request.coordinator_keys if context.api_version >= MANY_KEYS_VERSION else [request.key]
    topic = _TOPIC_BY_KEY_TYPE.get(request.key_type)
    if topic is None:
        return _respond(context, keys, lambda key: _Place(code=ErrorCode.INVALID_REQUEST))
    if context.broker.image.topics.get(topic) is None:
        return create_missing_topics(
            context, [topic], lambda errors: _respond(context, keys, lambda key: _find(context, topic, key))
        )
    return _respond(context, keys, lambda key: _find(context, topic, key))


def _find(context: RequestContext, topic_name: str, key: str) -> _Place:
    topic = context.broker.image.topics.get(topic_name)
    if topic is None:
        return _Place(code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    partition = topic.partitions[partition_for(key, len(topic.partitions))]
    broker = context.broker.image.brokers.get(partition.leader)
    place = endpoint(context, broker) if broker is not None and not broker.fenced else None
    if place is None:
        return _Place(code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _Place(place.node_id, place.host, place.port)


def _respond(context: RequestContext, keys: list[str], find: Callable[[str], _Place]) -> FindCoordinatorResponse:
    if context.api_version < MANY_KEYS_VERSION:
        place = find(keys[0])
        # Java puts the name of the code here even where there is no error.
        message = place.code.explanation if place.code else ErrorCode.NONE.name
        return FindCoordinatorResponse(
            error_code=place.code, error_message=message, node_id=place.node_id, host=place.host, port=place.port
        )
    coordinators = []
    for key in keys:
        place = find(key)
        coordinators.append(
            Coordinator(
                key=key,
                node_id=place.node_id,
                host=place.host,
                port=place.port,
                error_code=place.code,
                error_message=place.code.explanation if place.code else "",
            )
        )
    return FindCoordinatorResponse(coordinators=coordinators)
