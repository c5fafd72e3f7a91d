"""A broker registers: who is let in, in which epoch, and what a process that didn't stop cleanly has lost."""

from __future__ import annotations

from typing import Any

import pytest

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.cluster import SUPPORTED_FEATURES
from kafkapy.raft.image import NO_LEADER, MetadataImage, PartitionImage
from kafkapy.raft.membership import after
from kafkapy.raft.registrations import register_broker
from kafkapy.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from kafkapy.wire.metadata_records import BrokerRegistrationChangeRecord, FeatureLevelRecord
from tests.raft.clusters import cluster, directory, partitions_of
from tests.raft.support import CLUSTER_ID
from tests.raft.worlds import CONFIG, replay

P = PartitionImage((1, 2, 3), (1, 2, 3), 1, 5, 7)
FEATURES = [
    Feature(name=name, min_supported_version=low, max_supported_version=high)
    for name, (low, high) in SUPPORTED_FEATURES.items()
]


def registration(broker_id: int, **fields: Any) -> BrokerRegistrationRequest:
    """A new process of the broker wants in."""
    wanted = {
        "cluster_id": CLUSTER_ID,
        "incarnation_id": b"new" + bytes(13),
        "listeners": [Listener(name="PLAINTEXT", host="there", port=9, security_protocol=0)],
        "features": FEATURES,
        "rack": "r",
        "log_dirs": [directory(broker_id)],
        **fields,
    }
    return BrokerRegistrationRequest(broker_id=broker_id, **wanted)


def register(
    image: MetadataImage, broker_id: int, has_session: bool = False, **fields: Any
) -> tuple[MetadataImage, int]:
    """The image afterwards, and the epoch."""
    decisions = register_broker(image, registration(broker_id, **fields), CONFIG, has_session=has_session)
    return after(image, decisions), decisions[-1].response.broker_epoch


def test_a_new_broker() -> None:
    """It is fenced, and its epoch is the offset of its registration."""
    image, epoch = register(cluster(P), 7)
    broker = image.brokers[7]
    assert (broker.epoch, image.offset) == (epoch, epoch)
    assert (broker.fenced, broker.rack, broker.log_dirs) == (True, "r", (directory(7),))
    assert broker.listeners[0].host == "there"
    assert broker.features == SUPPORTED_FEATURES


def test_the_epoch_is_the_offset_of_the_registration_itself() -> None:
    """Also where partitions change before it."""
    image, epoch = register(cluster(P, P), 1)
    assert image.offset == epoch == image.brokers[1].epoch
    assert [one.leader for one in partitions_of(image)] == [2, 2]


@pytest.mark.parametrize(("previous_epoch", "eligible"), [(10, (1,)), (9, ()), (-1, ())])
def test_what_a_crash_loses(previous_epoch: int, eligible: tuple[int, ...]) -> None:
    """After a clean stop a broker stays eligible; after a crash it is not, and neither is it in sync."""
    image = cluster(P, P._replace(isr=(2,), leader=2, eligible_leader_replicas=(1,)), min_insync_replicas=3)
    image, _ = register(image, 1, previous_broker_epoch=previous_epoch)
    first, second = partitions_of(image)
    assert (first.leader, first.isr, first.eligible_leader_replicas) == (2, (2, 3), eligible)
    assert (second.leader, second.isr, second.eligible_leader_replicas) == (2, (2,), eligible)


def test_the_last_one_back_from_a_crash_is_remembered() -> None:
    """Nobody is in sync or eligible any more; it is known who led last, and it will lead again when it is unfenced."""
    image, _ = register(cluster(PartitionImage((1, 2), (1,), 1, 5, 7)), 1)
    (partition,) = partitions_of(image)
    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (NO_LEADER, (), ())
    assert partition.last_known_elr == (1,)


def test_the_same_process_registers_again() -> None:
    """Its answer was lost, or its listeners have changed: the epoch stays, and whether it is fenced."""
    image = replay(
        cluster(P), [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, cordoned_log_dirs=[directory(1)])]
    )
    image, epoch = register(image, 1, has_session=True, incarnation_id=b"\1" * 16)
    broker = image.brokers[1]
    assert (epoch, broker.epoch, broker.fenced, broker.listeners[0].host) == (10, 10, False, "there")
    assert broker.cordoned_log_dirs == (directory(1),)
    assert partitions_of(image)[0].leader == 1


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"has_session": True}, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [bytes(15) + b"\1"]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(1), directory(1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(2)]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": FEATURES[:1]}, ErrorCode.INVALID_REGISTRATION),
        (
            {"features": [Feature(name="metadata.version", min_supported_version=7, max_supported_version=9)]},
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        ({"features": [one for one in FEATURES if one.name != "group.version"]}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_what_is_refused(fields: dict[str, Any], code: ErrorCode) -> None:
    """Each reason with its code."""
    with pytest.raises(KafkaError) as caught:
        register(cluster(P), 1, **fields)
    assert caught.value.code == code


def test_an_old_cluster_knows_no_directories() -> None:
    """Before metadata.version 3.7 a broker has none, and needs none."""
    image = replay(cluster(P, elr=False), [FeatureLevelRecord(name="metadata.version", feature_level=16)])
    image, _ = register(image, 1, log_dirs=[])
    assert image.brokers[1].log_dirs == ()
