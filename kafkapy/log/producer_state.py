"""What a partition remembers of each producer: its last batches, its epoch, its open transaction.

Theory of operation, for a batch of an idempotent producer that a client sends:

    its sequence range is one of the last five batches', in the same epoch   -> a duplicate: success with the first answer
    nothing is known of the producer                                        -> any sequence is accepted
    its epoch is older than the known one                                    -> INVALID_PRODUCER_EPOCH
    its epoch is newer, its sequence 0                                       -> accepted, what was known is forgotten
    its epoch is newer, its sequence not 0                                   -> OUT_OF_ORDER_SEQUENCE_NUMBER
    its sequence is the one after the last (2^31-1 is followed by 0)         -> accepted
    anything else                                                            -> OUT_OF_ORDER_SEQUENCE_NUMBER

Replicated batches are believed: the leader has checked them. A transaction opens with its first batch and ends with the marker of the
coordinator. Between, the last stable offset of the partition stays at the transaction's first offset; it also stays there until the
marker itself is replicated.

The state is a function of the log: a snapshot at an offset plus the batches after it. Nothing else changes it but expiry.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.log.txn_index import AbortedTxn

if TYPE_CHECKING:
    from kafkapy.wire.records import EndTxnMarker

NO_EPOCH = -1
NO_OFFSET = -1
BATCHES_KEPT = 5
_EPOCH_MAX = 32767
SEQUENCE_MAX = 2**31 - 1  # the next one after it is 0
_TRANSACTION_VERSION_WITH_BUMP = 2


class ProducedBatch(NamedTuple):
    """One of the last batches of a producer: what a duplicate of it is answered with."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerState:
    """One producer id in one partition."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "next_sequence",
        "producer_id",
        "txn_first_offset",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = NO_EPOCH
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.txn_first_offset = NO_OFFSET
        self.next_sequence = 0
        self.batches: list[ProducedBatch] = []

    @property
    def last_sequence(self) -> int:
        """The sequence of its last record in this epoch; -1 without any."""
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        """The offset of its last record in this epoch; -1 without any."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def add_batch(self, batch: ProducedBatch) -> None:
        """Remember a batch, and forget the sixth."""
        batches = self.batches
        if len(batches) >= BATCHES_KEPT:
            del batches[0]
        batches.append(batch)
        self.next_sequence = (batch.last_sequence + 1) & SEQUENCE_MAX

    def set_epoch(self, epoch: int) -> None:
        """A new epoch starts from nothing."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.next_sequence = 0

    def duplicate_of(self, epoch: int, first_sequence: int, last_sequence: int) -> ProducedBatch | None:
        """The remembered batch that this one repeats."""
        if epoch == self.epoch:
            for batch in self.batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                    return batch
        return None


class CompletedTxn(NamedTuple):
    """A transaction whose marker is appended."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerTable:
    """All producers of a partition."""

    __slots__ = ("_completed", "_ongoing", "first_unstable_offset", "states")

    def __init__(self) -> None:
        self.states: dict[int, ProducerState] = {}
        # First offset -> producer, in rising order, since a transaction opens at the end of the log.
        self._ongoing: dict[int, int] = {}
        # First offset -> the marker's offset: ended, but the marker may not be replicated yet.
        self._completed: dict[int, int] = {}
        self.first_unstable_offset = NO_OFFSET  # -1: no transaction is open

    # Deciding; nothing changes.

    def check_produced(
        self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int, transactional: bool, verified: bool
    ) -> ProducedBatch | None:
        """Whether a client's batch may be appended: None if so, the earlier batch if it repeats one, else KafkaError.

        `verified` says that the transaction coordinator knows of this partition; only a transaction's first batch asks.
        """
        state = self.states.get(producer_id)
        if state is None:
            if transactional and not verified:
                raise KafkaError(
                    ErrorCode.INVALID_TXN_STATE, f"producer {producer_id} has no open transaction in this partition"
                )
            return None
        duplicate = state.duplicate_of(epoch, first_sequence, last_sequence)
        if duplicate is not None:
            return duplicate
        if transactional and not verified and state.txn_first_offset < 0:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE, f"producer {producer_id} has no open transaction in this partition"
            )
        self._check_sequence(state, epoch, first_sequence)
        if state.txn_first_offset >= 0 and not transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} has an open transaction here and sent a batch outside of it",
            )
        return None

    def check_coordinated(self, producer_id: int, epoch: int, transactional: bool, verified: bool) -> None:
        """Whether a coordinator's batch in a producer's name (offsets in a transaction) may be appended, else KafkaError."""
        state = self.states.get(producer_id)
        if transactional and not verified and (state is None or state.txn_first_offset < 0):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE, f"producer {producer_id} has no open transaction in this partition"
            )
        if state is not None:
            self._check_epoch(state, epoch)

    def _check_epoch(self, state: ProducerState, epoch: int) -> None:
        if epoch < state.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {state.producer_id} sent epoch {epoch}, but {state.epoch} was seen",
            )

    def _check_sequence(self, state: ProducerState, epoch: int, first_sequence: int) -> None:
        self._check_epoch(state, epoch)
        if state.epoch == NO_EPOCH:
            return
        expected = state.next_sequence if epoch == state.epoch else 0
        if first_sequence != expected:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {state.producer_id} with epoch {epoch} sent sequence {first_sequence}, expected {expected}",
            )

    def check_marker(self, producer_id: int, epoch: int, marker: EndTxnMarker, transaction_version: int) -> None:
        """Whether a coordinator's marker may be appended, else KafkaError.

        From transaction version 2 on every transaction ends with a higher epoch than its records have, so that a marker which
        arrives late cannot end the next one. The same epoch once more is then the repetition of a marker that was written.
        """
        state = self.states.get(producer_id)
        if state is None:
            return
        stale = epoch < state.epoch
        if transaction_version >= _TRANSACTION_VERSION_WITH_BUMP and epoch == state.epoch:
            stale = state.txn_first_offset >= 0 and epoch != _EPOCH_MAX
        if stale:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker for producer {producer_id} has epoch {epoch}, but {state.epoch} was seen",
            )
        if marker.coordinator_epoch < state.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a marker comes from coordinator epoch {marker.coordinator_epoch}, but {state.coordinator_epoch} was seen",
            )

    # Applying what is in the log.

    def add_batch(self, producer_id: int, epoch: int, batch: ProducedBatch, transactional: bool) -> None:
        """A batch of records is appended."""
        state = self.states.get(producer_id)
        if state is None:
            state = self.states[producer_id] = ProducerState(producer_id)
        if epoch != state.epoch:
            state.set_epoch(epoch)
        state.add_batch(batch)
        state.last_timestamp = batch.timestamp
        if transactional and state.txn_first_offset < 0:
            state.txn_first_offset = batch.first_offset
            self._ongoing[batch.first_offset] = producer_id
            self._update_first_unstable_offset()

    def add_marker(
        self, producer_id: int, epoch: int, marker: EndTxnMarker, offset: int, timestamp: int
    ) -> CompletedTxn | None:
        """A marker is appended at `offset`; the transaction that it ends, if one was open."""
        state = self.states.get(producer_id)
        if state is None:
            state = self.states[producer_id] = ProducerState(producer_id)
        completed = None
        if state.txn_first_offset >= 0:
            completed = CompletedTxn(producer_id, state.txn_first_offset, offset, not marker.committed)
        state.set_epoch(epoch)
        state.coordinator_epoch = marker.coordinator_epoch
        state.last_timestamp = timestamp
        state.txn_first_offset = NO_OFFSET
        return completed

    def aborted_entry(self, completed: CompletedTxn) -> AbortedTxn:
        """The index entry of an aborted transaction, made before `complete`."""
        stable = completed.last_offset + 1
        for first_offset, producer_id in self._ongoing.items():
            if producer_id != completed.producer_id:
                stable = first_offset
                break
        return AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, stable)

    def complete(self, completed: CompletedTxn) -> None:
        """The transaction is over once its marker is replicated."""
        del self._ongoing[completed.first_offset]
        self._completed[completed.first_offset] = completed.last_offset
        self._update_first_unstable_offset()

    def high_watermark_reached(self, high_watermark: int) -> None:
        """Everything before the high watermark is replicated: markers among it no longer hold back the last stable offset."""
        completed = self._completed
        if completed:
            for first_offset in [first for first, marker in completed.items() if marker < high_watermark]:
                del completed[first_offset]
            self._update_first_unstable_offset()

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that were silent for long, unless their transaction is open."""
        expired = [
            state.producer_id
            for state in self.states.values()
            if state.txn_first_offset < 0 and now_ms - state.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self.states[producer_id]

    def restore(self, states: dict[int, ProducerState]) -> None:
        """Start from a snapshot."""
        self.states = states
        open_transactions = [(s.txn_first_offset, s.producer_id) for s in states.values() if s.txn_first_offset >= 0]
        self._ongoing = dict(sorted(open_transactions))
        self._completed = {}
        self._update_first_unstable_offset()

    def adopt(self, states: Iterable[ProducerState]) -> None:
        """Add producers that nothing is known of yet."""
        for state in states:
            if state.producer_id not in self.states:
                self.states[state.producer_id] = state
                if state.txn_first_offset >= 0:
                    self._ongoing[state.txn_first_offset] = state.producer_id
        self._ongoing = dict(sorted(self._ongoing.items()))
        self._update_first_unstable_offset()

    def _update_first_unstable_offset(self) -> None:
        first = next(iter(self._ongoing), NO_OFFSET)
        if self._completed:
            completed = min(self._completed)
            if first < 0 or completed < first:
                first = completed
        self.first_unstable_offset = first
