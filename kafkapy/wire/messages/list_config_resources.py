"""ListConfigResources (key 74): the resources that have configurations of their own.

Versions
- 0: client metrics subscriptions only (KIP-714); the API was called ListClientMetricsResources.
- 1: the types to list, and the type of each resource (KIP-1142).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int8, int16, int32, string


class ListConfigResourcesRequest(Request, key=74, versions="0-1", flexible="0+"):
    """Which resources are there?"""

    resource_types: list[int] = array(int8, "1+")  # Empty: of all types that can be listed.


class ConfigResource(Struct):
    """A resource."""

    resource_name: str = string()
    resource_type: int = int8("1+", default=16, ignorable=True)  # 16 is client metrics.


class ListConfigResourcesResponse(Response, key=74, versions="0-1", flexible="0+"):
    """The resources."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
