"""A transaction coordinator with everything around it made of plain objects: a log in memory, partitions, a clock set by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

from kafkapy.coordination import Reply
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.transactions.coordinator import TransactionCoordinator
from kafkapy.transactions.shard import Marker
from kafkapy.transactions.transaction import Producer, Transaction
from tests.support.coordinator_log import FakeLog

START_MS = 1_700_000_000_000

V1 = 0
V2 = 2


class FakePartitions:
    """Takes the markers. `codes` says how a partition answers; None: not yet, and `World.finish_markers` answers then."""

    def __init__(self) -> None:
        self.markers: dict[tuple[str, int], list[Marker]] = {}
        self.codes: dict[tuple[str, int], ErrorCode | None] = {}
        self.under_way: list[tuple[Marker, str, int]] = []

    def write_marker(self, marker: Marker, topic: str, partition: int) -> ErrorCode | None:
        """Keep the marker, or answer as the test wants it."""
        code = self.codes.get((topic, partition), ErrorCode.NONE)
        if code is None:
            self.under_way.append((marker, topic, partition))
        elif code is ErrorCode.NONE:
            self.markers.setdefault((topic, partition), []).append(marker)
        return code


class Answer(NamedTuple):
    """An answer of any of the coordinator's APIs."""

    code: ErrorCode
    producer: Producer


class World:
    """A coordinator that leads all partitions of `__transaction_state`, and a clock."""

    def __init__(self, *, partitions: int = 1, version: int = V2, markers: Any = None, **config: Any) -> None:
        self.now_ms = START_MS
        values = {
            "transaction_max_timeout_ms": 900_000,
            "transactional_id_expiration_ms": 604_800_000,
            "transaction_abort_timed_out_transaction_cleanup_interval_ms": 10_000,
            "transaction_remove_expired_transaction_cleanup_interval_ms": 3_600_000,
            "transaction_state_log_num_partitions": partitions,
        }
        self.config = SimpleNamespace(**{**values, **config})
        self.version = version
        self.log = FakeLog()
        self.partitions = FakePartitions()
        self.marker_writer = self.partitions if markers is None else markers
        self.woken: list[Any] = []
        self.producer_ids = 1000
        self.out_of_ids = False
        self.leader_epoch = 0
        self.coordinator = self._start()

    def _start(self) -> TransactionCoordinator:
        coordinator = TransactionCoordinator(
            lambda: self.config,
            SimpleNamespace(topics={}),
            self.log,
            self.marker_writer,
            self.next_producer_id,
            lambda: self.version,
            self.woken.append,
        )
        for partition in range(self.config.transaction_state_log_num_partitions):
            coordinator.elected(partition, self.leader_epoch)
            for batch in self.log.batches.get(partition, ()):
                coordinator.load(partition, batch)
            coordinator.loaded(partition, self.now_ms)
        return coordinator

    def next_producer_id(self) -> int:
        """Ids in the order in which they were asked for."""
        if self.out_of_ids:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self.producer_ids += 1
        return self.producer_ids

    def restart(self) -> None:
        """A new coordinator, in a later leader epoch, that knows only the log."""
        for partition in range(self.config.transaction_state_log_num_partitions):
            self.coordinator.resigned(partition, self.now_ms)
        self.partitions.under_way.clear()
        self.leader_epoch += 1
        self.coordinator = self._start()

    def advance(self, ms: int) -> None:
        """Let time pass, stopping at each deadline on the way."""
        end_ms = self.now_ms + ms
        while (deadline := self.coordinator.next_deadline()) is not None and deadline <= end_ms:
            self.now_ms = max(self.now_ms, deadline)
            self.coordinator.tick(self.now_ms)
        self.now_ms = end_ms

    def replicate(self) -> None:
        """The followers catch up."""
        while True:
            for partition, end in list(self.log.ends.items()):
                self.log.high_watermarks[partition] = end
                self.coordinator.high_watermark_advanced(partition, end, self.now_ms)
            if self.log.high_watermarks == self.log.ends:
                return

    def finish_markers(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """The markers that are under way arrive, or do not."""
        under_way, self.partitions.under_way = self.partitions.under_way, []
        for marker, topic, partition in under_way:
            if code is ErrorCode.NONE:
                self.partitions.markers.setdefault((topic, partition), []).append(marker)
            self.coordinator.marker_written(marker, topic, partition, code, self.now_ms)

    # Requests.

    def init(self, transactional_id: str = "t", expected: Producer | None = None, *, timeout_ms: int = 60_000) -> Reply:
        """InitProducerId."""
        return self.coordinator.init_producer_id(transactional_id, timeout_ms, expected, self.now_ms, Answer)

    def producer(self, transactional_id: str = "t", *, timeout_ms: int = 60_000) -> Producer:
        """A producer that InitProducerId let in."""
        answer = self.init(transactional_id, timeout_ms=timeout_ms).response
        assert answer.code is ErrorCode.NONE
        return answer.producer

    def add(
        self, producer: Producer, *partitions: tuple[str, int], transactional_id: str = "t", version: int = V2
    ) -> Reply:
        """Add partitions as a client of this transaction version has them added; `a-0` if nothing else is said."""
        added = frozenset(partitions or {("a", 0)})
        if version == V1:
            return self.coordinator.add_partitions(transactional_id, producer, added, self.now_ms, Answer)
        return self._verify_or_add(producer, added, transactional_id, add=True)

    def verify(self, producer: Producer, *partitions: tuple[str, int], transactional_id: str = "t") -> Reply:
        """What a leader asks before the first records; the answer's code is that of the first partition."""
        return self._verify_or_add(producer, frozenset(partitions or {("a", 0)}), transactional_id, add=False)

    def _verify_or_add(
        self, producer: Producer, partitions: frozenset[tuple[str, int]], transactional_id: str, *, add: bool
    ) -> Reply:
        reply = Reply(self.woken.append)

        def then(codes: Any) -> None:
            assert codes.keys() == partitions
            reply.give(Answer(codes[min(partitions)], producer))

        self.coordinator.verify_or_add(transactional_id, producer, partitions, self.now_ms, then, add=add)
        return reply

    def end(self, producer: Producer, *, commit: bool = True, transactional_id: str = "t", version: int = V2) -> Reply:
        """EndTxn."""
        return self.coordinator.end_transaction(transactional_id, producer, version, self.now_ms, Answer, commit=commit)

    def state(self, transactional_id: str = "t") -> Transaction:
        """What the coordinator has of the id."""
        transaction = self.coordinator.transaction(transactional_id)
        assert transaction is not None
        return transaction

    def markers(self, topic: str = "a", partition: int = 0) -> list[tuple[Producer, bool]]:
        """Who was marked in the partition, and how it ended."""
        found = self.partitions.markers.get((topic, partition), ())
        return [(Producer(marker.producer_id, marker.producer_epoch), marker.committed) for marker in found]


def code(reply: Reply) -> ErrorCode:
    """The code of an answer that must be there."""
    assert reply.response is not None, "no answer yet"
    return reply.response.code


def ok(reply: Reply) -> Producer:
    """The producer of an answer that must be there and good."""
    assert code(reply) is ErrorCode.NONE, code(reply).name
    return reply.response.producer
