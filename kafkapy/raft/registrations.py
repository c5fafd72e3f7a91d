"""A broker registers: a pure decision on an image, with Apache Kafka's codes.

The registration is refused to a broker of another cluster, to a second process with the same node id, and to one that cannot run what the
cluster has agreed on.
"""

from __future__ import annotations

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.cluster import check_levels
from kafkapy.raft.decision import Decision
from kafkapy.raft.image import (
    METADATA_VERSION,
    RESERVED_DIRECTORIES,
    BrokerRegistration,
    FeatureRange,
    Listener,
    MetadataImage,
)
from kafkapy.raft.image_records import broker_record
from kafkapy.raft.leadership import Leadership
from kafkapy.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kafkapy.wire.schema import Record

# From this level of metadata.version on log directories are registered.
DIRECTORIES_METADATA_VERSION_MIN = 17


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
        records += leadership.leave_isrs(request.broker_id, lost_records=not clean)
    registration = BrokerRegistration(
        id=request.broker_id,
        epoch=existing.epoch if existing is not None and same_process else image.next_offset + len(records),
        incarnation_id=request.incarnation_id,
        listeners=tuple(Listener(one.name, one.host, one.port, one.security_protocol) for one in request.listeners),
        features=_features(request),
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
    features = _features(request)
    if METADATA_VERSION not in features:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, "Request features do not contain 'metadata.version'")
    check_levels(image, features)


def _features(request: BrokerRegistrationRequest) -> dict[str, FeatureRange]:
    return {one.name: FeatureRange(one.min_supported_version, one.max_supported_version) for one in request.features}


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


def _with_directories(image: MetadataImage) -> bool:
    return not 0 < image.metadata_version < DIRECTORIES_METADATA_VERSION_MIN
