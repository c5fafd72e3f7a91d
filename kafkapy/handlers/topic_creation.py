"""Creating topics that a request names and that are not there yet: auto-creation, and the internal topics of the coordinators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.handlers.forwarding import forward_own
from kafkapy.handlers.wait import METADATA_CHANGED, Wait
from kafkapy.raft.controller import ticket_error
from kafkapy.raft.quorum import Outcome
from kafkapy.raft.topic_names import INTERNAL_TOPICS
from kafkapy.raft.topics import create_topics
from kafkapy.types import OFFSETS_TOPIC, TRANSACTION_TOPIC
from kafkapy.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from kafkapy.config.broker_config import BrokerConfig
    from kafkapy.handlers.context import RequestContext

# Kafka's own time for a forwarded creation.
CREATION_TIMEOUT_MS = 30_000
CREATE_TOPICS_VERSION = 7


def create_missing_topics(
    context: RequestContext, names: list[str], respond: Callable[[dict[str, ErrorCode]], Any]
) -> Any:
    """Create these topics if the broker allows it, then answer; `respond` gets the codes of those that were refused.

    The answer leaves when this broker knows the topics, because it tells who leads them.
    """
    broker = context.broker
    wanted = [name for name in names if broker.config.auto_create_topics_enable or name in INTERNAL_TOPICS]
    if not wanted:
        return respond({})
    if not broker.controller.is_active:
        return _have_created(context, wanted, respond)
    request = CreateTopicsRequest(topics=[creatable(broker.config, name) for name in wanted])
    try:
        controller = broker.controller
        decision = create_topics(controller.require_active(), request, broker.config, controller.new_uuid)
        ticket = controller.submit(decision, context.now_ms)
    except KafkaError as error:
        return respond(dict.fromkeys(wanted, error.code))
    errors = _refusals(decision.response)
    if ticket is None:
        return respond(errors)

    def again(expired: bool) -> Any:
        if ticket.outcome is Outcome.PENDING and not expired:
            return None
        failure = ticket_error(ticket, expired)
        return respond(errors if failure is None else dict.fromkeys(wanted, ErrorCode.LEADER_NOT_AVAILABLE))

    return Wait((ticket,), context.now_ms + CREATION_TIMEOUT_MS, again)


def _have_created(context: RequestContext, wanted: list[str], respond: Callable[[dict[str, ErrorCode]], Any]) -> Wait:
    """The same, where another node is the active controller. Topics that are on their way already are not asked for again."""
    broker = context.broker
    under_way = broker.topics_under_way
    asked = [name for name in wanted if name not in under_way]
    answers: dict[str, ErrorCode] = {}

    def done(response: CreateTopicsResponse | None) -> None:
        under_way.difference_update(asked)
        if response is None:
            answers.update(dict.fromkeys(asked, ErrorCode.LEADER_NOT_AVAILABLE))
        else:
            answers.update(_refusals(response))
        broker.wake(METADATA_CHANGED)

    if asked:
        under_way.update(asked)
        topics = [creatable(broker.config, name) for name in asked]
        request = CreateTopicsRequest(topics=topics, timeout_ms=CREATION_TIMEOUT_MS)
        forward_own(context, request, CREATE_TOPICS_VERSION, done, CREATION_TIMEOUT_MS)

    def again(expired: bool) -> Any:
        image = broker.image
        missing = [name for name in wanted if name not in answers and image.topics.get(name) is None]
        if missing and not expired:
            return None
        return respond({**answers, **dict.fromkeys(missing, ErrorCode.LEADER_NOT_AVAILABLE)})

    return Wait((METADATA_CHANGED,), context.now_ms + CREATION_TIMEOUT_MS, again)


def _refusals(response: CreateTopicsResponse) -> dict[str, ErrorCode]:
    """What could not be created. Somebody else may have been faster: then the topic is simply there."""
    return {
        topic.name: ErrorCode(topic.error_code)
        for topic in response.topics
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    }


def creatable(config: BrokerConfig, name: str) -> CreatableTopic:
    """What the topic is created with: the broker's defaults, or what the coordinators demand of their logs."""
    if name not in INTERNAL_TOPICS:
        return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    partitions, replicas, settings = _internal_topic(config, name)
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
    )


def _internal_topic(config: BrokerConfig, name: str) -> tuple[int, int, Mapping[str, str]]:
    """Partitions, replication factor and configuration of an internal topic, as Kafka creates it."""
    if name == OFFSETS_TOPIC:
        return (
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            {
                "cleanup.policy": "compact",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
                "compression.type": "producer",
            },
        )
    if name == TRANSACTION_TOPIC:
        return (
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            {
                "cleanup.policy": "compact",
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "unclean.leader.election.enable": "false",
            },
        )
    return (
        config.share_coordinator_state_topic_num_partitions,
        config.share_coordinator_state_topic_replication_factor,
        {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
            "compression.type": "producer",
            "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
        },
    )
