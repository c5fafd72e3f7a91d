"""Transactions as a compaction meets them, reading a log from its start: which batches and which markers are worth nothing.

    a batch of an aborted transaction         nobody may read it: it goes
    a marker                                  stays while a batch of its transaction was met in this round; then nothing needs it

A marker that nothing needs does not go at once: a consumer may have read the batches and not the marker yet. The caller gives it a delete
horizon, as it does with tombstones, and drops it once that has passed.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from kafkapy.log.producer_replay import read_marker
from kafkapy.log.txn_index import AbortedTxn
from kafkapy.wire.record_batch import BatchHeader


class _OngoingAborted:
    """An aborted transaction whose marker was not met yet."""

    __slots__ = ("entry", "has_batches")

    def __init__(self, entry: AbortedTxn) -> None:
        self.entry = entry
        self.has_batches = False


class TransactionTrail:
    """Follows one pass over the batches of a log."""

    __slots__ = ("_aborted", "_committed", "_upcoming", "retained")

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        """`aborted` are the entries of the transaction indexes whose markers stand in what is read, or after it."""
        self._upcoming = sorted(aborted, key=attrgetter("first_offset"), reverse=True)
        self._aborted: dict[int, _OngoingAborted] = {}
        self._committed: set[int] = set()
        # The aborted transactions whose markers stay because of their batches: what the new transaction index must say.
        self.retained: list[AbortedTxn] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of records belongs to an aborted transaction."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        ongoing = self._aborted.get(header.producer_id)
        if ongoing is None:
            self._committed.add(header.producer_id)
            return False
        ongoing.has_batches = True
        return True

    def is_spent(self, header: BatchHeader, batch: memoryview | bytes) -> bool:
        """Whether nothing of its transaction is left before a control batch. One that is empty was spent long ago."""
        self._begin_up_to(header.last_offset)
        if not header.record_count:
            return True
        marker = read_marker(batch, header)
        if marker is None:
            return False
        producer_id = header.producer_id
        if marker.committed:
            if producer_id in self._committed:
                self._committed.remove(producer_id)
                return False
            return True
        ongoing = self._aborted.pop(producer_id, None)
        if ongoing is None or not ongoing.has_batches:
            return True
        self.retained.append(ongoing.entry)
        return False

    def _begin_up_to(self, offset: int) -> None:
        """The aborted transactions that begin at or before an offset are under way."""
        upcoming = self._upcoming
        while upcoming and upcoming[-1].first_offset <= offset:
            entry = upcoming.pop()
            self._aborted.setdefault(entry.producer_id, _OngoingAborted(entry))
