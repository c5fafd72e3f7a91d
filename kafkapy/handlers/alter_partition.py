"""AlterPartition (key 56, v2-3): a partition's leader asks the active controller to change the in-sync replicas.

v3: each member with its broker epoch. The answer leaves when the change is committed; only then the leader may count on it.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.decisions import decide
from kafkapy.handlers.wait import Wait
from kafkapy.raft.alter_partition import alter_partition
from kafkapy.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

# The request has no time limit of its own.
TIMEOUT_MS = 30_000


def handle(context: RequestContext, request: AlterPartitionRequest) -> AlterPartitionResponse | Wait:
    """Decide on all partitions at once."""
    config = context.broker.config

    def refuse(code: ErrorCode, message: str | None) -> AlterPartitionResponse:
        return AlterPartitionResponse(error_code=code)

    response: AlterPartitionResponse | Wait = decide(
        context, TIMEOUT_MS, lambda image: alter_partition(image, request, config), refuse
    )
    return response
