"""AddOffsetsToTxn (key 25, v0-4): make the partition with a group's offsets part of the transaction.

Clients of Transactions V2 do not send it; there TxnOffsetCommit does the same by itself.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.transaction_replies import answer, code_for
from kafkapy.handlers.wait import Wait
from kafkapy.transactions.transaction import NO_PRODUCER, Producer
from kafkapy.types import OFFSETS_TOPIC
from kafkapy.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_VERSION = 2


def handle(context: RequestContext, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse | Wait:
    """Add the partition of `__consumer_offsets` that keeps the group."""

    def make(code: ErrorCode, producer: Producer) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=code_for(code, context.api_version, FENCED_VERSION))

    broker = context.broker
    reply = broker.transactions.add_partitions(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        frozenset({(OFFSETS_TOPIC, broker.groups.partition_of(request.group_id))}),
        context.now_ms,
        make,
    )
    response: AddOffsetsToTxnResponse | Wait = answer(context, reply, lambda code: make(code, NO_PRODUCER))
    return response
