"""AlterConfigs (key 33): replace all dynamic settings of a resource. Old tools and kafkajs.

What the request does not name goes back to its default, which is why IncrementalAlterConfigs came to be (KIP-339).

Versions
- 0: the whole set of settings (KIP-133).
- 1: throttled clients wait by themselves (KIP-219).
- 2: flexible (KIP-482).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int8, int16, int32, string


class AlterableConfig(Struct):
    name: str = string()
    value: str | None = string(nullable="0+")


class AlterConfigsResource(Struct):
    # The same numbers as in DescribeConfigs.
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


class AlterConfigsResourceResponse(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


class AlterConfigsRequest(Request, key=33, versions="0-2", flexible="2+"):
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResponse(Response, key=33, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
