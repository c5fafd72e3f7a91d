"""A client of a whole cluster, as patient as stock clients are: it looks for leaders and coordinators, and asks again what may be asked again."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from kafkapy.errors import ErrorCode
from kafkapy.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.wire.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.wire.record_batch import iterate_batches
from kafkapy.wire.schema import Request, Struct
from tests.support.cluster import Cluster
from tests.support.wire_client import Closed, WireClient

GROUP = 0
TRANSACTION = 1
PATIENCE_S = 20.0

RETRIABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)


def codes_of(answer: Any) -> set[ErrorCode]:
    """Every error code in an answer."""
    found: set[ErrorCode] = set()

    def look(struct: Struct) -> None:
        for name in type(struct).__slots__:  # type: ignore[attr-defined]
            value = getattr(struct, name)
            if name.endswith("error_code") and value:
                found.add(ErrorCode(value))
            for inner in value if isinstance(value, list) else (value,):
                if isinstance(inner, Struct):
                    look(inner)

    look(answer)
    return found


class PatientClient:
    """Asks the broker that is in charge."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._wires: dict[int, WireClient] = {}
        self.retried: list[ErrorCode | str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for wire in self._wires.values():
            wire.close()

    # ---- asking

    def ask(self, find: Callable[[], int], request: Request, version: int) -> Any:
        """Ask the broker that `find` finds, until the answer holds no code that calls for another try."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self.ask_once(find(), request, version)
            if answer is not None:
                codes = codes_of(answer)
                if not codes & RETRIABLE:
                    return answer
                self.retried += codes & RETRIABLE
            assert time.monotonic() < deadline, f"nobody answers {request}: {self.retried[-3:]}"
            time.sleep(0.02)

    def ask_once(self, node: int, request: Request, version: int) -> Any:
        """One try; None when the connection broke."""
        try:
            wire = self._wires.get(node)
            if wire is None:
                wire = self._wires[node] = self._cluster.connected(node)
            return wire.request(request, version)
        except (Closed, OSError, TimeoutError):
            self.retried.append("closed")
            lost = self._wires.pop(node, None)
            if lost is not None:
                lost.close()
            return None

    def anyone(self) -> int:
        """A broker that runs."""
        return next(node for node in self._cluster.broker_ids if node in self._cluster.running())

    def leader(self, topic: str, index: int) -> int:
        """The broker that leads the partition, once there is one that runs."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self.ask_once(self.anyone(), request, 12)
            if answer is not None and not answer.topics[0].error_code:
                leader = int(answer.topics[0].partitions[index].leader_id)
                if leader in self._cluster.running():
                    return leader
            assert time.monotonic() < deadline, f"nobody leads {topic}-{index}"
            time.sleep(0.02)

    def coordinator(self, kind: int, key: str) -> int:
        """The broker that coordinates a group or a transactional id."""
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self.ask_once(self.anyone(), request, 4)
            if answer is not None and not answer.coordinators[0].error_code:
                node = int(answer.coordinators[0].node_id)
                if node in self._cluster.running():
                    return node
            assert time.monotonic() < deadline, f"nobody coordinates {key}"
            time.sleep(0.02)

    def of_group(self, group_id: str, request: Request, version: int) -> Any:
        """Ask the group's coordinator."""
        return self.ask(lambda: self.coordinator(GROUP, group_id), request, version)

    def of_transaction(self, transactional_id: str, request: Request, version: int) -> Any:
        """Ask the transaction's coordinator."""
        return self.ask(lambda: self.coordinator(TRANSACTION, transactional_id), request, version)

    def of_partition(self, topic: str, index: int, request: Request, version: int) -> Any:
        """Ask the partition's leader."""
        return self.ask(lambda: self.leader(topic, index), request, version)

    # ---- what tests need

    def create_topic(self, name: str, partitions: int) -> None:
        """With as many replicas as there are brokers."""
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1)
        answer = self.ask(self.anyone, CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        assert not codes_of(answer), answer
        for index in range(partitions):
            self.leader(name, index)

    def committed_batches(self, topic: str, index: int) -> list[int]:
        """The base offsets of all data batches that a reader of committed data is to see."""
        partition = FetchPartition(partition=index, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            max_bytes=1 << 20,
            isolation_level=1,
            topics=[FetchTopic(topic=topic, partitions=[partition])],
        )
        row = self.of_partition(topic, index, request, 11).responses[0].partitions[0]
        aborted = {(one.producer_id, one.first_offset) for one in row.aborted_transactions or ()}
        seen = []
        open_aborted: set[int] = set()
        for _, header in iterate_batches(memoryview(bytes(row.records or b""))):
            open_aborted |= {producer for producer, first in aborted if first == header.base_offset}
            if header.is_control:
                open_aborted.discard(header.producer_id)
            elif header.producer_id not in open_aborted:
                seen.append(header.base_offset)
        return seen
