"""What a cluster begins with, and how a node joins it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.decision import Decision
from kafkapy.raft.image import (
    BROKER,
    METADATA_VERSION,
    NO_LEADER,
    BrokerRegistration,
    ControllerRegistration,
    FeatureRange,
    Listener,
    MetadataImage,
)
from kafkapy.raft.image_records import broker_record, controller_record
from kafkapy.raft.leadership import Leadership, Wanted, all_partitions
from kafkapy.wire.metadata_records import (
    METADATA_VERSION_LATEST,
    METADATA_VERSION_MIN,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
)
from kafkapy.wire.schema import Record

# The levels that Apache Kafka 4.3 can run, as far as kafkapy can: what stands here is told to clients, and they act on it. Share groups and
# streams groups (share.version and streams.version) come with their APIs.
SUPPORTED_FEATURES: dict[str, FeatureRange] = {
    "eligible.leader.replicas.version": FeatureRange(0, 1),
    "group.version": FeatureRange(0, 1),
    "kraft.version": FeatureRange(0, 0),
    METADATA_VERSION: FeatureRange(METADATA_VERSION_MIN, METADATA_VERSION_LATEST),
    "transaction.version": FeatureRange(0, 2),
}
# Those that a new cluster is given.
INITIAL_FEATURES: dict[str, int] = {
    METADATA_VERSION: METADATA_VERSION_LATEST,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "transaction.version": 2,
}


class NodeIdentity(NamedTuple):
    """A node as it registers: who it is in this life, and where it is reached."""

    node_id: int
    incarnation_id: bytes
    listeners: tuple[Listener, ...]
    controller_listeners: tuple[Listener, ...] = ()
    rack: str | None = None
    log_dirs: tuple[bytes, ...] = ()
    cordoned_log_dirs: tuple[bytes, ...] = ()
    stopped_broker_epoch: int = -1  # the epoch in which it stopped cleanly, as the mark in its folders says


def bootstrap(image: MetadataImage, min_insync_replicas: int) -> Decision:
    """The first records of a new cluster; nothing where the log has its features already.

    With eligible leader replicas min.insync.replicas is a matter of the cluster and no longer of each broker, so its value becomes a
    cluster-wide setting, as Apache Kafka's controller makes it.
    """
    if image.metadata_version:
        return Decision([], None)
    records: list[Record] = [
        FeatureLevelRecord(name=name, feature_level=level) for name, level in INITIAL_FEATURES.items()
    ]
    records.append(
        ConfigRecord(resource_type=BROKER, resource_name="", name="min.insync.replicas", value=str(min_insync_replicas))
    )
    return Decision(records, None)


def register_controller(image: MetadataImage, identity: NodeIdentity) -> Decision:
    """A controller tells where it listens and what it can run."""
    registration = ControllerRegistration(
        identity.node_id, identity.incarnation_id, identity.controller_listeners, SUPPORTED_FEATURES
    )
    if image.controllers.get(identity.node_id) == registration:
        return Decision([], None)
    return registered_controller(image, registration)


def registered_controller(image: MetadataImage, registration: ControllerRegistration) -> Decision:
    """A controller's registration is taken in; KafkaError UNSUPPORTED_VERSION from one that cannot run what the cluster has agreed on."""
    check_levels(image, registration.features)
    return Decision([controller_record(registration)], None)


def check_levels(image: MetadataImage, features: Mapping[str, FeatureRange]) -> None:
    """KafkaError UNSUPPORTED_VERSION for a node that cannot run the levels that the cluster has.

    A metadata log that Apache Kafka has begun names features that no kafkapy knows (share groups, say). Nobody here can run them, so
    they are no reason to keep anybody out.
    """
    for name, level in sorted({**dict.fromkeys(features, 0), **image.features}.items()):
        lowest, highest = features.get(name, (0, 0))
        if name not in SUPPORTED_FEATURES and name not in features:
            continue
        if not lowest <= level <= highest:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} of {name}. "
                f"The broker wants a version between {lowest} and {highest}, inclusive.",
            )


def register_broker(image: MetadataImage, identity: NodeIdentity) -> Decision:
    """A broker process joins. The offset of its registration is its epoch: what comes from an earlier life is known by it.

    The answer is the epoch.
    """
    registration = BrokerRegistration(
        id=identity.node_id,
        epoch=image.next_offset,
        incarnation_id=identity.incarnation_id,
        listeners=identity.listeners,
        features=SUPPORTED_FEATURES,
        rack=identity.rack,
        fenced=True,
        log_dirs=tuple(sorted(identity.log_dirs)),
    )
    return Decision([broker_record(registration)], registration.epoch)


def stopped_cleanly(image: MetadataImage, identity: NodeIdentity) -> bool:
    """Whether a broker that is about to register lost nothing: it left the mark of a clean stop in the life that the cluster knows."""
    broker = image.brokers.get(identity.node_id)
    return broker is not None and broker.epoch == identity.stopped_broker_epoch


def elect_returning_broker(
    image: MetadataImage, broker_id: int, clean: bool, config: BrokerConfig | None = None
) -> list[Decision]:
    """A broker is back that joins without asking anybody: it leads again what only it can lead.

    Partitions without a leader that it may lead get it. After a crash its last records may be gone. Where others have them they lead, and it is
    not eligible any longer; where it is alone it begins another leader epoch, because the offsets may be taken again, and it is by the epoch
    that consumers notice. After a clean stop nothing can be gone, so nothing changes.
    """
    config = config or BrokerConfig()
    everybody, others = Leadership(image, config), Leadership(image, config, gone=(broker_id,))
    records: list[Record] = []
    for topic, number, partition in all_partitions(image):
        record: Record | None = None
        complete = {*partition.isr, *partition.eligible_leader_replicas}
        if not clean and broker_id in complete and len(complete) > 1:
            isr = [one for one in partition.isr if one != broker_id]
            record = others.change(topic, number, Wanted(isr=isr, lost_records=(broker_id,)))
        elif partition.leader == NO_LEADER:
            record = everybody.change(topic, number)
        elif partition.leader == broker_id and not clean:
            record = everybody.reopen(topic, number)
        if record is not None:
            records.append(record)
    everybody.notes += others.notes
    return everybody.decisions(records) if records else []


def unfence_broker(image: MetadataImage, identity: NodeIdentity) -> Decision:
    """A broker has caught up with the metadata and may lead partitions from now on."""
    broker = image.brokers[identity.node_id]
    return Decision(
        [
            BrokerRegistrationChangeRecord(
                broker_id=broker.id,
                broker_epoch=broker.epoch,
                fenced=-1,
                cordoned_log_dirs=list(identity.cordoned_log_dirs),
            )
        ],
        None,
    )
