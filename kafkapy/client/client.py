"""A small synchronous client of any Kafka cluster, for the command line and for tests: it knows the brokers and the leaders.

It keeps no background threads, so it starts in milliseconds and fails where it is called. `producer.py`, `fetcher.py`,
`offsets.py` and `admin.py` stand on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self, TypeVar

from kafkapy.client.connection import BrokerConnection, Unreachable
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.types import ZERO_UUID, TopicPartition
from kafkapy.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkapy.wire.schema import Request, Response

T = TypeVar("T")

BACKOFF_FIRST_S = 0.02
BACKOFF_MAX_S = 1.0
CONNECT_TIMEOUT_S = 10.0

# Metadata that will be better in a moment.
NO_LEADER_YET = (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.BROKER_NOT_AVAILABLE)

# What a partition's results look like to `on_leaders`: whose it is, its error code, and what was found.
PartitionResults = Iterable[tuple[TopicPartition, int, T]]


class Client:
    """Connections to a cluster, opened as they are needed. `timeout_s` bounds each request, and each operation with its retries."""

    def __init__(self, bootstrap: str, *, client_id: str = "kafkapy", timeout_s: float = 30.0) -> None:
        self.timeout_s = timeout_s
        self._bootstrap = [parse_address(part) for part in bootstrap.split(",") if part.strip()]
        self._client_id = client_id
        self._any: BrokerConnection | None = None
        self._by_node: dict[int, BrokerConnection] = {}
        self._addresses: dict[int, tuple[str, int]] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, bytes] = {}
        self._topic_names: dict[bytes, str] = {}
        self._controller = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for connection in (self._any, *self._by_node.values()):
            if connection is not None:
                connection.close()
        self._any = None
        self._by_node.clear()

    # Connections

    def any_broker(self) -> BrokerConnection:
        """A connection to the first address that answers: those of the bootstrap list, then the brokers known from before."""
        if self._any is None or self._any.closed:
            failure: Unreachable | None = None
            for host, port in dict.fromkeys([*self._bootstrap, *self._addresses.values()]):
                try:
                    self._any = self._connect(host, port)
                    return self._any
                except Unreachable as error:
                    failure = failure or error
            raise failure or Unreachable("", "no bootstrap address given")
        return self._any

    def node(self, node_id: int) -> BrokerConnection:
        """A connection to one broker of the cluster."""
        connection = self._by_node.get(node_id)
        if connection is None or connection.closed:
            if node_id not in self._addresses:
                self.metadata([])
            if node_id not in self._addresses:
                raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} is not known to the cluster")
            connection = self._by_node[node_id] = self._connect(*self._addresses[node_id])
        return connection

    def request(self, request: Request, *, node: int | None = None, timeout_s: float | None = None) -> Any:
        """Ask any broker, or the one named. Nothing is repeated."""
        connection = self.any_broker() if node is None else self.node(node)
        return connection.request(request, timeout_s=timeout_s)

    def _connect(self, host: str, port: int) -> BrokerConnection:
        return BrokerConnection(
            host,
            port,
            client_id=self._client_id,
            timeout_s=self.timeout_s,
            connect_timeout_s=min(self.timeout_s, CONNECT_TIMEOUT_S),
        )

    # What the cluster looks like

    def metadata(self, topics: list[str] | None = None, *, create: bool = False) -> MetadataResponse:
        """Describe the cluster and these topics (None: all). Remembers addresses, leaders and topic ids."""
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        answer: MetadataResponse = self.any_broker().request(
            MetadataRequest(topics=asked, allow_auto_topic_creation=create)
        )
        addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        for node_id in [node for node in self._by_node if addresses.get(node) != self._addresses.get(node)]:
            self._by_node.pop(node_id).close()
        self._addresses = addresses
        self._controller = answer.controller_id
        for topic in answer.topics:
            name = topic.name or ""
            if topic.topic_id != ZERO_UUID:
                self._topic_ids[name] = topic.topic_id
                self._topic_names[topic.topic_id] = name
            for partition in topic.partitions:
                self._leaders[TopicPartition(name, partition.partition_index)] = partition.leader_id
        return answer

    def topic(self, name: str, *, create: bool = False) -> MetadataResponseTopic:
        """One topic with its partitions in order; KafkaError if it does not exist. A topic just created may still lack leaders."""
        for is_last in self.attempts():
            topic = self.metadata([name], create=create).topics[0]
            codes = {topic.error_code, *(partition.error_code for partition in topic.partitions)} - {ErrorCode.NONE}
            waited_for = {ErrorCode.LEADER_NOT_AVAILABLE} | (
                {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} if create else set()
            )
            if not topic.error_code and (is_last or ErrorCode.LEADER_NOT_AVAILABLE not in codes):
                topic.partitions.sort(key=lambda partition: partition.partition_index)
                return topic
            if is_last or not codes <= waited_for:
                raise error_of(topic.error_code, f"topic {name}")
        raise AssertionError("the last attempt returns or raises")

    def partitions(self, name: str) -> list[MetadataResponsePartition]:
        """A topic's partitions by index."""
        return self.topic(name).partitions

    def topic_id(self, name: str) -> bytes:
        """The id that newer versions of Produce and Fetch use in place of the name; zero where the cluster has none."""
        if name not in self._topic_ids:
            self.topic(name)
        return self._topic_ids.get(name, ZERO_UUID)

    def topic_name(self, topic_id: bytes) -> str:
        """The reverse of `topic_id`, for the answers."""
        return self._topic_names.get(topic_id, "")

    def leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition."""
        key = TopicPartition(topic, partition)
        if self._leaders.get(key, -1) < 0:
            self._leaders.pop(key, None)
            found = self.topic(topic)
            if key not in self._leaders:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"topic {topic} has {len(found.partitions)} partitions, so there is no partition {partition}",
                )
        leader = self._leaders[key]
        if leader < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{key} has no leader")
        return leader

    def forget_leaders(self) -> None:
        """After NOT_LEADER_OR_FOLLOWER or a lost connection: ask again next time. Topics may have been created anew, too."""
        self._leaders.clear()
        self._topic_ids.clear()

    # Requests that find their broker and are repeated while that may help

    def attempts(self) -> Iterator[bool]:
        """Count attempts with growing pauses between them; True with the last one, when the time is over."""
        deadline = time.monotonic() + self.timeout_s
        pause = BACKOFF_FIRST_S
        while (left := deadline - time.monotonic()) > 0:
            yield False
            time.sleep(min(pause, max(left, 0)))
            pause = min(pause * 2, BACKOFF_MAX_S)
        yield True

    def on_controller(self, request: Request, codes: Callable[[Any], Iterable[int]]) -> Any:
        """Send what only the controller may do; `codes` finds the error codes of the answer."""
        for is_last in self.attempts():
            if self._controller < 0:
                self.metadata([])
            node = self._controller if self._controller >= 0 else None
            answer: Response = self.request(request, node=node)
            if is_last or ErrorCode.NOT_CONTROLLER not in codes(answer):
                return answer
            self._controller = -1
        raise AssertionError("the last attempt returns")

    def on_leaders(
        self,
        partitions: Iterable[TopicPartition],
        build: Callable[[list[TopicPartition]], Request],
        read: Callable[[Any], PartitionResults[T]],
    ) -> tuple[dict[TopicPartition, T], dict[TopicPartition, KafkaError]]:
        """Ask each partition's leader, all leaders at the same time; what has failed for a passing reason is asked again."""
        found: dict[TopicPartition, T] = {}
        failed: dict[TopicPartition, KafkaError] = {}
        missing = set(partitions)
        for is_last in self.attempts():
            refused, lost = self._ask_leaders(missing, build, read, found)
            if lost is not None and is_last:
                raise lost
            missing = set()
            for partition, error in refused.items():
                if error.code.retriable and not is_last:
                    missing.add(partition)
                else:
                    failed[partition] = error
            if not missing:
                return found, failed
            self.forget_leaders()
        raise AssertionError("the last attempt returns or raises")

    def _ask_leaders(
        self,
        partitions: set[TopicPartition],
        build: Callable[[list[TopicPartition]], Request],
        read: Callable[[Any], PartitionResults[T]],
        found: dict[TopicPartition, T],
    ) -> tuple[dict[TopicPartition, KafkaError], Unreachable | None]:
        """One round: fills `found`; returns what was refused, and the first connection that failed."""
        refused: dict[TopicPartition, KafkaError] = {}
        lost: Unreachable | None = None
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in sorted(partitions):
            try:
                by_leader.setdefault(self.leader(*partition), []).append(partition)
            except KafkaError as error:
                if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                refused[partition] = error
        sent = []
        for leader, asked in by_leader.items():
            try:
                connection = self.node(leader)
                sent.append((connection, connection.send(build(asked)), asked))
            except Unreachable as error:
                lost = lost or error
                refused.update({partition: _network_error(error) for partition in asked})
        for connection, pending, asked in sent:
            try:
                for partition, code, result in read(connection.receive(pending)):
                    if code:
                        refused[partition] = error_of(code, str(partition))
                    else:
                        found[partition] = result
            except Unreachable as error:
                lost = lost or error
                refused.update({partition: _network_error(error) for partition in asked})
        return refused, lost


def error_of(code: int, subject: str, message: str | None = None) -> KafkaError:
    """The KafkaError for a code of an answer; brokers newer than us may send codes that we do not know."""
    known = ErrorCode(code) if code in ErrorCode._value2member_map_ else ErrorCode.UNKNOWN_SERVER_ERROR
    return KafkaError(known, f"{subject}: {message or (known.explanation if known == code else f'error code {code}')}")


def _network_error(error: Unreachable) -> KafkaError:
    return KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error))


def parse_address(text: str) -> tuple[str, int]:
    """host:port, with [..] around an IPv6 host; the port may be left out. A protocol in front is ignored, as Java's clients do."""
    text = text.strip()
    address = text.rpartition("://")[2]
    host, colon, port = address.rpartition(":")
    if not colon or host.endswith(":") or address.endswith("]"):
        host, port = address, "9092"
    if not (host and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)
