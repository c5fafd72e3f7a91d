"""Brokers without sockets: logs on disks in memory, the real handlers, and wires that carry encoded messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from types import SimpleNamespace
from typing import Any

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.errors import StorageError
from kafkapy.handlers import fetch, list_offsets
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.fetch_sessions import FetchSessions
from kafkapy.handlers.replicas import Replicas, TopicReplicas
from kafkapy.handlers.wait import Wait
from kafkapy.log.files import FilePool
from kafkapy.log.log import Log
from kafkapy.log.memory_files import MemoryFilesystem
from kafkapy.log.partition import Partition
from kafkapy.replication.follower import FETCH_VERSION, LIST_OFFSETS_VERSION, FetchSettings, LeaderFetcher
from kafkapy.types import TopicPartition
from kafkapy.wire.messages.fetch import FetchRequest, FetchResponse
from kafkapy.wire.messages.list_offsets import ListOffsetsResponse
from tests.log.support import NOW_MS, batch, config

TOPIC = "orders"
TOPIC_ID = bytes(range(16))


class Clock:
    """The one clock of a test."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS


class Connection:
    """A broker's end of a connection."""

    listener_name = "PLAINTEXT"
    local_address = ("127.0.0.1", 9092)
    client_host = "127.0.0.1"

    def __init__(self) -> None:
        self.closing = False

    def close(self) -> None:
        self.closing = True


class Node:
    """One broker as the handlers see it, and as the host of its followers."""

    def __init__(self, node_id: int, clock: Clock, **settings: object) -> None:
        self.node_id = node_id
        self.clock = clock
        self.disk = MemoryFilesystem()
        self.settings = config(**settings)
        self.config: Any = BrokerConfig({"node.id": str(node_id)})
        self.replicas = Replicas()
        self.image: Any = SimpleNamespace(brokers={}, topics=SimpleNamespace(partition=lambda name, index: None))
        self.fetch_sessions = FetchSessions(1000, 1)
        self.woken: dict[Hashable, None] = {}
        self.failures: list[StorageError] = []
        self.committed_partitions: list[Partition] = []
        self.held_ms = 0

    # As the handlers see it.

    def wake(self, key: Hashable) -> None:
        self.woken[key] = None

    def storage_failed(self, error: StorageError) -> None:
        self.failures.append(error)

    def context(self, version: int, connection: Any, client_id: str = "test") -> RequestContext:
        return RequestContext(self, connection, version, client_id, self.clock.now_ms)  # type: ignore[arg-type]

    # As the followers' host.

    def truncate(self, partition: Partition, offset: int, now_ms: int) -> None:
        partition.truncate_to(offset, now_ms)

    def start_anew(self, partition: Partition, offset: int, now_ms: int) -> None:
        partition.truncate_fully_and_start_at(offset, now_ms)

    def committed(self, partition: Partition) -> None:
        self.committed_partitions.append(partition)

    def may_fetch(self, partition: Partition, now_ms: int) -> int:
        return self.held_ms

    def received(self, partition: Partition, size: int, now_ms: int) -> None:
        pass

    # For tests.

    def add(self, index: int = 0, topic: str = TOPIC, topic_id: bytes = TOPIC_ID) -> Partition:
        """A replica, without a role yet."""
        known = self.replicas.topics.get(topic)
        if known is None:
            known = self.replicas.topics[topic] = self.replicas.by_id[topic_id] = TopicReplicas(topic, topic_id, 0)
        known.partition_count = max(known.partition_count, index + 1)
        name = TopicPartition(topic, index)

        def open_log() -> Log:
            return Log.open(
                f"/data/{name}",
                self.settings,
                topic_partition=name,
                topic_id=topic_id,
                now_ms=self.clock.now_ms,
                pool=FilePool(self.disk, 64),
            )

        partition = known.partitions[index] = Partition(name, topic_id, self.node_id, open_log)
        return partition

    def forget(self, index: int = 0, topic: str = TOPIC) -> None:
        del self.replicas.topics[topic].partitions[index]


class Wire:
    """A follower's connection to its leader. Nothing moves but in `step`, so tests decide about the order of things."""

    def __init__(self, follower: Node, leader: Node, settings: FetchSettings | None = None) -> None:
        self.follower = follower
        self.leader = leader
        self.fetcher = LeaderFetcher(leader.node_id, follower.node_id, settings or FetchSettings(), follower)
        self.connection = Connection()
        self.broker_epoch = -1
        self.requests: list[Any] = []
        self.responses: list[Any] = []
        self._open: deque[list[Any]] = deque()  # request, Wait or encoded answer

    def send(self) -> bool:
        """Send what the fetcher wants to; whether there was anything."""
        sent = False
        while True:
            request = self.fetcher.next_request(self.leader.clock.now_ms, self.broker_epoch)
            if request is None:
                return sent
            sent = True
            self.requests.append(request)
            fetches = isinstance(request, FetchRequest)
            version = FETCH_VERSION if fetches else LIST_OFFSETS_VERSION
            decoded = type(request).decode(request.encode(version), version)
            handler: Any = fetch if fetches else list_offsets
            answer = handler.handle(self.leader.context(version, self.connection), decoded)
            self._open.append([request, answer])

    def settle(self) -> None:
        """Ask the waits that were woken, or whose time is over."""
        for entry in self._open:
            wait = entry[1]
            if isinstance(wait, Wait):
                expired = self.leader.clock.now_ms >= wait.deadline_ms
                if expired or any(key in self.leader.woken for key in wait.keys):
                    answer = wait.again(expired)
                    if answer is not None:
                        entry[1] = answer
        self.leader.woken.clear()

    def receive(self) -> bool:
        """Let the answers that are there arrive, in order; whether there were any."""
        received = False
        while self._open and not isinstance(self._open[0][1], Wait):
            request, answer = self._open.popleft()
            if isinstance(answer, FetchResponse | ListOffsetsResponse):
                answer = over_the_wire(answer)
            self.responses.append(answer)
            self.fetcher.answered(request, answer, self.follower.clock.now_ms)
            received = True
        return received

    def run(self) -> None:
        """Until nothing moves any more without time passing."""
        while True:
            moved = self.send()
            self.settle()
            if not self.receive() and not moved:
                return

    def break_off(self) -> None:
        """The connection ends; nothing that is open is answered."""
        self.connection.close()
        self.connection = Connection()
        broken, self._open = self._open, deque()
        for request, answer in broken:
            if isinstance(answer, FetchResponse):
                over_the_wire(answer)
            self.fetcher.answered(request, None, self.follower.clock.now_ms)


def over_the_wire(answer: Any) -> Any:
    """Encode as the connection does, file slices sent and released, and decode again."""
    version = FETCH_VERSION if isinstance(answer, FetchResponse) else LIST_OFFSETS_VERSION
    out, splits = bytearray(), []  # type: ignore[var-annotated]
    type(answer).encoder(version)(answer, out, splits)
    data, position = b"", 0
    for at, piece in splits:
        data += bytes(out[position:at]) + piece.read_bytes()
        piece.release()
        position = at
    return type(answer).decode(data + bytes(out[position:]), version)


def lead(nodes: list[Node], leader: int, epoch: int, isr: tuple[int, ...] | None = None, index: int = 0) -> None:
    """Give all replicas their role, as the metadata would."""
    ids = tuple(node.node_id for node in nodes)
    for node in nodes:
        partition = node.replicas.topics[TOPIC].partitions[index]
        if node.node_id == leader:
            partition.make_leader(epoch, isr or ids, ids, now_ms=node.clock.now_ms)
        else:
            partition.make_follower(leader, epoch, isr or ids, ids)


def send(partition: Partition, count: int = 1, *, acks: int = 1, **options: Any) -> int:
    """Append as a client does; the first offset."""
    return partition.append_as_leader(batch(count, **options), now_ms=NOW_MS, required_acks=acks).first_offset


def contents(partition: Partition) -> bytes:
    """All bytes of the log."""
    replica = partition.log
    data, offset = b"", replica.log_start_offset
    while offset < replica.log_end_offset:
        found = replica.read(offset, 1 << 20)
        data += found.read_bytes()
        offset = found.end_offset
    return data
