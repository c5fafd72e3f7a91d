"""Clusters of several brokers for tests: images with the brokers and partitions that a case is about."""

from __future__ import annotations

from kafkapy.raft.cluster import INITIAL_FEATURES, SUPPORTED_FEATURES
from kafkapy.raft.image import BrokerRegistration, Listener, MetadataImage, PartitionImage
from kafkapy.raft.image_records import broker_record, partition_record
from kafkapy.wire.metadata_records import ConfigRecord, FeatureLevelRecord, TopicRecord
from kafkapy.wire.schema import Record
from tests.raft.support import CLUSTER_ID
from tests.raft.worlds import replay

TOPIC_ID = b"T" * 16
BROKERS = (1, 2, 3, 4)


def directory(broker_id: int, number: int = 0) -> bytes:
    """The id of a broker's log directory."""
    return bytes((broker_id + 16 * number,)) * 16


def broker(
    broker_id: int, *, fenced: bool = False, rack: str | None = None, directories: int = 1
) -> BrokerRegistration:
    """One of them; its epoch is ten times its id."""
    return BrokerRegistration(
        broker_id,
        10 * broker_id,
        bytes((broker_id,)) * 16,
        (Listener("PLAINTEXT", f"host-{broker_id}", 9092, 0),),
        SUPPORTED_FEATURES,
        rack,
        fenced,
        log_dirs=tuple(directory(broker_id, number) for number in range(directories)),
    )


def cluster(
    *partitions: PartitionImage,
    fenced: tuple[int, ...] = (),
    elr: bool = True,
    min_insync_replicas: int = 1,
    directories: int = 1,
    settings: dict[str, str] | None = None,
) -> MetadataImage:
    """Brokers 1 to 4, and one topic `t` with these partitions and settings."""
    features = {**INITIAL_FEATURES, "eligible.leader.replicas.version": int(elr)}
    settings = {"min.insync.replicas": str(min_insync_replicas), **(settings or {})}
    changes: list[Record] = [FeatureLevelRecord(name=name, feature_level=level) for name, level in features.items()]
    changes += [broker_record(broker(one, fenced=one in fenced, directories=directories)) for one in BROKERS]
    changes.append(TopicRecord(name="t", topic_id=TOPIC_ID))
    changes += [partition_record(TOPIC_ID, number, one) for number, one in enumerate(partitions)]
    changes += [
        ConfigRecord(resource_type=2, resource_name="t", name=name, value=value) for name, value in settings.items()
    ]
    return replay(MetadataImage(CLUSTER_ID), changes)


def partitions_of(image: MetadataImage) -> tuple[PartitionImage, ...]:
    """Those of the topic."""
    return image.topics.by_name["t"].partitions
