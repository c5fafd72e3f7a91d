"""Changing feature levels, held against Apache Kafka 4.3.1's answers to the same requests."""

from __future__ import annotations

from typing import Any

import pytest

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.cluster import bootstrap, register_broker, register_controller
from kafkapy.raft.features import update_features
from kafkapy.raft.image import BROKER, METADATA_VERSION, MetadataImage, PartitionImage
from kafkapy.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kafkapy.wire.metadata_records import ConfigRecord, FeatureLevelRecord
from tests.raft.clusters import cluster as several_brokers
from tests.raft.support import CLUSTER_ID, identity
from tests.raft.worlds import replay

UPGRADE, SAFE, UNSAFE = 1, 2, 3
ELR = "eligible.leader.replicas.version"
FAILED = "The update failed for all features since the following feature had an error: "


def cluster(**levels: int) -> MetadataImage:
    """A new cluster of one broker, with other levels where told."""
    image = MetadataImage(CLUSTER_ID)
    for decide in (
        lambda now: bootstrap(now, 1),
        *(lambda now, f=f: f(now, identity()) for f in (register_controller, register_broker)),
    ):
        image = replay(image, decide(image).records)
    changes = [FeatureLevelRecord(name=name.replace("_", "."), feature_level=level) for name, level in levels.items()]
    return replay(image, changes) if changes else image


def update(image: MetadataImage, *updates: tuple[str, int, int], validate_only: bool = False) -> Any:
    keys = [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in updates]
    request = UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only)
    return update_features(image, request, 1, 1)


@pytest.mark.parametrize(
    ("updates", "reason"),
    [
        (
            [("nix", 1, UPGRADE)],
            "Invalid update version 1 for feature nix. Local controller 1 does not support this feature.",
        ),
        ([("nix", 0, UNSAFE)], "Invalid update version 0 for feature nix. Feature nix not found."),
        (
            [("group.version", 7, UPGRADE)],
            "Invalid update version 7 for feature group.version. Local controller 1 only supports versions 0-1",
        ),
        (
            [("group.version", -1, UPGRADE)],
            "Invalid update version -1 for feature group.version. A feature version cannot be less than 0.",
        ),
        (
            [("group.version", 0, UPGRADE)],
            "Invalid update version 0 for feature group.version. Can't downgrade the version of this feature "
            "without setting the upgrade type to either safe or unsafe downgrade.",
        ),
        (
            [("group.version", 1, 0)],
            "Invalid update version 1 for feature group.version. The controller does not support the given upgrade type.",
        ),
        (
            [("group.version", 1, UPGRADE), (METADATA_VERSION, 99, UPGRADE)],
            "Invalid update version 99 for feature metadata.version. Local controller 1 only supports versions 7-30",
        ),
        (
            [(METADATA_VERSION, 29, SAFE)],
            "Unsupported metadata.version downgrade from 30 to 29. "
            "Refusing to perform the requested downgrade because it might delete metadata information.",
        ),
        (
            [(METADATA_VERSION, 29, UNSAFE)],
            "Unsupported metadata.version downgrade from 30 to 29. "
            "Unsafe metadata downgrade is not supported in this version.",
        ),
    ],
)
def test_refusals(updates: list[tuple[str, int, int]], reason: str) -> None:
    """The first update that is refused refuses all of them."""
    with pytest.raises(KafkaError) as refused:
        update(cluster(), *updates)
    assert refused.value.code == ErrorCode.INVALID_UPDATE_VERSION
    assert refused.value.message == FAILED + reason


def test_changes() -> None:
    """Levels go down when asked to and up again; what is there already is no change, and of the same feature the last update counts."""
    image = cluster()
    image = replay(image, update(image, ("transaction.version", 1, SAFE), ("group.version", 0, UNSAFE)).records)
    assert (image.features["transaction.version"], "group.version" in image.features) == (1, False)
    decision = update(image, ("group.version", 0, SAFE), ("transaction.version", 2, UPGRADE))
    assert [record.name for record in decision.records] == ["transaction.version"]
    assert [(one.feature, one.error_message) for one in decision.response.results] == [
        ("group.version", "NONE"),
        ("transaction.version", "NONE"),
    ]
    decision = update(image, ("group.version", 1, UPGRADE), ("group.version", 0, SAFE))
    assert (decision.records, len(decision.response.results)) == ([], 2)
    assert update(image, ("group.version", 1, UPGRADE), validate_only=True).records == []


def test_metadata_version() -> None:
    """It goes up, and down as long as no version in between has changed what is written."""
    image = cluster(metadata_version=29)
    assert update(image, (METADATA_VERSION, 30, UPGRADE)).records[0].feature_level == 30
    assert update(image, (METADATA_VERSION, 23, SAFE)).records[0].feature_level == 23
    with pytest.raises(KafkaError, match=r"from 29 to 22. Refusing"):
        update(image, (METADATA_VERSION, 22, SAFE))


def test_eligible_leader_replicas_need_one_min_insync_replicas() -> None:
    """With the feature comes one value for the cluster; those of single brokers go."""
    image = cluster(**{ELR.replace(".", "_"): 0})
    values = ((("", "min.insync.replicas", None)), ("1", "min.insync.replicas", "2"))
    image = replay(
        image,
        [ConfigRecord(resource_type=BROKER, resource_name=who, name=key, value=value) for who, key, value in values],
    )
    image = replay(image, update(image, (ELR, 1, UPGRADE)).records)
    assert (image.config(BROKER, ""), image.config(BROKER, "1")) == ({"min.insync.replicas": "1"}, {})
    with pytest.raises(KafkaError, match=r"depends on metadata.version level 23"):
        update(cluster(metadata_version=20, **{ELR.replace(".", "_"): 0}), (ELR, 1, UPGRADE))


def test_kraft_version_stays() -> None:
    """The quorum isn't Apache Kafka's, so its version can't be raised; asking for the level that it has is fine."""
    assert update(cluster(), ("kraft.version", 0, UPGRADE)).records == []
    with pytest.raises(KafkaError, match=r"Invalid update version 1 for feature kraft.version"):
        update(cluster(), ("kraft.version", 1, UPGRADE))


def test_who_was_eligible_long_ago_is_not_any_more() -> None:
    """Eligible replicas were off for a while, and things were acknowledged without them; a partition that waits for them keeps them."""
    led = PartitionImage((1, 2), (1,), 1, 5, 5, eligible_leader_replicas=(2,))
    waiting = PartitionImage((3,), (), -1, 5, 5, eligible_leader_replicas=(3,))
    image = several_brokers(led, waiting, elr=False)
    update = FeatureUpdateKey(feature="eligible.leader.replicas.version", max_version_level=1, upgrade_type=1)
    decision = update_features(image, UpdateFeaturesRequest(feature_updates=[update]), 1, 1)
    first, second = replay(image, decision.records).topics.by_name["t"].partitions
    assert (first.eligible_leader_replicas, second.eligible_leader_replicas) == ((), (3,))
