"""UpdateFeatures (key 57): changes the level at which the whole cluster runs a feature.

Versions
- 0: KIP-584.
- 1: the kind of the change, and dry runs (KIP-778).
- 2: no results of single features any more: all change, or none does.
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int8, int16, int32, string


class FeatureUpdateKey(Struct):
    """A feature and its new level."""

    feature: str = string()
    max_version_level: int = int16()  # 0 switches the feature off.
    allow_downgrade: bool = boolean("0")
    upgrade_type: int = int8("1+", default=1)  # 1 upgrade only, 2 safe downgrade, 3 unsafe downgrade.


class UpdateFeaturesRequest(Request, key=57, versions="0-2", flexible="0+"):
    """Change these levels."""

    timeout_ms: int = int32(default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean("1+")


class UpdatableFeatureResult(Struct):
    """How it went for one feature."""

    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class UpdateFeaturesResponse(Response, key=57, versions="0-2", flexible="0+"):
    """How it went."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, "0-1", ignorable=True)
