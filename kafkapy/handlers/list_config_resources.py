"""ListConfigResources (key 74): the resources that have settings, by type."""

from __future__ import annotations

from kafkapy.config.resources import ResourceType
from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.raft.image import MetadataImage
from kafkapy.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_ALL_TYPES = frozenset(ResourceType)


def handle(context: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """Version 0 knows client metrics only; later ones list all types unless some are asked for."""
    if context.api_version == 0:
        wanted = frozenset({int(ResourceType.CLIENT_METRICS)})
    else:
        wanted = frozenset(request.resource_types) or _ALL_TYPES
    if not wanted <= _ALL_TYPES:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = context.broker.image
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in sorted(wanted, reverse=True)
            for name in _names(image, kind)
        ]
    )


def _names(image: MetadataImage, kind: int) -> list[str]:
    """Topics and brokers always have settings; groups and subscriptions are known by those that were set."""
    if kind == ResourceType.TOPIC:
        return sorted(image.topics.by_name)
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(broker_id) for broker_id in sorted(image.brokers)]
    return sorted(resource.name for resource, values in image.configs.items() if resource.type == kind and values)
