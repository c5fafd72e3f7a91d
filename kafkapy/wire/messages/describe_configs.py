"""DescribeConfigs (key 32): settings and where they come from. Admin, Connect, schema registries, every UI.

Resource types: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group.

Versions
- 1: the source of a value and its synonyms, the chain of places it could have come from (KIP-226).
- 2: throttled clients wait by themselves (KIP-219).
- 3: type and documentation of each setting (KIP-569).
- 4: flexible (KIP-482).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int8, int16, int32, string


class DescribeConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    # Null asks for all settings.
    configuration_keys: list[str] | None = array(string, nullable="1+")


class DescribeConfigsSynonym(Struct):
    name: str = string()
    value: str | None = string(nullable="1+")
    source: int = int8()


class DescribeConfigsResourceResult(Struct):
    name: str = string()
    # Null for a sensitive value.
    value: str | None = string(nullable="1+")
    read_only: bool = boolean()
    # 1 topic, 2 dynamic of this broker, 3 dynamic of all brokers, 4 static file, 5 default, 6 broker logger,
    # 7 client metrics, 8 group.
    config_source: int = int8(default=-1, ignorable=True)
    is_sensitive: bool = boolean()
    # Only on request, the strongest first.
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, ignorable=True)
    config_type: int = int8("3+", ignorable=True)
    documentation: str | None = string("3+", nullable="3+", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="1+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


class DescribeConfigsRequest(Request, key=32, versions="1-4", flexible="4+"):
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean("3+")


class DescribeConfigsResponse(Response, key=32, versions="1-4", flexible="4+"):
    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)
