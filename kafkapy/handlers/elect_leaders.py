"""ElectLeaders (key 43, v0-2): have the preferred replicas lead again, or any at all. kafka-leader-election, Admin.

v0 knows preferred elections only. v1: the type, and an error of the whole request.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.decisions import decide
from kafkapy.handlers.wait import Wait
from kafkapy.raft.elections import elect_leaders
from kafkapy.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


def handle(context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse | Wait:
    """Decide on all partitions at once."""
    config = context.broker.config

    def refuse(code: ErrorCode, message: str | None) -> ElectLeadersResponse:
        return ElectLeadersResponse(
            # Version 0 has no place for it; the partitions tell it as well.
            **({"error_code": code} if context.api_version >= 1 else {}),
            replica_election_results=[
                ReplicaElectionResult(
                    topic=one.topic,
                    partition_result=[
                        PartitionResult(partition_id=number, error_code=code, error_message=message)
                        for number in one.partitions
                    ],
                )
                for one in request.topic_partitions or ()
            ],
        )

    response: ElectLeadersResponse | Wait = decide(
        context, request.timeout_ms, lambda image: elect_leaders(image, request, config), refuse
    )
    return response
