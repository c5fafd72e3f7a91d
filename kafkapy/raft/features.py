"""Changing the levels of features: a pure decision on an image, with Apache Kafka's codes and sentences.

All updates of a request take effect or none does; each is judged on top of those before it. A level must be one that this
controller and every broker can run. Lowering one has to be asked for. metadata.version is lowered only where no version between
the two has changed what is written: a lossy downgrade isn't supported, not even on request.

kraft.version counts in Apache Kafka's own consensus protocol. Voters here are found another way, so its level stays 0 and no
update raises it.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.cluster import SUPPORTED_FEATURES
from kafkapy.raft.decision import Decision
from kafkapy.raft.elections import eligible_no_longer
from kafkapy.raft.image import BROKER, METADATA_VERSION, MetadataImage
from kafkapy.raft.leadership import ELR_FEATURE, MIN_INSYNC_REPLICAS
from kafkapy.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kafkapy.wire.metadata_records import ConfigRecord, FeatureLevelRecord
from kafkapy.wire.schema import Record

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
KRAFT_VERSION = "kraft.version"

# The levels of metadata.version that brought other records than the one before.
CHANGING_METADATA_VERSIONS = frozenset((7, 8, 11, 13, 14, 15, 17, 23, 30))
ELR_METADATA_VERSION_MIN = 23


def update_features(
    image: MetadataImage, request: UpdateFeaturesRequest, node_id: int, min_insync_replicas: int
) -> Decision:
    """The records of all updates; KafkaError INVALID_UPDATE_VERSION, with the reason of the first that is refused."""
    levels = dict(image.features)
    records: list[Record] = []
    # Of several updates of the same feature the last one counts.
    updates = {update.feature: update for update in request.feature_updates}
    for update in updates.values():
        try:
            changed = _update(image, levels, update, node_id)
        except KafkaError as error:
            text = f"The update failed for all features since the following feature had an error: {error.message}"
            raise KafkaError(error.code, text) from error
        if changed:
            levels[update.feature] = update.max_version_level
            records.append(FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level))
            if update.feature == ELR_FEATURE and update.max_version_level:
                records += _one_min_insync_replicas(image, min_insync_replicas)
    records += eligible_no_longer(image, records)
    results = [UpdatableFeatureResult(feature=one.feature, error_message="NONE") for one in request.feature_updates]
    return Decision(
        [] if request.validate_only else records, UpdateFeaturesResponse(error_message=None, results=results)
    )


def _update(image: MetadataImage, levels: dict[str, int], update: FeatureUpdateKey, node_id: int) -> bool:
    """Whether the level changes; it may."""
    name, wanted = update.feature, update.max_version_level
    kind = SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _invalid(name, wanted, "The controller does not support the given upgrade type.")
    if wanted and name not in levels and name not in SUPPORTED_FEATURES:
        raise _invalid(name, wanted, f"Local controller {node_id} does not support this feature.")
    if not wanted and name not in levels and name not in SUPPORTED_FEATURES:
        raise _invalid(name, wanted, f"Feature {name} not found.")
    if wanted < 0:
        raise _invalid(name, wanted, "A feature version cannot be less than 0.")
    _check_supported(image, name, wanted, node_id)
    current = levels.get(name, 0)
    if wanted == current:
        return False
    if wanted < current and kind == UPGRADE:
        reason = "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe"
        raise _invalid(name, wanted, f"{reason} downgrade.")
    if name == METADATA_VERSION:
        _check_metadata_version(levels, wanted, kind)
    elif name == KRAFT_VERSION:
        raise _invalid(name, wanted, "The quorum of this cluster does not use Apache Kafka's protocol.")
    elif name == ELR_FEATURE and wanted and levels.get(METADATA_VERSION, 0) < ELR_METADATA_VERSION_MIN:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, _elr_dependency(wanted))
    return True


def _check_supported(image: MetadataImage, name: str, wanted: int, node_id: int) -> None:
    """The level must be one that this controller and all registered brokers can run; "off" anybody can."""
    can = SUPPORTED_FEATURES[name]
    if not can.min_level <= wanted <= can.max_level:
        reason = f"Local controller {node_id} only supports versions {can.min_level}-{can.max_level}"
        raise _invalid(name, wanted, reason)
    for broker_id, broker in sorted(image.brokers.items()):
        levels = broker.features.get(name)
        if levels is None:
            if wanted:
                raise _invalid(name, wanted, f"Broker {broker_id} does not support this feature.")
        elif not levels.min_level <= wanted <= levels.max_level:
            reason = f"Broker {broker_id} only supports versions {levels.min_level}-{levels.max_level}"
            raise _invalid(name, wanted, reason)


def _check_metadata_version(levels: dict[str, int], wanted: int, kind: int) -> None:
    current = levels.get(METADATA_VERSION, 0)
    if wanted > current:
        return
    # Versions below the one that eligible leader replicas need are never reached from above it: that one changed what is written.
    if not any(wanted < level <= current for level in CHANGING_METADATA_VERSIONS):
        return
    if kind == UNSAFE_DOWNGRADE:
        reason = "Unsafe metadata downgrade is not supported in this version."
    else:
        reason = "Refusing to perform the requested downgrade because it might delete metadata information."
    raise KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Unsupported {METADATA_VERSION} downgrade from {current} to {wanted}. {reason}",
    )


def _elr_dependency(level: int) -> str:
    needed = f"{METADATA_VERSION} level {ELR_METADATA_VERSION_MIN}"
    return f"{ELR_FEATURE} could not be set to {level} because it depends on {needed}"


def _one_min_insync_replicas(image: MetadataImage, min_insync_replicas: int) -> list[Record]:
    """Eligible leader replicas follow from min.insync.replicas: now there is one value for the cluster, none of single brokers."""
    records: list[Record] = []
    if MIN_INSYNC_REPLICAS not in image.config(BROKER, ""):
        records.append(
            ConfigRecord(
                resource_type=BROKER, resource_name="", name=MIN_INSYNC_REPLICAS, value=str(min_insync_replicas)
            )
        )
    for resource in sorted(image.configs):
        if resource.type == BROKER and resource.name and MIN_INSYNC_REPLICAS in image.configs[resource]:
            records.append(
                ConfigRecord(resource_type=BROKER, resource_name=resource.name, name=MIN_INSYNC_REPLICAS, value=None)
            )
    return records


def _invalid(name: str, wanted: int, reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {wanted} for feature {name}. {reason}")
