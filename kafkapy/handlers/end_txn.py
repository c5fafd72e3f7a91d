"""EndTxn (key 26, v0-5): commit or abort a transaction.

The answer leaves when the decision is replicated. v5 speaks Transactions V2: it names the producer id and epoch of the next transaction.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.transaction_replies import answer, code_for
from kafkapy.handlers.wait import Wait
from kafkapy.transactions.transaction import EPOCH_BUMP_VERSION, NO_PRODUCER, V1, Producer
from kafkapy.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_VERSION = 2
EPOCH_BUMP_API_VERSION = 5


def handle(context: RequestContext, request: EndTxnRequest) -> EndTxnResponse | Wait:
    """Decide, have the markers written, answer."""
    version = context.api_version

    def make(code: ErrorCode, producer: Producer) -> EndTxnResponse:
        if code or version < EPOCH_BUMP_API_VERSION:
            producer = NO_PRODUCER
        return EndTxnResponse(
            error_code=code_for(code, version, FENCED_VERSION),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
        )

    reply = context.broker.transactions.end_transaction(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        EPOCH_BUMP_VERSION if version >= EPOCH_BUMP_API_VERSION else V1,
        context.now_ms,
        make,
        commit=request.committed,
    )
    response: EndTxnResponse | Wait = answer(context, reply, lambda code: make(code, NO_PRODUCER))
    return response
