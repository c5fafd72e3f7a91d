"""What is durable of a transactional id, and how each step changes it. Plain values: nothing here waits or writes.

A `Transaction` is exactly what one record of `__transaction_state` says, so each step makes a new one, the record is
encoded from it, and whoever reads the record later has the same value.

Epochs. A producer id has the epochs 0 to 32767. Clients use them up to 32766; the last one is kept so that the coordinator
can always fence whoever has the one before. When they are used up, the transactional id gets a new producer id.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.transactions.states import TransactionState

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1

EPOCH_MAX = 32767
CLIENT_EPOCH_MAX = EPOCH_MAX - 1

# The first version of the transaction.version feature in which every end raises the epoch (KIP-890).
EPOCH_BUMP_VERSION = 2

# What stands in records for clients before that.
V1 = 0

TopicPartitions = frozenset[tuple[str, int]]
NO_PARTITIONS: TopicPartitions = frozenset()


class Producer(NamedTuple):
    """A producer id and one of its epochs: who a client says it is, or who it is told to be."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


NO_PRODUCER = Producer()


class Transaction(NamedTuple):
    """The producer of a transactional id, and its open or last transaction."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    updated_ms: int
    partitions: TopicPartitions = NO_PARTITIONS
    start_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID  # Takes over when the transaction is complete.
    client_version: int = 0  # The transaction.version that the client of the last step spoke.

    @property
    def producer(self) -> Producer:
        """Who may act on this transaction."""
        return Producer(self.producer_id, self.producer_epoch)

    @property
    def is_exhausted(self) -> bool:
        """Whether clients have used up the epochs of the producer id."""
        return self.producer_epoch >= CLIENT_EPOCH_MAX

    @property
    def announced_producer(self) -> Producer:
        """Who the producer is from the end of this transaction on, which it may be told before the markers are written."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return Producer(self.next_producer_id, 0)
        return Producer(self.producer_id, self.producer_epoch)


def new_transaction(producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """A transactional id that nobody has used, before its first epoch."""
    return Transaction(producer_id, NO_PRODUCER_EPOCH, timeout_ms, TransactionState.EMPTY, now_ms)


def with_next_epoch(transaction: Transaction, timeout_ms: int, now_ms: int) -> Transaction:
    """The producer starts anew under the same id."""
    assert transaction.producer_epoch < CLIENT_EPOCH_MAX, "the epochs are used up"
    return _initialized(transaction, transaction.producer_id, transaction.producer_epoch + 1, timeout_ms, now_ms)


def with_same_epoch(transaction: Transaction, timeout_ms: int, now_ms: int) -> Transaction:
    """The producer repeats the InitProducerId that it got no answer to."""
    return _initialized(transaction, transaction.producer_id, transaction.producer_epoch, timeout_ms, now_ms)


def with_new_producer_id(transaction: Transaction, producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """The producer starts anew under another id, since its epochs are used up."""
    return _initialized(transaction, producer_id, 0, timeout_ms, now_ms)


def _initialized(transaction: Transaction, producer_id: int, epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
    return Transaction(
        producer_id,
        epoch,
        timeout_ms,
        TransactionState.EMPTY,
        now_ms,
        previous_producer_id=transaction.producer_id,
        client_version=transaction.client_version,
    )


def with_partitions(
    transaction: Transaction, partitions: TopicPartitions, client_version: int, now_ms: int
) -> Transaction:
    """The transaction takes these partitions in, and begins with the first of them."""
    begins = transaction.state is not TransactionState.ONGOING
    return Transaction(
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.timeout_ms,
        TransactionState.ONGOING,
        now_ms,
        partitions if begins else transaction.partitions | partitions,
        now_ms if begins else transaction.start_ms,
        transaction.producer_id,
        NO_PRODUCER_ID,
        client_version,
    )


def prepared(
    transaction: Transaction,
    state: TransactionState,
    client_version: int,
    next_producer_id: int,
    now_ms: int,
    *,
    fence: bool = False,
) -> Transaction:
    """The decision about the transaction. V2 raises the epoch with it, and so does the coordinator's own abort."""
    raises_epoch = fence or client_version >= EPOCH_BUMP_VERSION
    assert not raises_epoch or transaction.producer_epoch < EPOCH_MAX, "there is no epoch left to fence with"
    began = transaction.state is TransactionState.ONGOING
    return Transaction(
        transaction.producer_id,
        transaction.producer_epoch + raises_epoch,
        transaction.timeout_ms,
        state,
        now_ms,
        transaction.partitions,
        transaction.start_ms if began else now_ms,  # an abort of nothing begins when it ends
        transaction.producer_id,
        next_producer_id,
        client_version,
    )


def completed(transaction: Transaction, state: TransactionState, now_ms: int) -> Transaction:
    """All markers are written."""
    producer_id, epoch = transaction.announced_producer
    return Transaction(
        producer_id,
        epoch,
        transaction.timeout_ms,
        state,
        now_ms,
        NO_PARTITIONS,
        transaction.start_ms,
        transaction.producer_id,
        NO_PRODUCER_ID,
        transaction.client_version,
    )


def check_producer(transaction: Transaction, producer_id: int, epoch: int) -> None:
    """Refuse whoever is not the current producer of the transactional id."""
    if transaction.producer_id != producer_id:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"producer id {producer_id} is not the one of this transactional id, {transaction.producer_id}",
        )
    if transaction.producer_epoch != epoch:
        raise KafkaError(
            ErrorCode.PRODUCER_FENCED,
            f"producer {producer_id} has epoch {epoch}, but the current one is {transaction.producer_epoch}",
        )
