"""Brokers come and go: registration, heartbeats, fencing and controlled shutdown, as pure decisions with Apache Kafka's codes.

A broker registers and is fenced: it holds replicas but leads nothing and no client sees it. Its heartbeats say how far it has read the
metadata; once that includes its own registration it is unfenced, and partitions without a leader that it may lead get it. When it dies
(`broker_sessions.py`) it is fenced again: it leaves every ISR, and what it led gets another leader. When it stops by itself it asks for
a controlled shutdown, which moves its leaderships while it still serves.

A broker with many partitions needs more records than one decision may hold, so these functions return a list. They are in such an order
that a controller that takes over in the middle finds nothing wrong, and `elect_leaderless` makes good what was not done.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.raft.broker_sessions import BrokerSessions
from kafkapy.raft.decision import Decision
from kafkapy.raft.delta import MetadataDelta
from kafkapy.raft.directories import cordon_directories, directories_offline
from kafkapy.raft.image import MetadataImage
from kafkapy.raft.leadership import Leadership
from kafkapy.raft.registrations import check_broker_epoch
from kafkapy.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kafkapy.wire.metadata_records import BrokerRegistrationChangeRecord
from kafkapy.wire.schema import Record

# From this level of metadata.version on the directories that take no new replicas are told.
CORDONED_METADATA_VERSION_MIN = 30

FENCE, UNFENCE = 1, -1


def heartbeat(
    image: MetadataImage,
    request: BrokerHeartbeatRequest,
    config: BrokerConfig,
    sessions: BrokerSessions,
    now_ms: int,
) -> list[Decision]:
    """A broker lives, and may want to be unfenced, fenced or let go. Its session is renewed."""
    broker = check_broker_epoch(image, request.broker_id, request.broker_epoch)
    sessions.contact(broker.id, broker.epoch, now_ms, request.current_metadata_offset)
    decisions: list[Decision] = []
    fenced, shuts_down, may_stop = broker.fenced, broker.in_controlled_shutdown, False
    without_directories = bool(broker.log_dirs) and set(broker.log_dirs).issubset(request.offline_log_dirs)
    wants_fence = request.want_fence or without_directories
    if not without_directories:
        decisions += directories_offline(image, broker.id, request.offline_log_dirs, config)
    if request.cordoned_log_dirs is not None and image.metadata_version >= CORDONED_METADATA_VERSION_MIN:
        decisions += cordon_directories(image, broker.id, request.cordoned_log_dirs)
    if broker.fenced:
        if request.want_shut_down:
            may_stop = True
        elif not wants_fence and not shuts_down and request.current_metadata_offset >= broker.epoch:
            # Whoever has shut down is not taken back: an old heartbeat of it may still have been on its way.
            decisions += unfence_broker(after(image, decisions), broker.id, config)
            fenced = False
    elif wants_fence:
        decisions += fence_broker(after(image, decisions), broker.id, config)
        fenced, may_stop = True, request.want_shut_down
    elif (request.want_shut_down or shuts_down) and not sessions.unheard():
        # Not before it is known who lives: else this replica may be the last one that has everything, and leave for a dead leader.
        if leads_any(image, broker.id):
            # Again where it has begun already: a controller may have died in the middle of it.
            decisions += shut_down_broker(after(image, decisions), broker.id, config)
            sessions.shuts_down_at(broker.id, image.offset + sum(len(one.records) for one in decisions))
        elif not shuts_down or sessions.may_shut_down(broker.id, {one.id for one in image.active_brokers()}):
            decisions += fence_broker(after(image, decisions), broker.id, config)
            fenced, may_stop = True, True
    response = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= broker.epoch, is_fenced=fenced, should_shut_down=may_stop
    )
    return [*decisions[:-1], (decisions or [Decision([], None)])[-1]._replace(response=response)]


def fence_broker(image: MetadataImage, broker_id: int, config: BrokerConfig) -> list[Decision]:
    """The broker is dead, or doesn't want to serve: it leaves every ISR, and others lead what it led, if there are any."""
    broker = image.brokers[broker_id]
    leadership = Leadership(image, config, gone=(broker_id,))
    records = leadership.leave_isrs(broker_id)
    records.append(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, fenced=FENCE))
    return leadership.decisions(records)


def unfence_broker(image: MetadataImage, broker_id: int, config: BrokerConfig) -> list[Decision]:
    """The broker may lead from now on. Partitions without a leader get it, where it may lead them."""
    broker = image.brokers[broker_id]
    leadership = Leadership(image, config, returning=(broker_id,))
    records: list[Record] = [
        BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, fenced=UNFENCE)
    ]
    records += leadership.elect_leaderless()
    return leadership.decisions(records)


def shut_down_broker(image: MetadataImage, broker_id: int, config: BrokerConfig) -> list[Decision]:
    """The broker wants to stop: it leaves every ISR and leads nothing any more, but serves until that is known everywhere."""
    broker = image.brokers[broker_id]
    leadership = Leadership(image, config, gone=(broker_id,))
    records: list[Record] = []
    if not broker.in_controlled_shutdown:
        records.append(
            BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, in_controlled_shutdown=1)
        )
    records += leadership.leave_isrs(broker_id)
    return leadership.decisions(records)


def elect_leaderless(image: MetadataImage, config: BrokerConfig) -> list[Decision]:
    """Leaders for all partitions that have none and could have one. Due when a controller takes over: its predecessor may not have come so far."""
    leadership = Leadership(image, config)
    records = leadership.elect_leaderless()
    return leadership.decisions(records) if records else []


def leads_any(image: MetadataImage, broker_id: int) -> bool:
    """Whether the broker leads a partition."""
    return any(
        partition.leader == broker_id for topic in image.topics.by_name.values() for partition in topic.partitions
    )


def after(image: MetadataImage, decisions: Iterable[Decision]) -> MetadataImage:
    """The image once these decisions count."""
    delta = MetadataDelta(image)
    for decision in decisions:
        for record in decision.records:
            delta.replay(record)
    return (
        delta.apply(image.offset + delta.record_count, image.epoch, image.timestamp_ms) if delta.record_count else image
    )
