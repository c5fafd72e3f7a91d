"""DeleteGroups (key 42, v0-2): remove groups that have no members, with everything that they committed."""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.group_replies import answer, caller
from kafkapy.handlers.wait import Wait
from kafkapy.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse | Wait:
    """Answer when the tombstones of all groups are committed."""
    group_ids = list(dict.fromkeys(request.groups_names))

    def respond(codes: dict[str, ErrorCode]) -> DeleteGroupsResponse:
        results = [DeletableGroupResult(group_id=group_id, error_code=codes[group_id]) for group_id in group_ids]
        return DeleteGroupsResponse(results=results)

    reply = context.broker.groups.delete_groups(caller(context), group_ids, respond)
    response: DeleteGroupsResponse | Wait = answer(context, reply)
    return response
