"""The records of `__transaction_state`: the key names the transactional id, the value is its Transaction.

Layout in wire/transaction_records.py. Apache Kafka writes value version 0 until transaction.version is 1 or more, then 1. No
value at all removes the id. Partitions are sorted, so that equal transactions are equal bytes.
"""

from __future__ import annotations

from kafkapy.errors import ProtocolError
from kafkapy.transactions.states import TransactionState
from kafkapy.transactions.transaction import NO_PARTITIONS, Transaction
from kafkapy.wire.record_framing import TRANSACTION_RECORDS, encode_key, encode_value
from kafkapy.wire.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue

PLAIN_VERSION = 0
FLEXIBLE_VERSION = 1


def record_key(transactional_id: str) -> bytes:
    """The key of all records of this transactional id."""
    return encode_key(TransactionLogKey(transactional_id=transactional_id))


def record_value(transaction: Transaction, version: int) -> bytes:
    """The value that says all of this transaction that version can say."""
    is_empty = transaction.state is TransactionState.EMPTY
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None if is_empty else _by_topic(transaction),
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    if version >= FLEXIBLE_VERSION:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.client_transaction_version = transaction.client_version
    return encode_value(value, version)


def _by_topic(transaction: Transaction) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in topics.items()]


def read_record(key: bytes, value: bytes | None) -> tuple[str, Transaction | None]:
    """The transactional id and its transaction; None if the id is gone. UnknownRecordType if it is a record of another kind."""
    stored_key, stored = TRANSACTION_RECORDS.decode(key, value)
    assert isinstance(stored_key, TransactionLogKey)
    if stored is None:
        return stored_key.transactional_id, None
    assert isinstance(stored, TransactionLogValue)
    try:
        state = TransactionState(stored.transaction_status)
    except ValueError:
        raise ProtocolError(f"a transaction in state {stored.transaction_status}, which does not exist") from None
    partitions = NO_PARTITIONS
    if stored.transaction_partitions:
        partitions = frozenset(
            (topic.topic, partition) for topic in stored.transaction_partitions for partition in topic.partition_ids
        )
    return stored_key.transactional_id, Transaction(
        stored.producer_id,
        stored.producer_epoch,
        stored.transaction_timeout_ms,
        state,
        stored.transaction_last_update_timestamp_ms,
        partitions,
        stored.transaction_start_timestamp_ms,
        stored.previous_producer_id,
        stored.next_producer_id,
        stored.client_transaction_version,
    )
