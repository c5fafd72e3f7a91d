"""Brokers come and go: registration, heartbeats, fencing and controlled shutdown, as pure decisions with Apache Kafka's codes.

A broker registers and is fenced: it holds replicas but leads nothing and no client sees it. Its heartbeats say how far it has read the
metadata; once that includes its own registration it is unfenced, and partitions without a leader that it may lead get it. When it dies
(`broker_sessions.py`) it is fenced again: it leaves every ISR, and what it led gets another leader. When it stops by itself it asks for
a controlled shutdown, which moves its leaderships while it still serves.

A broker with many partitions needs more records than one decision may hold, so these functions return a list. They are in such an order
that a controller that takes over in the middle finds nothing wrong, and `elect_leaderless` makes good what was not done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.broker_sessions import BrokerSessions
from kafkapy.raft.decision import Decision
from kafkapy.raft.delta import MetadataDelta
from kafkapy.raft.image import (
    METADATA_VERSION,
    NO_LEADER,
    RESERVED_DIRECTORIES,
    BrokerRegistration,
    FeatureRange,
    Listener,
    MetadataImage,
)
from kafkapy.raft.image_records import broker_record
from kafkapy.raft.leadership import Leadership, Wanted, all_partitions
from kafkapy.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kafkapy.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kafkapy.wire.metadata_records import BrokerRegistrationChangeRecord
from kafkapy.wire.schema import Record

# From these levels of metadata.version on log directories are registered, and those that take no new replicas.
DIRECTORIES_METADATA_VERSION_MIN = 17
CORDONED_METADATA_VERSION_MIN = 30

FENCE, UNFENCE = 1, -1


def register_broker(
    image: MetadataImage, request: BrokerRegistrationRequest, config: BrokerConfig, *, has_session: bool
) -> list[Decision]:
    """A broker process joins. The offset of its registration is its epoch: what comes from an earlier life is known by it.

    `has_session` says whether the registration that there is has been heard of lately: then another process of the same id is refused.
    A process that didn't stop cleanly, which `previous_broker_epoch` tells, may have lost its last records: it is not eligible any longer
    for what it hasn't led.
    """
    existing = image.brokers.get(request.broker_id)
    _check_registration(image, request, existing, has_session)
    same_process = existing is not None and existing.incarnation_id == request.incarnation_id
    leadership = Leadership(image, config, gone=() if same_process else (request.broker_id,))
    records: list[Record] = []
    if not same_process:
        clean = existing is not None and existing.epoch == request.previous_broker_epoch
        records += _leave_isrs(image, leadership, request.broker_id, lost_records=not clean)
    registration = BrokerRegistration(
        id=request.broker_id,
        epoch=existing.epoch if existing is not None and same_process else image.next_offset + len(records),
        incarnation_id=request.incarnation_id,
        listeners=tuple(Listener(one.name, one.host, one.port, one.security_protocol) for one in request.listeners),
        features={
            one.name: FeatureRange(one.min_supported_version, one.max_supported_version) for one in request.features
        },
        rack=request.rack,
        fenced=existing.fenced if existing is not None and same_process else True,
        in_controlled_shutdown=existing is not None and same_process and existing.in_controlled_shutdown,
        log_dirs=tuple(sorted(request.log_dirs)) if _with_directories(image) else (),
        cordoned_log_dirs=existing.cordoned_log_dirs if existing is not None and same_process else None,
    )
    records.append(broker_record(registration))
    return leadership.decisions(records, BrokerRegistrationResponse(broker_epoch=registration.epoch))


def _check_registration(
    image: MetadataImage, request: BrokerRegistrationRequest, existing: BrokerRegistration | None, has_session: bool
) -> None:
    if request.cluster_id != image.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {image.cluster_id}, but got cluster ID {request.cluster_id}",
        )
    if existing is not None and has_session and existing.incarnation_id != request.incarnation_id:
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id. If the broker was recently restarted this should self-resolve "
            "once the heartbeat manager expires the broker's session.",
        )
    if request.is_migrating_zk_broker:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers.")
    if _with_directories(image):
        _check_directories(image, request)
    levels = {one.name: (one.min_supported_version, one.max_supported_version) for one in request.features}
    if METADATA_VERSION not in levels:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Request features do not contain 'metadata.version'")
    for name, level in sorted({**dict.fromkeys(levels, 0), **image.features}.items()):
        lowest, highest = levels.get(name, (0, 0))
        if not lowest <= level <= highest:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} of {name}. "
                f"The broker wants a version between {lowest} and {highest}, inclusive.",
            )


def _check_directories(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    if not request.log_dirs:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "No directories specified in request")
    if not RESERVED_DIRECTORIES.isdisjoint(request.log_dirs):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request")
    if len(set(request.log_dirs)) != len(request.log_dirs):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Duplicate directory ID in request")
    for other in image.brokers.values():
        shared = set(other.log_dirs).intersection(request.log_dirs)
        if shared and other.id != request.broker_id:
            raise KafkaError(
                ErrorCode.INVALID_REGISTRATION,
                f"Broker {other.id} is already registered with directory {min(shared).hex()}",
            )


def check_broker_epoch(image: MetadataImage, broker_id: int, epoch: int) -> BrokerRegistration:
    """The registration; KafkaError STALE_BROKER_EPOCH for one that has been replaced since, or that there never was."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if broker.epoch != epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}"
        )
    return broker


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
    if set(request.offline_log_dirs).intersection(broker.log_dirs):
        decisions += directories_offline(image, broker.id, request.offline_log_dirs, config)
    if request.cordoned_log_dirs is not None and image.metadata_version >= CORDONED_METADATA_VERSION_MIN:
        decisions += _cordon(image, broker, request.cordoned_log_dirs)
    if broker.fenced:
        if request.want_shut_down:
            may_stop = True
        elif not request.want_fence and request.current_metadata_offset >= broker.epoch:
            decisions += unfence_broker(after(image, decisions), broker.id, config)
            fenced = False
    elif request.want_fence:
        decisions += fence_broker(after(image, decisions), broker.id, config)
        fenced, may_stop = True, request.want_shut_down
    elif request.want_shut_down or shuts_down:
        if leads_any(image, broker.id):
            if not shuts_down:
                decisions += shut_down_broker(after(image, decisions), broker.id, config)
                sessions.shuts_down_at(broker.id, image.offset + sum(len(one.records) for one in decisions))
            shuts_down = True
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
    records = _leave_isrs(image, leadership, broker_id)
    records.append(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, fenced=FENCE))
    return leadership.decisions(records)


def unfence_broker(image: MetadataImage, broker_id: int, config: BrokerConfig) -> list[Decision]:
    """The broker may lead from now on. Partitions without a leader get it, where it may lead them."""
    broker = image.brokers[broker_id]
    leadership = Leadership(image, config, returning=(broker_id,))
    records: list[Record] = [
        BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, fenced=UNFENCE)
    ]
    records += _elect_leaderless(image, leadership)
    return leadership.decisions(records)


def shut_down_broker(image: MetadataImage, broker_id: int, config: BrokerConfig) -> list[Decision]:
    """The broker wants to stop: it leaves every ISR and leads nothing any more, but serves until that is known everywhere."""
    broker = image.brokers[broker_id]
    leadership = Leadership(image, config, gone=(broker_id,))
    records: list[Record] = [
        BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, in_controlled_shutdown=1)
    ]
    records += _leave_isrs(image, leadership, broker_id)
    return leadership.decisions(records)


def elect_leaderless(image: MetadataImage, config: BrokerConfig) -> list[Decision]:
    """Leaders for all partitions that have none and could have one. Due when a controller takes over: its predecessor may not have come so far."""
    leadership = Leadership(image, config)
    records = _elect_leaderless(image, leadership)
    return leadership.decisions(records) if records else []


def directories_offline(
    image: MetadataImage, broker_id: int, directories: Collection[bytes], config: BrokerConfig
) -> list[Decision]:
    """Log directories of a broker have failed: replicas there leave the ISR and lead nothing, the rest of the broker goes on."""
    broker = image.brokers[broker_id]
    lost = set(directories).intersection(broker.log_dirs)
    if not lost:
        return []
    leadership = Leadership(image, config, gone=(broker_id,))
    records: list[Record] = []
    for topic, number, partition in all_partitions(image):
        if broker_id not in partition.replicas:
            continue
        place = partition.replicas.index(broker_id)
        if place < len(partition.directories) and partition.directories[place] in lost:
            record = leadership.change(topic, number, Wanted(isr=_without(partition.isr, broker_id)))
            if record is not None:
                records.append(record)
    rest = [directory for directory in broker.log_dirs if directory not in lost]
    records.append(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, log_dirs=rest))
    leadership.notes.append(f"broker {broker_id} has lost {len(lost)} log directories and goes on with {len(rest)}")
    return leadership.decisions(records)


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


def _leave_isrs(
    image: MetadataImage, leadership: Leadership, broker_id: int, lost_records: bool = False
) -> list[Record]:
    records: list[Record] = []
    for topic, number, partition in all_partitions(image):
        if broker_id in partition.isr or (lost_records and broker_id in partition.eligible_leader_replicas):
            wanted = Wanted(isr=_without(partition.isr, broker_id), lost_records=(broker_id,) if lost_records else ())
            record = leadership.change(topic, number, wanted)
            if record is not None:
                records.append(record)
    return records


def _elect_leaderless(image: MetadataImage, leadership: Leadership) -> list[Record]:
    records: list[Record] = []
    for topic, number, partition in all_partitions(image):
        if partition.leader == NO_LEADER:
            record = leadership.change(topic, number)
            if record is not None:
                records.append(record)
    return records


def _cordon(image: MetadataImage, broker: BrokerRegistration, directories: Collection[bytes]) -> list[Decision]:
    """Directories that take no new replicas, as the broker tells them now."""
    wanted = sorted(set(directories).intersection(broker.log_dirs))
    if wanted == sorted(broker.cordoned_log_dirs or ()):
        return []
    record = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=wanted)
    return [Decision([record], None)]


def _without(brokers: Iterable[int], broker_id: int) -> list[int]:
    return [one for one in brokers if one != broker_id]


def _with_directories(image: MetadataImage) -> bool:
    return not 0 < image.metadata_version < DIRECTORIES_METADATA_VERSION_MIN
