"""The shell around the group and the transaction coordinator: their logs, their loading, their clock.

The coordinators themselves (kafkapy/groups, kafkapy/transactions) are pure. Here their records go to the partitions of their internal topic like
anybody's, their shards are loaded when this broker becomes leader of a partition, and a task for each sleeps until its next deadline.

A coordinator is made, and its code loaded, when somebody needs it: a broker without groups and transactions starts without.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import trio

from kafkapy.errors import ErrorCode, KafkaError, ProtocolError, StorageError
from kafkapy.handlers.wait import NEVER_MS, Wait
from kafkapy.log.append_info import AppendOrigin
from kafkapy.raft.image import GROUP
from kafkapy.server.waiting import NOBODY
from kafkapy.types import OFFSETS_TOPIC, TRANSACTION_TOPIC

if TYPE_CHECKING:
    from kafkapy.groups.coordinator import GroupCoordinator
    from kafkapy.log.partition import Partition
    from kafkapy.server.broker import Broker
    from kafkapy.transactions.coordinator import TransactionCoordinator

log = logging.getLogger("kafkapy.coordinators")

# A shard that loads gives way to clients after each piece of its log.
LOAD_BYTES_PER_TURN = 256 * 1024


class Coordinator(Protocol):
    """What both coordinators are driven by."""

    def load(self, partition: int, data: bytes) -> None:
        """The next piece of its log."""

    def loaded(self, partition: int, now_ms: int) -> None:
        """That was all."""

    def high_watermark_advanced(self, partition: int, high_watermark: int, now_ms: int) -> None:
        """Everything before this offset is replicated."""

    def next_deadline(self) -> int | None:
        """When to call `tick`."""

    def tick(self, now_ms: int) -> None:
        """Carry out what has come due."""


class CoordinatorLog:
    """An internal topic as its coordinator writes it."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._broker = broker
        self._topic = topic

    def append(self, partition: int, batch: bytearray) -> int:
        """Append as leader with acks=all; the offset after the batch."""
        broker = self._broker
        replica = broker.replicas.find(self._topic, partition)
        if replica is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            info = replica.append_as_leader(
                batch, now_ms=broker.clock_ms(), required_acks=-1, origin=AppendOrigin.COORDINATOR
            )
        except StorageError as error:
            broker.storage_failed(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        broker.wake(replica)
        return info.last_offset + 1

    def is_committed(self, partition: int, end_offset: int) -> bool:
        """Whether the high watermark covers it."""
        replica = self._broker.replicas.find(self._topic, partition)
        return replica is not None and replica.high_watermark >= end_offset


class Driver:
    """Drives one coordinator: leadership, loading, time."""

    def __init__(
        self,
        broker: Broker,
        nursery: trio.Nursery,
        topic: str,
        coordinator: Callable[[], Coordinator],
        elect: Callable[[int, int], object],
        resign: Callable[[int], None],
    ) -> None:
        """`coordinator` makes it when it is needed first; `elect` takes a partition and its leader epoch, `resign` a partition."""
        self.topic = topic
        self.elect = elect
        self.resign = resign
        self._make = coordinator
        self._made: Coordinator | None = None
        self._broker = broker
        self._nursery = nursery
        self._sleep = trio.CancelScope()
        # The leader epoch in which each partition is coordinated here; another epoch means: load again.
        self._epochs: dict[int, int] = {}
        # Partitions with followers whose high watermark is watched.
        self._watched: set[int] = set()

    @property
    def coordinator(self) -> Coordinator:
        """The coordinator, made now if it was not."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def role_changed(self, partition: Partition) -> None:
        """This broker leads a partition of the topic now, or does not any more."""
        index = partition.topic_partition.partition
        known = self._epochs.get(index)
        if partition.is_leader and len(partition.replicas) > 1 and index not in self._watched:
            self._watch(partition)
        if partition.is_leader and known == partition.leader_epoch:
            return
        if known is not None:
            del self._epochs[index]
            self.resign(index)
        if partition.is_leader:
            self._epochs[index] = partition.leader_epoch
            self.elect(index, partition.leader_epoch)
            self._nursery.start_soon(self._load, partition, partition.leader_epoch)

    def _watch(self, partition: Partition) -> None:
        """Tell the coordinator whenever the followers have more: not in the middle of an append, but when what brought it about is done."""
        index = partition.topic_partition.partition
        self._watched.add(index)

        def again(expired: bool) -> bool | None:
            if expired or index not in self._epochs:
                self._watched.discard(index)
                return True
            now_ms = self._broker.clock_ms()
            self.coordinator.high_watermark_advanced(index, partition.high_watermark, now_ms)
            return None

        self._broker.waiting.park(Wait((partition,), self._broker.clock_ms() + NEVER_MS, again), NOBODY)

    async def _load(self, partition: Partition, epoch: int) -> None:
        """Replay the partition's log, a piece at a time."""
        index = partition.topic_partition.partition
        try:
            offset = partition.log.log_start_offset
            while self._epochs.get(index) == epoch and offset < partition.log.log_end_offset:
                piece = partition.log.read(offset, LOAD_BYTES_PER_TURN)
                if not piece.size:
                    break
                self.coordinator.load(index, piece.read_bytes())
                offset = piece.end_offset
                await trio.lowlevel.checkpoint()
        except StorageError as error:
            self._broker.storage_failed(error)
            return
        except (KafkaError, ProtocolError) as error:
            # Half a state would be worse than none: what lives in this partition stays "loading" until somebody has repaired the log.
            log.error("%s cannot be loaded: %s", partition.topic_partition, error)
            return
        if self._epochs.get(index) == epoch:
            self.coordinator.loaded(index, self._broker.clock_ms())
            self._broker.waiting.settle()

    def resign_all(self) -> None:
        """The broker stops: clients are told to look for another coordinator."""
        for index in tuple(self._epochs):
            del self._epochs[index]
            self.resign(index)

    def shorten_sleep(self) -> None:
        """A deadline moved forward."""
        if self._made is None:
            self._made = self._make()  # A request came before any partition of the topic.
        self._sleep.deadline = self._next_wake()

    def _next_wake(self) -> float:
        deadline_ms = None if self._made is None else self._made.next_deadline()
        if deadline_ms is None:
            return math.inf
        return trio.current_time() + max(0, deadline_ms - self._broker.clock_ms()) / 1000

    async def run(self) -> None:
        """Carry out what comes due, for as long as the broker lives."""
        while True:
            with trio.CancelScope(deadline=self._next_wake()) as self._sleep:
                await trio.sleep_forever()
            self.coordinator.tick(self._broker.clock_ms())
            self._broker.waiting.settle()
            await trio.lowlevel.checkpoint()


class Coordinators:
    """Both coordinators of one broker."""

    def __init__(self, broker: Broker, nursery: trio.Nursery) -> None:
        self._broker = broker
        self._groups = Driver(
            broker,
            nursery,
            OFFSETS_TOPIC,
            lambda: self.groups,
            lambda partition, epoch: self.groups.elected(partition),
            lambda partition: self.groups.resigned(partition, broker.clock_ms()),
        )
        self._transactions = Driver(
            broker,
            nursery,
            TRANSACTION_TOPIC,
            lambda: self.transactions,
            lambda partition, epoch: self.transactions.elected(partition, epoch),
            lambda partition: self.transactions.resigned(partition, broker.clock_ms()),
        )
        self._drivers = {driver.topic: driver for driver in (self._groups, self._transactions)}

    @cached_property
    def groups(self) -> GroupCoordinator:
        """The group coordinator."""
        from kafkapy.groups.coordinator import GroupCoordinator

        broker = self._broker
        return GroupCoordinator(
            config=lambda: broker.config,
            catalog=broker.replicas,
            offsets_log=CoordinatorLog(broker, OFFSETS_TOPIC),
            new_id=lambda: str(uuid.uuid4()),
            wake=broker.wake,
            on_earlier=self._groups.shorten_sleep,
            group_overrides=lambda group_id: broker.image.config(GROUP, group_id),
        )

    @cached_property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator."""
        from kafkapy.server.marker_sender import MarkerSender
        from kafkapy.server.transaction_questions import Questions
        from kafkapy.transactions.coordinator import TransactionCoordinator

        broker = self._broker
        return TransactionCoordinator(
            config=lambda: broker.config,
            catalog=broker.replicas,
            transaction_log=CoordinatorLog(broker, TRANSACTION_TOPIC),
            marker_writer=MarkerSender(broker),
            next_producer_id=lambda: broker.producer_ids.take(),
            transaction_version=lambda: broker.image.features.get("transaction.version", 0),
            wake=broker.wake,
            on_earlier=self._transactions.shorten_sleep,
            ask_elsewhere=Questions(broker).ask,
        )

    def role_changed(self, partition: Partition) -> None:
        """The role of a partition of an internal topic has changed."""
        driver = self._drivers.get(partition.topic_partition.topic)
        if driver is not None:
            driver.role_changed(partition)

    def topics_changed(self) -> None:
        """Consumer groups look at the topics again."""
        if "groups" in self.__dict__:
            self.groups.topics_changed()

    def topics_deleted(self, names: list[str]) -> None:
        """Committed offsets of deleted topics go too."""
        if "groups" in self.__dict__:
            self.groups.topics_deleted(names, self._broker.clock_ms())

    def resign_all(self) -> None:
        """The broker stops."""
        for driver in self._drivers.values():
            driver.resign_all()

    async def run(self) -> None:
        """Keep the time of both."""
        async with trio.open_nursery() as nursery:
            for driver in self._drivers.values():
                nursery.start_soon(driver.run)
