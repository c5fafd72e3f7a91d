"""DescribeClientQuotas (key 48, v0-1): the quotas of users, client ids and addresses that match a filter. kafka-configs, Admin."""

from __future__ import annotations

from kafkapy.errors import KafkaError
from kafkapy.handlers.context import RequestContext
from kafkapy.raft.quotas import matching_quotas
from kafkapy.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


def handle(context: RequestContext, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Answer from the image."""
    try:
        found = list(matching_quotas(context.broker.image, request.components, request.strict))
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    return DescribeClientQuotasResponse(
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in sorted(quotas.items())],
            )
            for entity, quotas in found
        ]
    )
