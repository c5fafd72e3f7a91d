"""Clients of the simulated cluster: producers, consumers, and an administrator. They do what stock clients do, and remember what they were told.

A producer is idempotent. With acks=all it never gives up, so everything that it sends must be in the log once and in order; with acks=1 it takes what
the dead leader alone held for lost, and begins anew as another producer where the broker tells it that its sequence has a gap.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import TYPE_CHECKING, Any

from kafkapy.errors import ErrorCode
from kafkapy.types import TopicPartition
from kafkapy.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkapy.wire.messages.elect_leaders import ElectLeadersRequest
from kafkapy.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.wire.records import BatchBuilder
from sim.events import InvariantError, Process
from sim.network import Connection
from sim.truth import parse_batches

if TYPE_CHECKING:
    from sim.cluster import Cluster

PRODUCE_VERSION = 13
FETCH_VERSION = 15
ASK_TIMEOUT_MS = 1_500
BACKOFF_US = 60_000

_WAIT_AND_RETRY = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class WhoLeads:
    """A client's question for the metadata of one partition; the answer is (leader, leader epoch)."""

    __slots__ = ("name",)

    def __init__(self, name: TopicPartition) -> None:
        self.name = name


class Client:
    """What all of them share: a process that finds the leader of its partition and stays connected with it."""

    def __init__(self, cluster: Cluster, name: str, partition: TopicPartition) -> None:
        self.cluster = cluster
        self.simulation = cluster.simulation
        self.process = Process(name)
        self.partition = partition
        self.dice: Random = cluster.simulation.dice(name)
        self.connection: Connection | None = None
        self.leader_epoch = -1
        self.simulation.start(self.process)

    def at(self, delay_us: int, callback: Any) -> None:
        """Later."""
        self.simulation.at(delay_us, callback, self.process)

    def note(self, text: str) -> None:
        """Into the trace."""
        self.simulation.note(self.process, text)

    def find_leader(self, then: Any) -> None:
        """Ask some broker who leads, connect to it, then go on; again until it works."""
        asked = self.cluster.processes[self.dice.choice(self.cluster.ids)]
        connection = self.cluster.network.connect(self.process, asked)

        def again() -> None:
            self.at(BACKOFF_US, lambda: self.find_leader(then))

        def told(answer: tuple[int, int] | None) -> None:
            if connection is not None:
                connection.close()
            leader, epoch = answer if answer is not None else (-1, -1)
            # What an isolated broker tells may be older than what is known: clients never go back.
            if leader < 0 or epoch < self.leader_epoch:
                again()
                return
            self.leader_epoch = epoch
            self.connection = self.cluster.network.connect(self.process, self.cluster.processes[leader])
            if self.connection is None:
                again()
            else:
                then()

        if connection is None:
            again()
        else:
            connection.ask(WhoLeads(self.partition), 0, told, 500)

    def disconnect(self) -> None:
        """Give the connection up."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()


class Outgoing:
    """A batch on its way."""

    __slots__ = ("count", "data", "sequence")

    def __init__(self, sequence: int, count: int, data: bytes) -> None:
        self.sequence = sequence
        self.count = count
        self.data = data


class Producer(Client):
    """Sends numbered batches to one partition."""

    def __init__(self, cluster: Cluster, number: int, partition: TopicPartition, acks: int) -> None:
        super().__init__(cluster, f"producer-{number}", partition)
        self.acks = acks
        self.number = number
        self.lives = 0
        self.producer_id = number * 1000
        self.sequence = 0
        self.acknowledged = 0
        self.stopped = False
        self.max_in_flight = self.dice.choice((1, 1, 3, 5))
        self.forgotten = 0
        self.interval_us = self.dice.choice((80_000, 150_000, 500_000))
        self._may_lose()
        self.queue: deque[Outgoing] = deque()  # not acknowledged, in order
        self.sent = 0  # how many of them are on the wire
        self.round = 0  # answers to what was sent before the last disconnection count no more
        self._finding = False
        self.at(self.dice.randrange(500_000), self._make)

    def _may_lose(self) -> None:
        if self.acks == 1:
            self.cluster.checker.truth(self.partition).may_lose.add(self.producer_id)

    @property
    def is_done(self) -> bool:
        """Whether everything is acknowledged."""
        return self.stopped and not self.queue

    def _make(self) -> None:
        if self.stopped:
            return
        if len(self.queue) < 2 * self.max_in_flight:
            count = self.dice.choice((1, 1, 2, 7))
            builder = BatchBuilder(producer_id=self.producer_id, producer_epoch=0, base_sequence=self.sequence)
            for index in range(count):
                builder.append(self.cluster.wall_ms, None, b"%d:%d" % (self.number, self.sequence + index))
            self.queue.append(Outgoing(self.sequence, count, bytes(builder.build())))
            self.sequence += count
            self._send()
        self.at(self.dice.randrange(self.interval_us), self._make)

    def _send(self) -> None:
        if self.connection is None or not self.connection.is_open:
            if not self._finding:
                self._finding = True
                self.sent = 0
                self.round += 1
                self.find_leader(self._connected)
            return
        while self.sent < min(len(self.queue), self.max_in_flight):
            self._send_one(self.queue[self.sent])
            self.sent += 1

    def _connected(self) -> None:
        self._finding = False
        self._send()

    def _send_one(self, batch: Outgoing) -> None:
        topic_id = self.cluster.topic_id(self.partition.topic)
        data = PartitionProduceData(index=self.partition.partition, records=memoryview(bytearray(batch.data)))
        request = ProduceRequest(
            acks=self.acks, timeout_ms=1_000, topic_data=[TopicProduceData(topic_id=topic_id, partition_data=[data])]
        )
        turn = self.round
        assert self.connection is not None
        self.connection.ask(
            request, PRODUCE_VERSION, lambda answer: self._answered(turn, batch, answer), ASK_TIMEOUT_MS
        )

    def _answered(self, turn: int, batch: Outgoing, response: Any) -> None:
        if turn != self.round:
            return
        if response is None:
            self._retry()
            return
        answer = response.responses[0].partition_responses[0]
        code = ErrorCode(answer.error_code)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._acknowledged(batch, answer.base_offset if code is ErrorCode.NONE else -1)
        elif code in _WAIT_AND_RETRY or (code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and batch is not self.queue[0]):
            self._retry()
        elif self.acks == 1:
            self._begin_anew(code)
        elif code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self._forgotten(batch)
        else:
            raise InvariantError(
                f"{self.process}: sequence {batch.sequence} was refused with {code.name} ({answer.error_message}); "
                "everything before was acknowledged"
            )

    def _acknowledged(self, batch: Outgoing, offset: int) -> None:
        # An answer may overtake none before it, so it is that of the first.
        if batch is not self.queue[0]:
            raise InvariantError(
                f"{self.process}: sequence {batch.sequence} is acknowledged before {self.queue[0].sequence}"
            )
        self.queue.popleft()
        self.sent -= 1
        self.acknowledged += batch.count
        if self.acks == -1 and offset >= 0:
            truth = self.cluster.checker.truth(self.partition)
            truth.acknowledged(str(self.process), (offset, self.producer_id, batch.sequence, batch.count))
        self._send()

    def _forgotten(self, batch: Outgoing) -> None:
        """The broker has forgotten a batch that is repeated: it knows but the last one of each producer after a restart.

        That is what a producer snapshot holds, in Kafka's format. If it isn't in the log either then the end of the run finds it missing.
        """
        truth = self.cluster.checker.truth(self.partition)
        if truth.next_sequence.get(self.producer_id, 0) >= batch.sequence + batch.count:
            self.forgotten += 1
            self._acknowledged(batch, -1)
        else:
            self._retry()

    def _retry(self) -> None:
        self.disconnect()
        self.sent = 0
        self.round += 1
        self.at(self.dice.randrange(BACKOFF_US), self._send)

    def _begin_anew(self, code: ErrorCode) -> None:
        """Records that one replica alone held are lost; with acks=1 that may be."""
        self.note(f"begins anew after {code.name}")
        self.lives += 1
        self.producer_id = self.number * 1000 + self.lives
        self._may_lose()
        self.sequence = 0
        self.queue.clear()
        self._retry()


class Consumer(Client):
    """Reads one partition from the beginning."""

    def __init__(self, cluster: Cluster, number: int, partition: TopicPartition) -> None:
        super().__init__(cluster, f"consumer-{number}", partition)
        self.offset = 0
        self.records = 0
        self.at(self.dice.randrange(800_000), self._poll)

    def _poll(self) -> None:
        connection = self.connection
        if connection is None or not connection.is_open:
            self.find_leader(self._poll)
            return
        topic = FetchTopic(
            topic_id=self.cluster.topic_id(self.partition.topic),
            partitions=[
                FetchPartition(
                    partition=self.partition.partition,
                    current_leader_epoch=self.leader_epoch,
                    fetch_offset=self.offset,
                    partition_max_bytes=self.dice.choice((1, 5000)),
                )
            ],
        )
        request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=[topic])
        connection.ask(request, FETCH_VERSION, self._answered, ASK_TIMEOUT_MS)

    def _answered(self, response: Any) -> None:
        if response is None or response.error_code or not response.responses:
            self._retry()
            return
        data = response.responses[0].partitions[0]
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # A new leader's high watermark may be behind for a moment, but what was read is in its log.
            raise InvariantError(f"{self.process}: offset {self.offset}, which was read up to, is out of range")
        if data.error_code:
            self._retry()
            return
        truth = self.cluster.checker.truth(self.partition)
        for batch in parse_batches(data.records):
            if batch.next_offset <= self.offset:
                raise InvariantError(f"{self.process}: asked for {self.offset} and was given {batch}")
            truth.consumed(str(self.process), batch)
            self.records += batch.next_offset - self.offset
            self.offset = batch.next_offset
        self.at(self.dice.randrange(1_000, 80_000), self._poll)

    def _retry(self) -> None:
        self.disconnect()
        self.at(self.dice.randrange(BACKOFF_US), self._poll)


class Administrator:
    """Creates topics, moves leaderships; asks every node until the active controller answers."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.process = Process("admin")
        self.dice = cluster.simulation.dice("admin")
        self.created: set[str] = set()
        cluster.simulation.start(self.process)

    def create_topic(self, name: str, partitions: int, factor: int, min_insync: int) -> None:
        """Once the cluster has enough brokers; asked again until it is there."""
        config = CreatableTopicConfig(name="min.insync.replicas", value=str(min_insync))
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=[config])

        def answered(response: Any) -> None:
            code = response.topics[0].error_code if response is not None else None
            if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self.cluster.simulation.note(self.process, f"topic {name} is there")
                self.created.add(name)
            else:
                self.cluster.simulation.at(200_000, ask)

        def ask() -> None:
            self._ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7, answered)

        ask()

    def disturb(self) -> None:
        """Ask for preferred leaders now and then."""
        if self.dice.random() < 0.5:
            request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=1_000)
            self._ask(request, 2, lambda response: None)
        self.cluster.simulation.at(self.dice.randrange(500_000, 4_000_000), self.disturb, self.process)

    def _ask(self, request: Any, version: int, done: Any) -> None:
        cluster = self.cluster
        node_id = cluster.controller_id()
        process = cluster.processes[node_id if node_id is not None else self.dice.choice(cluster.ids)]
        connection = cluster.network.connect(self.process, process)
        if connection is None:
            cluster.simulation.at(BACKOFF_US, lambda: done(None), self.process)
            return

        def answered(response: Any) -> None:
            connection.close()
            done(response)

        connection.ask(request, version, answered, ASK_TIMEOUT_MS)
