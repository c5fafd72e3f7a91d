"""The second phase of a transaction: a marker into every partition, then the record that says so.

A marker goes to the leader of its partition, which may be this broker or another. What failed for a passing reason is tried again
later; a prepared transaction is never given up, because its decision stands. A partition that no longer exists needs no
marker.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Protocol

from kafkapy.errors import ErrorCode
from kafkapy.transactions.shard import Entry, Marker, Shard, ShardState
from kafkapy.transactions.states import Event, TransactionState, step
from kafkapy.transactions.transaction import Transaction, completed

log = logging.getLogger("kafkapy.transactions")

# Pause before a marker is tried again: leadership that moves takes about as long to settle.
MARKER_RETRY_MS = 100


class MarkerWriter(Protocol):
    """Brings markers to the leaders of the partitions; the shell's."""

    def write_marker(self, marker: Marker, topic: str, partition: int) -> ErrorCode | None:
        """Write the marker.

        NONE: it is written and replicated. UNKNOWN_TOPIC_OR_PARTITION: the cluster has no such partition any more. Another error: it
        was not written, and will be tried again. None: it is under way, and `TransactionCoordinator.marker_written` will be told;
        there UNKNOWN_TOPIC_OR_PARTITION is an error like any other, since a broker may know of a new partition late.
        """


class Markers:
    """The markers of one shard's transactions."""

    def __init__(self, shard: Shard, writer: MarkerWriter) -> None:
        self._shard = shard
        self._writer = writer
        self._retries: dict[Entry, set[tuple[str, int]]] = {}
        self._retry_ms: int | None = None

    def send(self, entry: Entry, now_ms: int) -> None:
        """Tell all partitions of a prepared transaction how it ended."""
        transaction = entry.transaction
        entry.marker = Marker(
            entry.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            self._shard.coordinator_epoch,
            transaction.state is TransactionState.PREPARE_COMMIT,
            transaction.client_version,
        )
        entry.unmarked = set(transaction.partitions)
        self._write(entry, transaction.partitions, now_ms)

    def resend_all(self, now_ms: int) -> None:
        """After loading: the decision stands in the log, and nobody knows which of its markers were written.

        Nor whether the followers have it. If they don't, the next coordinator may decide otherwise: markers wait for them here too.
        """
        for entry in list(self._shard.entries.values()):
            if entry.transaction.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
                self._shard.settled(entry, now_ms, partial(self._resend, entry, entry.transaction))

    def _resend(self, entry: Entry, transaction: Transaction, code: ErrorCode, now_ms: int) -> None:
        if not code and entry.transaction is transaction:
            self.send(entry, now_ms)

    def written(self, marker: Marker, topic: str, partition: int, code: ErrorCode, now_ms: int) -> None:
        """How it went with a marker that was under way."""
        entry = self._shard.entries.get(marker.transactional_id)
        if entry is None or entry.marker is not marker or (topic, partition) not in entry.unmarked:
            return  # an answer from before a failover, or the second of two
        self._note(entry, (topic, partition), code, now_ms)
        if not entry.unmarked:
            self._complete(entry, now_ms)

    def next_retry(self) -> int | None:
        """When `retry` has work next."""
        return self._retry_ms

    def retry(self, now_ms: int) -> None:
        """Write again what could not be written."""
        if self._retry_ms is None or now_ms < self._retry_ms:
            return
        retries, self._retries = self._retries, {}
        self._retry_ms = None
        for entry, partitions in retries.items():
            self._write(entry, frozenset(partitions), now_ms)

    def _write(self, entry: Entry, partitions: frozenset[tuple[str, int]], now_ms: int) -> None:
        marker = entry.marker
        assert marker is not None, "markers are written for a prepared transaction"
        write = self._writer.write_marker
        for topic_partition in partitions:
            code = write(marker, *topic_partition)
            if code is ErrorCode.NONE:
                entry.unmarked.discard(topic_partition)
            elif code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                log.info("%s-%d is gone and needs no marker of %s", *topic_partition, marker.transactional_id)
                entry.unmarked.discard(topic_partition)
            elif code is not None:
                self._note(entry, topic_partition, code, now_ms)
        if not entry.unmarked:
            self._complete(entry, now_ms)

    def _note(self, entry: Entry, topic_partition: tuple[str, int], code: ErrorCode, now_ms: int) -> None:
        if code is ErrorCode.NONE:
            entry.unmarked.discard(topic_partition)
            return
        name = entry.transactional_id
        if code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            # A later coordinator has written there; it has this transaction too, and finishes it.
            log.warning("%s-%d was marked by a later coordinator than that of %s", *topic_partition, name)
            return
        if code is ErrorCode.INVALID_PRODUCER_EPOCH:
            # A later epoch has written there, so whatever the transaction had there was ended before.
            log.warning("%s-%d refused the marker of %s, whose epoch is over", *topic_partition, name)
            entry.unmarked.discard(topic_partition)
            return
        log.info("%s-%d did not take the marker of %s (%s); trying again", *topic_partition, name, code.name)
        self._retry_later(entry, now_ms).add(topic_partition)

    def _retry_later(self, entry: Entry, now_ms: int) -> set[tuple[str, int]]:
        if self._retry_ms is None:
            self._retry_ms = now_ms + MARKER_RETRY_MS
            self._shard.schedule(self._retry_ms)
        return self._retries.setdefault(entry, set())

    def _complete(self, entry: Entry, now_ms: int) -> None:
        state = step(entry.transaction.state, Event.MARKED)
        assert state is not None, "a prepared transaction completes once"
        transaction = completed(entry.transaction, state, now_ms)

        def done(code: ErrorCode, now_ms: int) -> None:
            if code and self._shard.state is ShardState.ACTIVE:
                self._retry_later(entry, now_ms)

        self._shard.write(entry.transactional_id, transaction, now_ms, done)
        if entry.transaction is transaction:
            entry.marker = None
            self._shard.wake_parked(entry, now_ms)
