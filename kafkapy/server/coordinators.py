"""The shell around the group coordinator: its log, its loading, its clock.

The coordinator itself (kafkapy/groups) is pure. Here its records go to the partitions of `__consumer_offsets` like anybody's, its shards
are loaded when this broker becomes leader of their partition, and one task sleeps until its next deadline.
"""

from __future__ import annotations

import logging
import math
import uuid
from typing import TYPE_CHECKING

import trio

from kafkapy.errors import ErrorCode, KafkaError, StorageError
from kafkapy.groups.coordinator import OFFSETS_TOPIC, GroupCoordinator
from kafkapy.log.append_info import AppendOrigin

if TYPE_CHECKING:
    from kafkapy.log.partition import Partition
    from kafkapy.server.broker import Broker

log = logging.getLogger("kafkapy.coordinators")

# A shard that loads gives way to clients after each piece of its log.
LOAD_BYTES_PER_TURN = 256 * 1024


class OffsetsLog:
    """`__consumer_offsets` as the coordinator writes it: kafkapy.groups.shard.OffsetsLog."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def append(self, partition: int, batch: bytearray) -> int:
        """Append as leader with acks=all; the offset after the batch."""
        broker = self._broker
        replica = broker.replicas.find(OFFSETS_TOPIC, partition)
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
        replica = self._broker.replicas.find(OFFSETS_TOPIC, partition)
        return replica is not None and replica.high_watermark >= end_offset


class Coordinators:
    """Drives the coordinators of one broker."""

    def __init__(self, broker: Broker, nursery: trio.Nursery) -> None:
        self._broker = broker
        self._nursery = nursery
        self._sleep = trio.CancelScope()
        # Leader epoch in which each partition is coordinated here; a new epoch means: load again.
        self._epochs: dict[int, int] = {}
        self.groups = GroupCoordinator(
            config=lambda: broker.config,
            catalog=broker.replicas,
            offsets_log=OffsetsLog(broker),
            new_id=lambda: str(uuid.uuid4()),
            wake=broker.wake,
            on_earlier=self._shorten_sleep,
        )

    # ---- leadership

    def role_changed(self, partition: Partition) -> None:
        """This broker leads a partition of an internal topic now, or does not any more."""
        name, index = partition.topic_partition
        if name != OFFSETS_TOPIC:
            return
        known = self._epochs.get(index)
        if partition.is_leader and known == partition.leader_epoch:
            return
        if known is not None:
            del self._epochs[index]
            self.groups.resigned(index, self._broker.clock_ms())
        if partition.is_leader:
            self._epochs[index] = partition.leader_epoch
            self.groups.elected(index)
            self._nursery.start_soon(self._load, partition, partition.leader_epoch)

    async def _load(self, partition: Partition, epoch: int) -> None:
        """Replay the partition's log, a piece at a time."""
        index = partition.topic_partition.partition
        try:
            offset = partition.log.log_start_offset
            while self._epochs.get(index) == epoch and offset < partition.log.log_end_offset:
                piece = partition.log.read(offset, LOAD_BYTES_PER_TURN)
                if not piece.size:
                    break
                self.groups.load(index, piece.read_bytes())
                offset = piece.end_offset
                await trio.lowlevel.checkpoint()
        except StorageError as error:
            self._broker.storage_failed(error)
            return
        if self._epochs.get(index) == epoch:
            self.groups.loaded(index, self._broker.clock_ms())
            self._broker.waiting.settle()

    def topics_deleted(self, names: list[str]) -> None:
        """Committed offsets of deleted topics go too."""
        self.groups.topics_deleted(names, self._broker.clock_ms())

    def resign_all(self) -> None:
        """The broker stops: members are told to look for another coordinator."""
        now_ms = self._broker.clock_ms()
        for index in tuple(self._epochs):
            del self._epochs[index]
            self.groups.resigned(index, now_ms)

    # ---- time

    def _shorten_sleep(self) -> None:
        self._sleep.deadline = self._next_wake()

    def _next_wake(self) -> float:
        deadline_ms = self.groups.next_deadline()
        if deadline_ms is None:
            return math.inf
        return trio.current_time() + max(0, deadline_ms - self._broker.clock_ms()) / 1000

    async def run(self) -> None:
        """Carry out what comes due, for as long as the broker lives."""
        while True:
            with trio.CancelScope(deadline=self._next_wake()) as self._sleep:
                await trio.sleep_forever()
            self.groups.tick(self._broker.clock_ms())
            self._broker.waiting.settle()
            await trio.lowlevel.checkpoint()
