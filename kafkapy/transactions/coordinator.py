"""The transaction coordinator of one broker: the shards that it leads, and the door through which handlers and shell come in.

Pure: it reads no clock, opens no socket and never waits. It is driven from five sides.

1. Leadership (shell). When this broker becomes leader of `__transaction_state-N` in an epoch it has not led before:
   `elected(N, leader_epoch)`; read the partition's log from its start to its end and give each piece of whole batches to
   `load(N, piece)`, in order; `loaded(N, now_ms)`. The pieces may come from a worker thread's reads, one per turn of the loop;
   until `loaded` requests are kept for a moment, then told COORDINATOR_LOAD_IN_PROGRESS. When it stops being leader: `resigned(N, now_ms)`.
   `loaded` sends the markers of transactions that were decided but not finished.
2. Requests (handlers). They return a `Reply`; `handlers/transaction_replies.py` turns one that has no response yet into a Wait on
   the Reply object itself, which `wake` wakes.
3. The log (shell). `TransactionLog.append` writes as leader with acks=all semantics and must not call back. Whenever the high
   watermark of a partition of `__transaction_state` rises *after* append has returned (replication):
   `high_watermark_advanced(N, offset, now_ms)`. A single node never needs it, because `is_committed` is true right away.
4. Markers (shell). `MarkerWriter.write_marker(marker, topic, partition)` brings a marker to the leader of a partition. Where that
   is this broker it appends the control batch (`handlers/write_txn_markers.append_marker`, which tells the group coordinator
   too) and, once the high watermark covers it, the answer is NONE; on a single node that is right away. Otherwise it returns
   None and tells `marker_written(marker, topic, partition, code, now_ms)` later, when a follower or the other broker (by
   WriteTxnMarkers) has answered; a lost connection is NETWORK_EXCEPTION. What fails is asked for again.
5. Time (shell). One task: sleep until `next_deadline()` (None: until told), then `tick(now_ms)`, then settle the woken waits.
   `on_earlier` is called from anywhere in here when that deadline moved forward, so that the task shortens its sleep. `now_ms`
   must be the same clock as the requests' and must not jump back.

`next_producer_id` gives an id that no broker of the cluster has given, or raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS) while a new
block of them is on its way. `transaction_version` is the finalized level of that feature. FindCoordinator creates
`__transaction_state`; its settings are in `TOPIC_SETTINGS` of handlers/topic_creation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Protocol

from kafkapy.coordination import Reply
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.hashing import partition_for
from kafkapy.transactions.guards import Guards
from kafkapy.transactions.holding import Holding
from kafkapy.transactions.markers import Markers, MarkerWriter
from kafkapy.transactions.ordering import ProduceOrder
from kafkapy.transactions.requests import Answer, Requests
from kafkapy.transactions.shard import Entry, Marker, Shard, ShardState, TransactionLog
from kafkapy.transactions.states import Event, TransactionState, step
from kafkapy.transactions.transaction import (
    EPOCH_BUMP_VERSION,
    NO_PARTITIONS,
    NO_PRODUCER,
    V1,
    Producer,
    TopicPartitions,
    Transaction,
)
from kafkapy.types import TRANSACTION_TOPIC

# Tombstones of expired ids go to the log in batches of this size: each costs about 60 bytes, and a batch must stay well below the
# topic's max.message.bytes.
TOMBSTONES_PER_BATCH_MAX = 2_000

MakeResponse = Callable[[ErrorCode, Producer], Any]
Codes = Mapping[tuple[str, int], ErrorCode]
# (transactional id, producer, partitions, then, add) -> whether another broker coordinates the id, and was asked.
AskElsewhere = Callable[[str, Producer, TopicPartitions, Callable[[Codes], None], bool], bool]


class CoordinatorConfig(Protocol):
    """All configuration keys that the coordinator looks at."""

    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_state_log_num_partitions: int


class Catalog(Protocol):
    """All topics of the cluster by name; of each the coordinator asks for its partition_count."""

    topics: Any


class _Led:
    """A shard with what works on it."""

    __slots__ = ("markers", "requests", "shard")

    def __init__(
        self, shard: Shard, writer: MarkerWriter, holding: Holding, next_producer_id: Callable[[], int]
    ) -> None:
        self.shard = shard
        self.markers = Markers(shard, writer)
        self.requests = Requests(shard, self.markers, holding, next_producer_id)


class TransactionCoordinator:
    """All transactional ids that this broker coordinates. `config` is asked each time, since a configuration is replaced, never changed."""

    def __init__(
        self,
        config: Callable[[], CoordinatorConfig],
        catalog: Catalog,
        transaction_log: TransactionLog,
        marker_writer: MarkerWriter,
        next_producer_id: Callable[[], int],
        transaction_version: Callable[[], int],
        wake: Callable[[Hashable], None],
        on_earlier: Callable[[], None] | None = None,
        ask_elsewhere: AskElsewhere | None = None,
    ) -> None:
        self.guards = Guards()
        self.produce_order = ProduceOrder()
        self.config = config
        self.catalog = catalog
        self.on_earlier = on_earlier
        self._log = transaction_log
        self._writer = marker_writer
        self._next_producer_id = next_producer_id
        self._transaction_version = transaction_version
        self._wake = wake
        self._ask_elsewhere = ask_elsewhere
        self._led: dict[int, _Led] = {}
        self._holding = Holding(self._schedule)
        self._deadline_ms: int | None = None
        self._next_abort_ms: int | None = None
        self._next_expiry_ms: int | None = None

    # Leadership.

    def elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition now; its transactional ids are served after `loaded`."""
        assert partition not in self._led, f"{TRANSACTION_TOPIC}-{partition} is led already"
        shard = Shard(partition, leader_epoch, self._log, self._transaction_version, self._schedule)
        self._led[partition] = _Led(shard, self._writer, self._holding, self._next_producer_id)

    def load(self, partition: int, data: bytes | bytearray | memoryview) -> None:
        """The next piece of the partition's log: whole batches."""
        self._led[partition].shard.load(data)

    def loaded(self, partition: int, now_ms: int) -> None:
        """The log was replayed to its end."""
        led = self._led[partition]
        led.shard.loaded()
        led.markers.resend_all(now_ms)
        if self._next_abort_ms is None:
            config = self.config()
            self._next_abort_ms = now_ms + config.transaction_abort_timed_out_transaction_cleanup_interval_ms
            self._next_expiry_ms = now_ms + config.transaction_remove_expired_transaction_cleanup_interval_ms
            self._schedule(self._next_abort_ms)
            self._schedule(self._next_expiry_ms)

    def resigned(self, partition: int, now_ms: int) -> None:
        """Another broker leads the partition now, or nobody."""
        led = self._led.pop(partition, None)
        if led is not None:
            led.shard.close(now_ms)

    # Log, markers and time.

    def high_watermark_advanced(self, partition: int, high_watermark: int, now_ms: int) -> None:
        """Everything below this offset is committed."""
        led = self._led.get(partition)
        if led is not None:
            led.shard.high_watermark_advanced(high_watermark, now_ms)

    def marker_written(self, marker: Marker, topic: str, partition: int, code: ErrorCode, now_ms: int) -> None:
        """How it went with a marker that was under way."""
        led = self._led.get(self.partition_of(marker.transactional_id))
        if led is not None:
            led.markers.written(marker, topic, partition, code, now_ms)

    def next_deadline(self) -> int | None:
        """When `tick` has work next; it may be too early, never too late."""
        return self._deadline_ms

    def tick(self, now_ms: int) -> None:
        """Carry out what has come due."""
        if self._deadline_ms is None or now_ms < self._deadline_ms:
            return
        self._deadline_ms = None
        self._holding.retry(now_ms)
        config = self.config()
        aborts = self._next_abort_ms is not None and self._next_abort_ms <= now_ms
        expires = self._next_expiry_ms is not None and self._next_expiry_ms <= now_ms
        for led in list(self._led.values()):
            led.markers.retry(now_ms)
            led.shard.refuse_parked(now_ms)
            if led.shard.state is ShardState.ACTIVE:
                if aborts:
                    led.requests.time_out(now_ms)
                if expires:
                    self._expire(led.shard, now_ms - config.transactional_id_expiration_ms, now_ms)
        if aborts:
            self._next_abort_ms = now_ms + config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        if expires:
            self._next_expiry_ms = now_ms + config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._schedule_all()

    def _expire(self, shard: Shard, unused_since_ms: int, now_ms: int) -> None:
        """Remove the ids that nobody has used since then."""
        expired = [
            transactional_id
            for transactional_id, entry in shard.entries.items()
            if entry.transaction.updated_ms <= unused_since_ms and _may_expire(entry)
        ]
        for start in range(0, len(expired), TOMBSTONES_PER_BATCH_MAX):
            shard.remove(expired[start : start + TOMBSTONES_PER_BATCH_MAX], now_ms)

    def _schedule(self, deadline_ms: int) -> None:
        if self._deadline_ms is None or deadline_ms < self._deadline_ms:
            self._deadline_ms = deadline_ms
            if self.on_earlier is not None:
                self.on_earlier()

    def _schedule_all(self) -> None:
        deadlines = [self._next_abort_ms, self._next_expiry_ms, self._holding.next_retry()]
        for led in self._led.values():
            deadlines += (led.markers.next_retry(), led.shard.next_parked_deadline())
        earliest = min((deadline for deadline in deadlines if deadline is not None), default=None)
        if earliest is not None:
            self._schedule(earliest)

    # Finding an id's shard.

    def partition_of(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` where the id lives."""
        topic = self.catalog.topics.get(TRANSACTION_TOPIC)
        count = topic.partition_count if topic is not None else self.config().transaction_state_log_num_partitions
        return partition_for(transactional_id, count)

    def _request(
        self,
        transactional_id: str,
        now_ms: int,
        decide: Callable[[Requests, int], None],
        refuse: Callable[[ErrorCode], None],
    ) -> None:
        """Have a request decided where its id lives, or answer with the error."""
        try:
            requests = self._find(transactional_id).requests
        except KafkaError as error:
            if error.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                refuse(error.code)
                return

            def again(now_ms: int) -> None:
                self._request(transactional_id, now_ms, decide, refuse)

            self._holding.hold(now_ms, again, refuse)
        else:
            decide(requests, now_ms)

    def _find(self, transactional_id: str) -> _Led:
        """Where an id lives, or the error that sends the client elsewhere."""
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id must not be empty")
        led = self._led.get(self.partition_of(transactional_id))
        if led is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if led.shard.state is ShardState.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return led

    # Requests.

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None, now_ms: int, make: MakeResponse
    ) -> Reply:
        """InitProducerId with a transactional id. `expected` is the producer that only wants to go on (KIP-360)."""
        reply, answer, refuse = self._reply(make)
        if not transactional_id:
            refuse(ErrorCode.INVALID_REQUEST)
        elif not 0 < timeout_ms <= self.config().transaction_max_timeout_ms:
            refuse(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        else:
            self._request(
                transactional_id,
                now_ms,
                lambda requests, now_ms: requests.init(transactional_id, timeout_ms, expected, now_ms, answer),
                refuse,
            )
        return reply

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: TopicPartitions,
        now_ms: int,
        make: MakeResponse,
    ) -> Reply:
        """AddPartitionsToTxn v0-3 and AddOffsetsToTxn, which only clients of Transactions V1 send."""
        reply, answer, refuse = self._reply(make)
        self._request(
            transactional_id,
            now_ms,
            lambda requests, now_ms: requests.add(transactional_id, producer, partitions, V1, now_ms, answer),
            refuse,
        )
        return reply

    def end_transaction(
        self,
        transactional_id: str,
        producer: Producer,
        client_version: int,
        now_ms: int,
        make: MakeResponse,
        *,
        commit: bool,
    ) -> Reply:
        """EndTxn."""
        reply, answer, refuse = self._reply(make)
        self._request(
            transactional_id,
            now_ms,
            lambda requests, now_ms: requests.end(
                transactional_id, producer, client_version, now_ms, answer, commit=commit
            ),
            refuse,
        )
        return reply

    def _reply(self, make: MakeResponse) -> tuple[Reply, Answer, Callable[[ErrorCode], None]]:
        """A place for an answer that may come later, and two ways to give it."""
        reply = Reply(self._wake)

        def answer(code: ErrorCode, producer: Producer) -> None:
            reply.give(make(code, producer))

        return reply, answer, lambda code: answer(code, NO_PRODUCER)

    def takes_part(self, transactional_id: str, producer: Producer, partitions: TopicPartitions) -> bool:
        """Whether the producer's open transaction has all these partitions already, for good."""
        led = self._led.get(self.partition_of(transactional_id))
        return led is not None and led.shard.takes_part(transactional_id, producer, partitions)

    def verify_or_add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: TopicPartitions,
        now_ms: int,
        then: Callable[[Codes], None],
        *,
        add: bool,
    ) -> None:
        """Ask whether the partitions take part in the transaction: AddPartitionsToTxn v4+, and Produce and TxnOffsetCommit
        before the first batch that a transaction has in a partition.

        `add`: the client speaks Transactions V2 and has not announced the partitions, so they are added now. `then` gets a code for
        each partition, at once or later; verification.py has the clients' view of the codes. Where it is NONE, append within
        that very call: a step later the transaction may have ended, and what is appended then nobody will ever end. Who may
        have to wait must hold a copy of the records, since the connection's buffer moves on.
        """

        def added(code: ErrorCode, producer: Producer) -> None:
            then(dict.fromkeys(partitions, code))

        def verified(code: ErrorCode, known: TopicPartitions) -> None:
            other = code or ErrorCode.TRANSACTION_ABORTABLE
            then({one: ErrorCode.NONE if one in known else other for one in partitions})

        def decide(requests: Requests, now_ms: int) -> None:
            if add:
                requests.add(transactional_id, producer, partitions, EPOCH_BUMP_VERSION, now_ms, added)
            else:
                requests.verify(transactional_id, producer, partitions, now_ms, verified)

        self._request(transactional_id, now_ms, decide, lambda code: verified(code, NO_PARTITIONS))

    def verify_or_add_anywhere(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: TopicPartitions,
        now_ms: int,
        then: Callable[[Codes], None],
        *,
        add: bool,
    ) -> None:
        """As `verify_or_add`, for partitions that this broker leads, whichever broker coordinates the transaction.

        Here the answer and the append are one step. An answer from elsewhere is on its way for a while, so it comes with a guard against a marker
        that overtakes it; what it cannot vouch for gets NETWORK_EXCEPTION.
        """
        ask = self._ask_elsewhere
        if (
            ask is None
            or self.partition_of(transactional_id) in self._led
            or not ask(transactional_id, producer, partitions, then, add)
        ):
            self.verify_or_add(transactional_id, producer, partitions, now_ms, then, add=add)

    # Looking.

    def transaction(self, transactional_id: str) -> Transaction | None:
        """What is known of an id; None if there is no such id. Raises KafkaError where this broker cannot know."""
        entry = self._find(transactional_id).shard.entries.get(transactional_id)
        return entry.transaction if entry is not None else None

    def transactions(self) -> Iterator[tuple[str, Transaction]]:
        """Every id that this broker coordinates. Raises KafkaError while some are not loaded yet."""
        shards = [led.shard for led in self._led.values()]
        if any(shard.state is ShardState.LOADING for shard in shards):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        for shard in shards:
            for transactional_id, entry in shard.entries.items():
                yield transactional_id, entry.transaction


def _may_expire(entry: Entry) -> bool:
    try:
        return step(entry.transaction.state, Event.EXPIRE) is TransactionState.DEAD
    except KafkaError:
        return False
