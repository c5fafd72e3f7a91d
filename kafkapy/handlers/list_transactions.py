"""ListTransactions (key 66, v0-2): the transactional ids that this broker coordinates (KIP-664).

Every filter that is given must match: names of states, producer ids, v1+ a duration that the transaction has run for longer than, v2+ a regular
expression for the whole id. Names that are no states are reported back.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkapy.errors import KafkaError
from kafkapy.groups.regexes import compile_pattern
from kafkapy.handlers.context import RequestContext
from kafkapy.transactions.states import STATE_BY_LABEL
from kafkapy.transactions.transaction import Transaction
from kafkapy.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

Matches = Callable[[str, Transaction], bool]


def handle(context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """List what matches."""
    try:
        matches = _filter(request, context.now_ms)
        found = [
            TransactionState(
                transactional_id=transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.label,
            )
            for transactional_id, transaction in context.broker.transactions.transactions()
            if matches(transactional_id, transaction)
        ]
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    unknown = [name for name in request.state_filters if name not in STATE_BY_LABEL]
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)


def _filter(request: ListTransactionsRequest, now_ms: int) -> Matches:
    states = {STATE_BY_LABEL[name] for name in request.state_filters if name in STATE_BY_LABEL}
    any_state = not request.state_filters
    producer_ids = frozenset(request.producer_id_filters)
    duration_ms = request.duration_filter
    pattern = compile_pattern(request.transactional_id_pattern) if request.transactional_id_pattern else None

    def matches(transactional_id: str, transaction: Transaction) -> bool:
        return (
            (any_state or transaction.state in states)
            and (not producer_ids or transaction.producer_id in producer_ids)
            and (duration_ms < 0 or now_ms - transaction.start_ms > duration_ms)
            and (pattern is None or pattern.fullmatch(transactional_id) is not None)
        )

    return matches
