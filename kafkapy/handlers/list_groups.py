"""ListGroups (key 16, v0-5): the groups that this broker coordinates. v4+ filter by state, v5+ by type, in any case."""

from __future__ import annotations

from kafkapy.errors import KafkaError
from kafkapy.handlers.context import RequestContext
from kafkapy.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """List what passes the filters; an empty filter lets everything pass, one that names nothing we know nothing."""
    states = {state.lower() for state in request.states_filter}
    types = {type_.lower() for type_ in request.types_filter}
    try:
        groups = context.broker.groups.list_groups()
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code)
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
            for group in groups
            if (not states or group.state.lower() in states) and (not types or group.group_type in types)
        ]
    )
