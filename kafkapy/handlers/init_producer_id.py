"""InitProducerId (key 22, v0-5): an id for an idempotent producer, or the next life of a transactional one.

Without a transactional id any broker answers from its own block of ids. With one the transaction coordinator decides, and fences earlier lives.
v3: a producer may name its id and epoch, to go on after an error (KIP-360). v4: PRODUCER_FENCED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.transaction_replies import answer, code_for
from kafkapy.handlers.wait import Wait
from kafkapy.transactions.transaction import Producer
from kafkapy.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from collections.abc import Callable

PRODUCER_FENCED_VERSION = 4

# A block of ids is one commit away; a client that has to come back for it loses a retry backoff.
BLOCK_TIMEOUT_MS = 5_000


def handle(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse | Wait:
    """Answer from the block, or ask the coordinator."""
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1)
    if request.transactional_id is None:
        return _idempotent(context)
    expected = None
    if request.producer_id != -1:
        expected = Producer(request.producer_id, request.producer_epoch)

    def make(code: ErrorCode, producer: Producer) -> InitProducerIdResponse:
        if code:
            shown = code_for(code, context.api_version, PRODUCER_FENCED_VERSION)
            return InitProducerIdResponse(error_code=shown, producer_epoch=-1)
        return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)

    reply = context.broker.transactions.init_producer_id(
        request.transactional_id, request.transaction_timeout_ms, expected, context.now_ms, make
    )
    make_error: Callable[[ErrorCode], Any] = lambda code: InitProducerIdResponse(error_code=code, producer_epoch=-1)  # noqa: E731
    response: InitProducerIdResponse | Wait = answer(context, reply, make_error)
    return response


def _idempotent(context: RequestContext) -> InitProducerIdResponse | Wait:
    ids = context.broker.producer_ids

    def again(expired: bool) -> InitProducerIdResponse | None:
        try:
            return InitProducerIdResponse(producer_id=ids.take(), producer_epoch=0)
        except KafkaError as error:
            return InitProducerIdResponse(error_code=error.code, producer_epoch=-1) if expired else None

    ready = again(False)
    if ready is not None:
        return ready
    return Wait((ids,), context.now_ms + BLOCK_TIMEOUT_MS, again)
