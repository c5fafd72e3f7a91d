"""One partition of `__transaction_state` and the transactional ids that live in it.

Theory of operation. The log is the truth: the last record of each transactional id is its Transaction. A decision makes a
new Transaction; `write` appends its record, replays it at once, and calls `done` when the high watermark covers it. So
the next decision sees what the log will have, while nobody is told anything that a failover could take back. If the
append fails, nothing has changed and `done` gets the error.

A request whose answer needs no record may still rest on one that is not replicated yet; `settled` waits for that.

While the markers of a transaction are on their way nothing else may happen to its id. Kafka answers
CONCURRENT_TRANSACTIONS and lets the client ask again; here the request is kept until the markers are written (`park`), and
gets that answer only when they take too long.

Soft state, which a failover loses: who waits, the markers under way (they are sent again), and the last epoch of a producer, which
lets it repeat an InitProducerId.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol

from kafkapy.coordination import coordinator_code
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.transactions.records import FLEXIBLE_VERSION, PLAIN_VERSION, read_record, record_key, record_value
from kafkapy.transactions.states import TransactionState
from kafkapy.transactions.transaction import (
    EPOCH_BUMP_VERSION,
    NO_PRODUCER_EPOCH,
    Producer,
    TopicPartitions,
    Transaction,
)
from kafkapy.wire.record_batch import read_header
from kafkapy.wire.record_framing import UnknownRecordType
from kafkapy.wire.records import BatchBuilder, read_records

log = logging.getLogger("kafkapy.transactions")

# How long a request is kept for the markers of the transaction before. Kafka's clients ask again after 20 to 100 ms; much longer than
# that, and they would rather be told what is going on.
CONCURRENT_WAIT_MS = 200

# Called with NONE once a record is replicated, or with the error that kept it out, as clients of a coordinator understand it.
Done = Callable[[ErrorCode, int], None]

_PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


class TransactionLog(Protocol):
    """The partitions of `__transaction_state` that this broker leads; the shell's."""

    def append(self, partition: int, batch: bytearray) -> int:
        """Append one batch as leader and return the offset after it, or raise KafkaError."""

    def is_committed(self, partition: int, end_offset: int) -> bool:
        """Whether the high watermark has reached this offset."""


class Marker(NamedTuple):
    """The end of one transaction, as every one of its partitions has to be told."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int


class Parked(NamedTuple):
    """A request that waits for markers: what to do when they are written, and what when they take too long."""

    deadline_ms: int
    again: Callable[[int], None]
    refuse: Callable[[ErrorCode], None]


class Entry:
    """A transactional id: its durable Transaction and what is going on with it."""

    __slots__ = ("end_offset", "key", "last_epoch", "marker", "parked", "transaction", "transactional_id", "unmarked")

    def __init__(self, transactional_id: str, transaction: Transaction) -> None:
        self.transactional_id = transactional_id
        self.key = record_key(transactional_id)
        self.transaction = transaction
        self.end_offset = 0  # after its last record
        self.last_epoch = (
            NO_PRODUCER_EPOCH  # the one before the current, if its holder may ask for the current one again
        )
        self.marker: Marker | None = None  # while markers are being written
        self.unmarked: set[tuple[str, int]] = set()  # where the marker is missing
        self.parked: list[Parked] = []


class ShardState(Enum):
    """A shard serves requests only when it is ACTIVE."""

    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


class Shard:
    """The transactional ids of one partition."""

    def __init__(
        self,
        partition: int,
        coordinator_epoch: int,
        transaction_log: TransactionLog,
        transaction_version: Callable[[], int],
        schedule: Callable[[int], None],
    ) -> None:
        self.partition = partition
        self.coordinator_epoch = coordinator_epoch
        self.state = ShardState.LOADING
        self.transaction_version = transaction_version
        self.schedule = schedule  # says that there will be work at some time
        self.entries: dict[str, Entry] = {}
        self.ongoing: dict[str, Entry] = {}  # those with an open transaction, which alone can time out
        self.end_offset = 0
        self._log = transaction_log
        self._uncommitted: deque[tuple[int, Done]] = deque()
        self._parked: dict[Entry, None] = {}

    # Loading and closing.

    def load(self, data: bytes | bytearray | memoryview) -> None:
        """Replay the next piece of the log, which holds whole batches."""
        assert self.state is ShardState.LOADING, "the shard is loaded already"
        position, size = 0, len(data)
        while position < size:
            header = read_header(data, position)
            self.end_offset = header.next_offset
            if not header.is_control:
                for record in read_records(data, position, header):
                    if record.key is not None:
                        self.replay(record.key, record.value)
            position += header.size

    def loaded(self) -> None:
        """The log was replayed to its end."""
        self.state = ShardState.ACTIVE
        log.log(
            logging.INFO if self.entries else logging.DEBUG,
            "__transaction_state-%d: loaded %d transactional ids, %d with an open transaction",
            self.partition,
            len(self.entries),
            len(self.ongoing),
        )

    def close(self, now_ms: int) -> None:
        """Leadership moved: everybody who waits is sent to look for the new coordinator."""
        self.state = ShardState.CLOSED
        while self._uncommitted:
            _, done = self._uncommitted.popleft()
            done(ErrorCode.NOT_COORDINATOR, now_ms)
        for entry in list(self._parked):
            for parked in self._unpark(entry):
                parked.refuse(ErrorCode.NOT_COORDINATOR)

    def takes_part(self, transactional_id: str, producer: Producer, partitions: TopicPartitions) -> bool:
        """Whether the producer's open transaction has all these partitions, and no failover can lose that."""
        entry = self.ongoing.get(transactional_id)
        if entry is None or self.state is not ShardState.ACTIVE:
            return False
        transaction = entry.transaction
        return (
            partitions <= transaction.partitions
            and producer == (transaction.producer_id, transaction.producer_epoch)
            and self._log.is_committed(self.partition, entry.end_offset)
        )

    # Replay.

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take one record into the durable state."""
        try:
            transactional_id, transaction = read_record(key, value)
        except UnknownRecordType as error:
            # A newer broker wrote it; it stays in the log, but means nothing here.
            log.warning("__transaction_state-%d: skipped a record: %s", self.partition, error)
            return
        self._apply(transactional_id, transaction)

    def _apply(self, transactional_id: str, transaction: Transaction | None) -> None:
        """The only place that changes the durable state."""
        if transaction is None:
            self.entries.pop(transactional_id, None)
            self.ongoing.pop(transactional_id, None)
            return
        entry = self.entries.get(transactional_id)
        if entry is None:
            entry = self.entries[transactional_id] = Entry(transactional_id, transaction)
        before, entry.transaction = entry.transaction, transaction
        entry.end_offset = self.end_offset
        state = transaction.state
        if state is TransactionState.ONGOING:
            self.ongoing[transactional_id] = entry
        else:
            self.ongoing.pop(transactional_id, None)
        if transaction.producer_epoch != before.producer_epoch:
            if state in _PREPARED and transaction.client_version >= EPOCH_BUMP_VERSION:
                entry.last_epoch = before.producer_epoch
            elif state is TransactionState.EMPTY or state in _PREPARED:
                # InitProducerId knows better, and says so after this.
                entry.last_epoch = NO_PRODUCER_EPOCH

    # Writing.

    def write(self, transactional_id: str, transaction: Transaction, now_ms: int, done: Done) -> None:
        """Append the record of a decision and replay it; tell `done` when it is replicated, or why it could not be."""
        entry = self.entries.get(transactional_id)
        key = entry.key if entry is not None else record_key(transactional_id)
        version = FLEXIBLE_VERSION if self.transaction_version() else PLAIN_VERSION
        builder = BatchBuilder()
        builder.append(now_ms, key, record_value(transaction, version))
        try:
            self._append(builder)
        except KafkaError as error:
            log.warning("__transaction_state-%d: could not write: %s", self.partition, error)
            done(coordinator_code(error.code), now_ms)
            return
        self._apply(transactional_id, transaction)
        self._when_committed(self.end_offset, now_ms, done)

    def remove(self, transactional_ids: list[str], now_ms: int) -> None:
        """Append tombstones for these ids, in one batch, and forget them."""
        builder = BatchBuilder()
        for transactional_id in transactional_ids:
            builder.append(now_ms, self.entries[transactional_id].key, None)
        try:
            self._append(builder)
        except KafkaError as error:
            log.warning("__transaction_state-%d: could not remove expired ids: %s", self.partition, error)
            return
        for transactional_id in transactional_ids:
            self._apply(transactional_id, None)

    def _append(self, builder: BatchBuilder) -> None:
        if self.state is ShardState.CLOSED:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        self.end_offset = self._log.append(self.partition, builder.build())

    def settled(self, entry: Entry, now_ms: int, done: Done) -> None:
        """Call `done` when everything that is known of the id is replicated."""
        self._when_committed(entry.end_offset, now_ms, done)

    def _when_committed(self, end_offset: int, now_ms: int, done: Done) -> None:
        # Behind those who came before, even if they wait for more: answers about one id never overtake each other.
        awaited = self.end_offset if self._uncommitted else end_offset
        if self._log.is_committed(self.partition, awaited):
            if self._uncommitted:
                self.high_watermark_advanced(awaited, now_ms)
            done(ErrorCode.NONE, now_ms)
        else:
            self._uncommitted.append((awaited, done))

    def high_watermark_advanced(self, high_watermark: int, now_ms: int) -> None:
        """The followers have everything below this offset."""
        waiting = self._uncommitted
        while waiting and waiting[0][0] <= high_watermark:
            _, done = waiting.popleft()
            done(ErrorCode.NONE, now_ms)

    # Waiting for markers.

    def park(
        self, entry: Entry, now_ms: int, again: Callable[[int], None], refuse: Callable[[ErrorCode], None]
    ) -> None:
        """Keep a request until the markers of the entry's transaction are written, but not for long."""
        deadline_ms = now_ms + CONCURRENT_WAIT_MS
        entry.parked.append(Parked(deadline_ms, again, refuse))
        self._parked[entry] = None
        self.schedule(deadline_ms)

    def wake_parked(self, entry: Entry, now_ms: int) -> None:
        """The markers are written: look at the requests again, in the order in which they came."""
        if entry.parked:
            for parked in self._unpark(entry):
                parked.again(now_ms)

    def refuse_parked(self, now_ms: int) -> None:
        """Answer the requests that have waited for long enough."""
        for entry in list(self._parked):
            if entry.parked[0].deadline_ms <= now_ms:
                waiting = self._unpark(entry)
                late = [parked for parked in waiting if parked.deadline_ms <= now_ms]
                early = waiting[len(late) :]
                if early:
                    entry.parked = early
                    self._parked[entry] = None
                for parked in late:
                    parked.refuse(ErrorCode.CONCURRENT_TRANSACTIONS)

    def next_parked_deadline(self) -> int | None:
        """When `refuse_parked` has work next."""
        return min((entry.parked[0].deadline_ms for entry in self._parked), default=None)

    def _unpark(self, entry: Entry) -> list[Parked]:
        self._parked.pop(entry, None)
        parked, entry.parked = entry.parked, []
        return parked
