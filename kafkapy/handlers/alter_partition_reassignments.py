"""AlterPartitionReassignments (key 45, v0-1): move partitions to other brokers. kafka-reassign-partitions, Cruise Control.

v1: the request says whether the replication factor may change, and the answer repeats it.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.decisions import decide
from kafkapy.handlers.wait import Wait
from kafkapy.raft.reassignments import alter_partition_reassignments
from kafkapy.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)


def handle(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse | Wait:
    """Decide on all partitions at once."""
    config = context.broker.config

    def refuse(code: ErrorCode, message: str | None) -> AlterPartitionReassignmentsResponse:
        return AlterPartitionReassignmentsResponse(error_code=code, error_message=message or code.explanation)

    response: AlterPartitionReassignmentsResponse | Wait = decide(
        context, request.timeout_ms, lambda image: alter_partition_reassignments(image, request, config), refuse
    )
    return response
