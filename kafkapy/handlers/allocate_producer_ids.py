"""AllocateProducerIds (key 67, v0): a broker fetches a block of producer ids, which it alone hands out (KIP-730)."""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.decisions import decide
from kafkapy.handlers.wait import Wait
from kafkapy.raft.decision import Decision
from kafkapy.raft.image import MetadataImage
from kafkapy.raft.producer_ids import BLOCK_SIZE, allocate_producer_ids
from kafkapy.raft.registrations import check_broker_epoch
from kafkapy.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

# The request has no time limit of its own.
TIMEOUT_MS = 30_000


def handle(context: RequestContext, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse | Wait:
    """Give the next block to the broker; one that has registered anew since gets none for its former self."""

    def make(image: MetadataImage) -> Decision:
        check_broker_epoch(image, request.broker_id, request.broker_epoch)
        decision = allocate_producer_ids(image, request.broker_id, request.broker_epoch)
        return decision._replace(
            response=AllocateProducerIdsResponse(producer_id_start=decision.response, producer_id_len=BLOCK_SIZE)
        )

    def refuse(code: ErrorCode, message: str | None) -> AllocateProducerIdsResponse:
        return AllocateProducerIdsResponse(error_code=code)

    response: AllocateProducerIdsResponse | Wait = decide(context, TIMEOUT_MS, make, refuse)
    return response
