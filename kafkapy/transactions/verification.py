"""Which errors Produce and TxnOffsetCommit answer with when the transaction coordinator refuses their partition.

Before the first records of a transaction reach a partition, its leader asks the transaction's coordinator whether the partition
takes part (KIP-890), so that no transaction can be left open that nobody will ever end. Clients of Transactions V2 never
announce their partitions: there the same question adds the partition.

Clients know what to do with some of the coordinator's codes only since a certain version of the request; older ones get a code that
makes them do the same.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode

# First versions whose clients know TRANSACTION_ABORTABLE.
PRODUCE_ABORTABLE_VERSION = 11
OFFSET_COMMIT_ABORTABLE_VERSION = 4

# First versions of Transactions V2: they add the partition to the transaction.
PRODUCE_ADDS_VERSION = 12
OFFSET_COMMIT_ADDS_VERSION = 5

_PASSING = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def code_for_produce(code: ErrorCode, api_version: int) -> ErrorCode:
    """What Produce answers. NOT_ENOUGH_REPLICAS has every producer try again without looking for another leader."""
    if code in _PASSING:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and api_version < PRODUCE_ADDS_VERSION:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return _code_for_partition(code, api_version >= PRODUCE_ABORTABLE_VERSION)


def code_for_offset_commit(code: ErrorCode, api_version: int) -> ErrorCode:
    """What TxnOffsetCommit answers."""
    if code is ErrorCode.NETWORK_EXCEPTION:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and api_version < OFFSET_COMMIT_ADDS_VERSION:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return _code_for_partition(code, api_version >= OFFSET_COMMIT_ABORTABLE_VERSION)


def _code_for_partition(code: ErrorCode, knows_abortable: bool) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
