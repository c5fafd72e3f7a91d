"""DescribeCluster (key 60, v0-2): the brokers, without topics. Java's Admin and every UI.

v1: endpoint type (KIP-919); asking a broker for controllers is UNSUPPORTED_ENDPOINT_TYPE or MISMATCHED_ENDPOINT_TYPE, as in Kafka.
v2: fenced brokers (KIP-1073).
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.cluster_view import CLUSTER_OPERATIONS, controller_id, endpoint
from kafkapy.handlers.context import RequestContext
from kafkapy.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS, CONTROLLERS = 1, 2
_ENDPOINT_TYPES = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}


def handle(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Answer from the image."""
    image = context.broker.image
    if request.endpoint_type != BROKERS:
        return wrong_endpoint_type(request.endpoint_type, BROKERS)
    brokers = []
    for node_id in sorted(image.brokers):
        broker = image.brokers[node_id]
        place = endpoint(context, broker)
        if place is not None and (not broker.fenced or request.include_fenced_brokers):
            brokers.append(
                DescribeClusterBroker(
                    broker_id=node_id, host=place.host, port=place.port, rack=place.rack, is_fenced=broker.fenced
                )
            )
    response = DescribeClusterResponse(
        cluster_id=image.cluster_id, controller_id=controller_id(context), brokers=brokers
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def wrong_endpoint_type(asked: int, ours: int) -> DescribeClusterResponse:
    """The client takes this listener for one of another kind."""
    if asked not in _ENDPOINT_TYPES:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=f"Unsupported endpoint type {asked}"
        )
    message = (
        f"The request was sent to an endpoint of type {_ENDPOINT_TYPES[ours]}, but we wanted an endpoint of type "
        f"{_ENDPOINT_TYPES[asked]}"
    )
    return DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=message)
