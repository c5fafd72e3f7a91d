"""A small synchronous client of any Kafka cluster, for the command line and for tests: it knows the brokers and the leaders.

It asks one thing at a time and keeps no background threads, so it starts in milliseconds and fails where it is called.
"""

from __future__ import annotations

from typing import Any, Self

from kafkapy.client.connection import BrokerConnection, Unreachable
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkapy.wire.schema import Request


class Client:
    """Connections to a cluster, opened as they are needed."""

    def __init__(self, bootstrap: str, *, client_id: str = "kafkapy", timeout_s: float = 10.0) -> None:
        self._bootstrap = [_address(part) for part in bootstrap.split(",") if part.strip()]
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._any: BrokerConnection | None = None
        self._by_node: dict[int, BrokerConnection] = {}
        self._addresses: dict[int, tuple[str, int]] = {}
        self._leaders: dict[tuple[str, int], int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for connection in {self._any, *self._by_node.values()} - {None}:
            connection.close()  # type: ignore[union-attr]
        self._any = None
        self._by_node.clear()

    def any_broker(self) -> BrokerConnection:
        """A connection to the first bootstrap address that answers."""
        if self._any is None:
            failure: Unreachable | None = None
            for host, port in self._bootstrap:
                try:
                    self._any = self._connect(host, port)
                    break
                except Unreachable as error:
                    failure = error
            if self._any is None:
                raise failure or Unreachable("no bootstrap address given")
        return self._any

    def node(self, node_id: int) -> BrokerConnection:
        """A connection to one broker of the cluster."""
        connection = self._by_node.get(node_id)
        if connection is None:
            if node_id not in self._addresses:
                self.metadata([])
            if node_id not in self._addresses:
                raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} is not known to the cluster")
            connection = self._by_node[node_id] = self._connect(*self._addresses[node_id])
        return connection

    def request(self, request: Request, *, node: int | None = None, timeout_s: float | None = None) -> Any:
        """Ask any broker, or the one named."""
        connection = self.any_broker() if node is None else self.node(node)
        return connection.request(request, timeout_s=timeout_s)

    def metadata(self, topics: list[str] | None = None, *, create: bool = False) -> MetadataResponse:
        """Describe the cluster and these topics (None: all). Remembers addresses and leaders."""
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        answer: MetadataResponse = self.any_broker().request(
            MetadataRequest(topics=asked, allow_auto_topic_creation=create)
        )
        self._addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        for topic in answer.topics:
            for partition in topic.partitions:
                self._leaders[topic.name or "", partition.partition_index] = partition.leader_id
        return answer

    def topic(self, name: str) -> MetadataResponseTopic:
        """One topic's partitions; KafkaError if it does not exist."""
        topic = self.metadata([name]).topics[0]
        if topic.error_code:
            raise KafkaError(ErrorCode(topic.error_code), f"topic {name}: {ErrorCode(topic.error_code).explanation}")
        return topic

    def partitions(self, name: str) -> list[MetadataResponsePartition]:
        """A topic's partitions by index."""
        return sorted(self.topic(name).partitions, key=lambda partition: partition.partition_index)

    def leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition."""
        if (topic, partition) not in self._leaders:
            self.topic(topic)
        leader = self._leaders.get((topic, partition), -1)
        if leader < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader")
        return leader

    def forget_leaders(self) -> None:
        """After NOT_LEADER_OR_FOLLOWER: ask again next time."""
        self._leaders.clear()

    def _connect(self, host: str, port: int) -> BrokerConnection:
        return BrokerConnection(host, port, client_id=self._client_id, timeout_s=self._timeout_s)


def _address(text: str) -> tuple[str, int]:
    """host:port, with [..] around an IPv6 host; the port may be left out."""
    text = text.strip()
    host, colon, port = text.rpartition(":")
    if not colon or host.endswith(":") or text.endswith("]"):
        host, port = text, "9092"
    if not port.isdigit():
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)
