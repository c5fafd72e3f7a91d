"""DescribeConfigs (key 32): every setting of topics, brokers, groups and client metrics subscriptions, with its source."""

from __future__ import annotations

from kafkapy.config.describe import (
    ConfigEntry,
    describe_broker,
    describe_client_metrics,
    describe_default_broker,
    describe_group,
    describe_topic,
)
from kafkapy.config.resources import ResourceType
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.handlers.broker_loggers import describe_loggers
from kafkapy.handlers.context import RequestContext
from kafkapy.raft.topic_names import check_topic_name
from kafkapy.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_KNOWN_TYPES = frozenset(ResourceType)


def handle(context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Each resource is answered for itself; only a type that nobody knows spoils them all, as it does in Kafka."""
    results = []
    unknown = next((r.resource_type for r in request.resources if r.resource_type not in _KNOWN_TYPES), None)
    for resource in request.resources:
        result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
        try:
            if unknown is not None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {unknown}")
            entries = _describe(context, resource)
        except KafkaError as error:
            result.error_code = error.code
            result.error_message = error.message or ""
        else:
            result.configs = [_encoded(entry, request) for entry in entries]
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _describe(context: RequestContext, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    broker = context.broker.config
    image = context.broker.image
    kind, name = resource.resource_type, resource.resource_name
    # No keys at all asks for every key, as null does.
    wanted = frozenset(resource.configuration_keys) if resource.configuration_keys else None
    if kind == ResourceType.TOPIC:
        check_topic_name(name)
        if image.topics.get(name) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
        return describe_topic(broker, image.config(kind, name), wanted)
    if kind == ResourceType.BROKER:
        if not name:
            return describe_default_broker(image.config(kind, ""), wanted)
        _check_broker_id(name, broker.node_id, " or empty string,")
        return describe_broker(broker, wanted)
    if kind == ResourceType.BROKER_LOGGER:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        _check_broker_id(name, broker.node_id, "")
        return describe_loggers(wanted)
    if kind == ResourceType.CLIENT_METRICS:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        return describe_client_metrics(image.config(kind, name), wanted)
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    return describe_group(broker, image.config(kind, name), wanted)


def _check_broker_id(name: str, node_id: int, alternative: str) -> None:
    """A broker knows only its own properties file, so nobody else can be described by it."""
    if not name.removeprefix("-").isdecimal():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != node_id:
        message = f"Unexpected broker id, expected {node_id}{alternative} but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _encoded(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    result = DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        config_type=entry.type,
    )
    if request.include_documentation:
        result.documentation = entry.documentation
    else:
        result.documentation = None
    if request.include_synonyms:
        result.synonyms = [
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in entry.synonyms
        ]
    return result
