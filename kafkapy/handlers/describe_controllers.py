"""DescribeCluster as a controller's listener answers it: the controllers, for tools with --bootstrap-controller (KIP-919)."""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.cluster_view import CLUSTER_OPERATIONS
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.describe_cluster import CONTROLLERS, wrong_endpoint_type
from kafkapy.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)


def handle(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Answer with the controllers that have registered, at the listener that the client uses."""
    if request.endpoint_type != CONTROLLERS:
        return wrong_endpoint_type(request.endpoint_type, CONTROLLERS)
    broker = context.broker
    controllers = []
    for node_id, controller in sorted(broker.image.controllers.items()):
        name = context.connection.listener_name
        place = next((one for one in controller.listeners if one.name == name), None)
        if place is not None:
            controllers.append(DescribeClusterBroker(broker_id=node_id, host=place.host, port=place.port))
    response = DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=broker.image.cluster_id,
        controller_id=broker.metadata.leader_id,
        brokers=controllers,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    if request.include_fenced_brokers:
        response.error_code = ErrorCode.INVALID_REQUEST
    return response
