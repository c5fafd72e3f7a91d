"""What InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn and EndTxn decide, and what the coordinator does on its own account.

Each function looks at the entry, finds in the table of states.py what the request means there, and writes the Transaction
that results. `answer` gets a code and the producer as it is from then on; it is called once, often before the function returns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.transactions.holding import Holding
from kafkapy.transactions.markers import Markers
from kafkapy.transactions.shard import Entry, Shard
from kafkapy.transactions.states import Event, TransactionState, step
from kafkapy.transactions.transaction import (
    CLIENT_EPOCH_MAX,
    EPOCH_BUMP_VERSION,
    NO_PRODUCER,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    V1,
    Producer,
    TopicPartitions,
    Transaction,
    check_producer,
    new_transaction,
    prepared,
    with_new_producer_id,
    with_next_epoch,
    with_partitions,
    with_same_epoch,
)

log = logging.getLogger("kafkapy.transactions")

Answer = Callable[[ErrorCode, Producer], None]


class Requests:
    """The requests of one shard."""

    def __init__(self, shard: Shard, markers: Markers, holding: Holding, next_producer_id: Callable[[], int]) -> None:
        self._shard = shard
        self._markers = markers
        self._holding = holding
        self._next_producer_id = next_producer_id

    def _entry(self, transactional_id: str) -> Entry:
        """The entry of an id; only InitProducerId may name one that does not exist."""
        entry = self._shard.entries.get(transactional_id)
        if entry is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"{transactional_id!r} has no producer id")
        return entry

    def _refuse(
        self, transactional_id: str, error: KafkaError, now_ms: int, again: Callable[[int], None], answer: Answer
    ) -> None:
        """Answer with the error; but one that passes soon, without the client's doing, is waited for first."""

        def refuse(code: ErrorCode) -> None:
            answer(code, NO_PRODUCER)

        if error.code is ErrorCode.CONCURRENT_TRANSACTIONS:
            self._shard.park(self._shard.entries[transactional_id], now_ms, again, refuse)
        elif error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._holding.hold(now_ms, again, refuse)
        else:
            log.debug("%s: %s", transactional_id, error)
            refuse(error.code)

    # InitProducerId.

    def init(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None, now_ms: int, answer: Answer
    ) -> None:
        """Give a producer the next epoch. `expected` is who it was, if it only wants to go on after an error (KIP-360)."""

        def again(now_ms: int) -> None:
            self.init(transactional_id, timeout_ms, expected, now_ms, answer)

        try:
            entry = self._shard.entries.get(transactional_id)
            if entry is None:
                before = new_transaction(self._next_producer_id(), timeout_ms, now_ms)
                last_epoch = NO_PRODUCER_EPOCH
            else:
                before, last_epoch = entry.transaction, entry.last_epoch
                state = step(before.state, Event.INIT)
                if expected is not None:
                    _check_expected(before, last_epoch, expected)
                if state is TransactionState.PREPARE_EPOCH_FENCE:
                    # Whoever holds the transaction open is fenced with an epoch of its own, which nobody is ever given.
                    self._fence(entry, now_ms)
                    if entry.transaction is before:
                        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the open transaction cannot be aborted")
                    again(now_ms)
                    return
            after, new_last_epoch = self._initialized(before, last_epoch, expected, timeout_ms, now_ms)
        except KafkaError as error:
            self._refuse(transactional_id, error, now_ms, again, answer)
            return
        self._shard.write(
            transactional_id, after, now_ms, lambda code, _: answer(code, NO_PRODUCER if code else after.producer)
        )
        written = self._shard.entries.get(transactional_id)
        if written is not None and written.transaction is after:
            written.last_epoch = new_last_epoch

    def _initialized(
        self, before: Transaction, last_epoch: int, expected: Producer | None, timeout_ms: int, now_ms: int
    ) -> tuple[Transaction, int]:
        """The transaction after InitProducerId, and the epoch that may ask for the same again."""
        epoch = before.producer_epoch
        if expected is not None and epoch != NO_PRODUCER_EPOCH and expected.producer_epoch != epoch:
            # It was checked that this is the epoch before: the answer to the same request got lost.
            return with_same_epoch(before, timeout_ms, now_ms), last_epoch
        # Somebody new is fenced by nobody but the next one, so no epoch may ask for this again.
        new_last_epoch = NO_PRODUCER_EPOCH if expected is None else epoch
        if before.is_exhausted:
            return with_new_producer_id(before, self._next_producer_id(), timeout_ms, now_ms), new_last_epoch
        return with_next_epoch(before, timeout_ms, now_ms), new_last_epoch

    # AddPartitionsToTxn, AddOffsetsToTxn, and the partitions that Produce and TxnOffsetCommit add.

    def add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: TopicPartitions,
        client_version: int,
        now_ms: int,
        answer: Answer,
    ) -> None:
        """Take partitions into the transaction, which begins with the first of them."""

        def again(now_ms: int) -> None:
            self.add(transactional_id, producer, partitions, client_version, now_ms, answer)

        try:
            entry = self._entry(transactional_id)
            transaction = entry.transaction
            step(transaction.state, Event.ADD)
            check_producer(transaction, *producer)
        except KafkaError as error:
            self._refuse(transactional_id, error, now_ms, again, answer)
            return
        if partitions <= transaction.partitions and transaction.state is TransactionState.ONGOING:
            self._shard.settled(entry, now_ms, lambda code, _: answer(code, producer))
            return
        after = with_partitions(transaction, partitions, client_version, now_ms)
        self._shard.write(transactional_id, after, now_ms, lambda code, _: answer(code, producer))

    def verify(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: TopicPartitions,
        now_ms: int,
        answer: Callable[[ErrorCode, TopicPartitions], None],
    ) -> None:
        """Tell which of the partitions the transaction has; a leader asks before it takes the first records of one."""

        def again(now_ms: int) -> None:
            self.verify(transactional_id, producer, partitions, now_ms, answer)

        try:
            entry = self._entry(transactional_id)
            step(entry.transaction.state, Event.ADD)
            check_producer(entry.transaction, *producer)
        except KafkaError as error:
            self._refuse(transactional_id, error, now_ms, again, lambda code, _: answer(code, frozenset()))
            return
        known = partitions & entry.transaction.partitions
        # A partition that is added but not replicated yet could be lost with this coordinator, and its records would hang.
        self._shard.settled(entry, now_ms, lambda code, _: answer(code, known))

    # EndTxn.

    def end(
        self,
        transactional_id: str,
        producer: Producer,
        client_version: int,
        now_ms: int,
        answer: Answer,
        *,
        commit: bool,
    ) -> None:
        """Commit or abort. The answer leaves once the decision is replicated; where markers can be written at once, they are by then."""

        def again(now_ms: int) -> None:
            self.end(transactional_id, producer, client_version, now_ms, answer, commit=commit)

        is_v2 = client_version >= EPOCH_BUMP_VERSION
        try:
            entry = self._entry(transactional_id)
            before = entry.transaction
            state = step(before.state, _end_event(before, producer, is_v2=is_v2, commit=commit))
            if state is not None:
                next_producer_id = self._next_producer_id() if is_v2 and before.is_exhausted else NO_PRODUCER_ID
        except KafkaError as error:
            self._refuse(transactional_id, error, now_ms, again, answer)
            return
        if state is None:
            self._shard.settled(entry, now_ms, lambda code, _: answer(code, before.producer))
            return
        after = prepared(before, state, client_version, next_producer_id, now_ms)
        self._prepare(entry, after, now_ms, answer)

    def _prepare(self, entry: Entry, after: Transaction, now_ms: int, answer: Answer) -> None:
        """Write the decision; once it stands, send the markers and answer."""

        def done(code: ErrorCode, now_ms: int) -> None:
            if code:
                answer(code, NO_PRODUCER)
                return
            self._markers.send(entry, now_ms)
            answer(code, after.announced_producer)

        self._shard.write(entry.transactional_id, after, now_ms, done)

    # On the coordinator's own account.

    def time_out(self, now_ms: int) -> None:
        """Abort the transactions that are open for longer than their producers said."""
        for entry in list(self._shard.ongoing.values()):
            transaction = entry.transaction
            if transaction.start_ms + transaction.timeout_ms < now_ms:
                log.info("%s: the transaction timed out after %d ms", entry.transactional_id, transaction.timeout_ms)
                try:
                    step(transaction.state, Event.TIME_OUT)
                    self._fence(entry, now_ms)
                except KafkaError as error:
                    log.warning("%s: could not be aborted yet: %s", entry.transactional_id, error)

    def _fence(self, entry: Entry, now_ms: int) -> None:
        """Abort an open transaction under an epoch that its producer does not have."""
        state = step(TransactionState.PREPARE_EPOCH_FENCE, Event.FENCE)
        assert state is not None, "fencing leads to an abort"
        before = entry.transaction
        version = self._shard.transaction_version()
        is_v2 = version >= EPOCH_BUMP_VERSION
        next_producer_id = self._next_producer_id() if is_v2 and before.is_exhausted else NO_PRODUCER_ID
        after = prepared(before, state, version if is_v2 else V1, next_producer_id, now_ms, fence=True)

        def answer(code: ErrorCode, producer: Producer) -> None:
            if code:
                log.warning("%s: could not be aborted: %s", entry.transactional_id, code.name)

        self._prepare(entry, after, now_ms, answer)


def _check_expected(before: Transaction, last_epoch: int, expected: Producer) -> None:
    """Refuse a producer that wants to go on, but was replaced meanwhile."""
    producer_id, epoch = expected
    if before.producer_epoch == NO_PRODUCER_EPOCH:
        return
    if producer_id == before.producer_id:
        if epoch == before.producer_epoch or (epoch == last_epoch and before.producer_epoch <= CLIENT_EPOCH_MAX):
            return
    elif producer_id == before.previous_producer_id and epoch == last_epoch >= CLIENT_EPOCH_MAX:
        # Its last request used the epochs up and gave it a new id, which it was not told.
        return
    raise KafkaError(
        ErrorCode.PRODUCER_FENCED,
        f"producer {producer_id} with epoch {epoch} was replaced by {before.producer_id} with epoch {before.producer_epoch}",
    )


def _end_event(before: Transaction, producer: Producer, *, is_v2: bool, commit: bool) -> Event:
    """What an EndTxn of this producer means. Raises KafkaError for one that must not end anything."""
    if not is_v2:
        check_producer(before, *producer)
        return Event.COMMIT_V1 if commit else Event.ABORT_V1
    producer_id, epoch = producer
    # While markers are on their way the table has everyone wait, also the producer that was told its next id already.
    if before.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
        return Event.COMMIT if commit else Event.ABORT
    # Only where the last end raised the epoch is the one before it the sign of a repetition.
    if before.client_version >= EPOCH_BUMP_VERSION:
        is_overflow = (
            producer_id == before.previous_producer_id and epoch == CLIENT_EPOCH_MAX and before.producer_epoch == 0
        )
        if is_overflow or (producer_id == before.producer_id and epoch + 1 == before.producer_epoch):
            return Event.COMMIT_AGAIN if commit else Event.ABORT_AGAIN
    check_producer(before, producer_id, epoch)
    return Event.COMMIT if commit else Event.ABORT
