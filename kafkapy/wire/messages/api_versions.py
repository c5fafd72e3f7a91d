"""ApiVersions (key 18): what the broker speaks. Every client sends it first on every connection.

Two peculiarities. The response always carries response header 0, without a tag section, because the client cannot yet
know which versions the broker has. And a request in a version we lack is answered, not dropped: with a version 0 body
that holds error 35 and the row of ApiVersions itself, from which the client picks a version to try again.

Versions
- 0: the list of keys with their ranges (KIP-35).
- 1: throttle time (KIP-124).
- 2: a throttled client waits by itself; the broker answers first and mutes afterwards (KIP-219).
- 3: flexible; the client says its name and version (KIP-511); the answer carries features (KIP-584).
- 4: features whose minimum level is 0 may be reported (KIP-1022, KAFKA-17011); up to version 3 they must be left out.
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int16, int32, int64, string


class ApiVersion(Struct):
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Struct):
    """The levels of one feature that this broker could run at."""

    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


class FinalizedFeatureKey(Struct):
    """The level of one feature that the whole cluster has agreed upon."""

    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


class ApiVersionsRequest(Request, key=18, versions="0-4", flexible="3+"):
    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)


class ApiVersionsResponse(Response, key=18, versions="0-4", flexible="3+"):
    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tag=0, tagged="3+", ignorable=True)
    # Grows with every change of a feature level, so that a client never goes back to an older view; -1 is unknown.
    finalized_features_epoch: int = int64("3+", tag=1, tagged="3+", default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tag=2, tagged="3+", ignorable=True)
    # Only a controller in the middle of leaving ZooKeeper ever set it.
    zk_migration_ready: bool = boolean("3+", tag=3, tagged="3+", ignorable=True)
