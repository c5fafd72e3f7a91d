"""IncrementalAlterConfigs (key 44): changes single configuration values of a resource; its others stay as they are.

Versions
- 0: KIP-339.
- 1: flexible (KIP-482).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int8, int16, int32, string


class AlterableConfig(Struct):
    """One value to change."""

    name: str = string()
    config_operation: int = int8()  # 0 set, 1 delete, 2 append to a list, 3 subtract from a list.
    value: str | None = string(nullable="0+")  # Null only with delete.


class AlterConfigsResource(Struct):
    """One resource: all its changes are made, or none."""

    resource_type: int = int8()  # 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group.
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


class IncrementalAlterConfigsRequest(Request, key=44, versions="0-1", flexible="1+"):
    """Change these values."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResourceResponse(Struct):
    """How it went for one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


class IncrementalAlterConfigsResponse(Response, key=44, versions="0-1", flexible="1+"):
    """How it went, resource by resource."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
