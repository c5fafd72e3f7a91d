"""ListTransactions (key 66): the transactions that a coordinator keeps.

Versions
- 0: KIP-664.
- 1: only those that run longer than a duration (KIP-994).
- 2: only those whose transactional id matches a pattern (KIP-1152).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, int64, string


class ListTransactionsRequest(Request, key=66, versions="0-2", flexible="0+"):
    """Which transactions are there? Every filter that is given must match."""

    state_filters: list[str] = array(string)
    producer_id_filters: list[int] = array(int64)
    duration_filter: int = int64("1+", default=-1)  # In milliseconds; negative: any.
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)  # A regular expression of RE2.


class TransactionState(Struct):
    """A transaction."""

    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


class ListTransactionsResponse(Response, key=66, versions="0-2", flexible="0+"):
    """The transactions."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string)  # Those of the request that name no state.
    transaction_states: list[TransactionState] = array(TransactionState)
