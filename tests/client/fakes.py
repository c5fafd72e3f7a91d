"""A cluster without sockets: brokers are functions from a request to its answer, and everything that was asked is remembered."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import Any

from kafkapy.client.client import Client
from kafkapy.client.connection import Pending, Unreachable
from kafkapy.wire.apis import API_BY_KEY
from kafkapy.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkapy.wire.schema import Request

Handler = Callable[["FakeBroker", Any], Any]

TOPIC_ID = bytes(range(16))


class FakeBroker:
    """One connection to one broker; its answers wait until somebody fetches them."""

    def __init__(self, cluster: FakeCluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.address = f"broker{node_id}:9092"
        self.closed = False
        self._requests: deque[Request] = deque()
        # Always readable, since an answer is made when it is fetched.
        self._read_end, write_end = os.pipe()
        os.write(write_end, b"x")
        os.close(write_end)

    def serves(self, key: int) -> bool:
        return key not in self.cluster.unserved

    def send(self, request: Request, *, version: int | None = None) -> Pending:
        if self.node_id in self.cluster.down:
            self.close()
            raise Unreachable(self.address, "it is down")
        self.cluster.asked.append((self.node_id, request))
        self._requests.append(request)
        return Pending(0, API_BY_KEY[request.SCHEMA.key], 0)

    def receive(self, pending: Pending, *, timeout_s: float | None = None) -> Any:
        request = self._requests.popleft()
        if isinstance(request, MetadataRequest):
            return self.cluster.describe(request)
        answer = self.cluster.handlers[type(request)](self, request)
        if isinstance(answer, Exception):
            self.close()
            raise answer
        return answer

    def request(self, request: Request, *, version: int | None = None, timeout_s: float | None = None) -> Any:
        return self.receive(self.send(request))

    def fileno(self) -> int:
        return self._read_end

    def close(self) -> None:
        if not self.closed:
            os.close(self._read_end)
        self.closed = True


class FakeCluster:
    """Brokers 1 to 3; topic "t", whose partitions have the leaders given."""

    def __init__(self, *leaders: int) -> None:
        self.leaders = list(leaders or (1, 2))
        self.controller = 1
        self.down: set[int] = set()
        self.unserved: set[int] = set()
        self.handlers: dict[type[Request], Handler] = {}
        self.asked: list[tuple[int, Request]] = []
        self.metadata_asked = 0

    def describe(self, request: MetadataRequest) -> MetadataResponse:
        """What the brokers say about the cluster now."""
        self.metadata_asked += 1
        topics = []
        for asked in request.topics or []:
            known = asked.name == "t"
            partitions = [
                MetadataResponsePartition(partition_index=index, leader_id=leader)
                for index, leader in enumerate(self.leaders)
            ]
            topics.append(
                MetadataResponseTopic(
                    name=asked.name,
                    error_code=0 if known else 3,
                    topic_id=TOPIC_ID,
                    partitions=partitions if known else [],
                )
            )
        brokers = [MetadataResponseBroker(node_id=node, host=f"broker{node}", port=9092) for node in (1, 2, 3)]
        return MetadataResponse(brokers=brokers, controller_id=self.controller, topics=topics)

    def nodes_asked(self, kind: type[Request]) -> list[int]:
        """Which brokers were sent requests of this class, in order."""
        return [node for node, request in self.asked if type(request) is kind]

    def client(self, timeout_s: float = 5.0) -> FakeClient:
        """A client whose first address is broker 1."""
        return FakeClient(self, timeout_s)


class FakeClient(Client):
    """A client that connects to fakes."""

    def __init__(self, cluster: FakeCluster, timeout_s: float) -> None:
        super().__init__("broker1:9092", timeout_s=timeout_s)
        self._cluster = cluster

    def _connect(self, host: str, port: int) -> Any:
        node_id = int(host.removeprefix("broker"))
        if node_id in self._cluster.down:
            raise Unreachable(f"{host}:{port}", "it is down")
        return FakeBroker(self._cluster, node_id)
