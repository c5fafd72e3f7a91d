"""What the tests of raft/ share: a loop that is a queue, and a node on it as the shell would start it."""

from __future__ import annotations

import queue
from collections.abc import Callable, Hashable
from typing import Any

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.raft.cluster import NodeIdentity
from kafkapy.raft.controller import Controller
from kafkapy.raft.image import Listener
from kafkapy.raft.node import MetadataNode, MetadataSettings
from kafkapy.raft.quorum import Quorum

CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"


class QueueLoop:
    """Stands for the shell's loop: callbacks from other threads are run by whoever waits for something."""

    def __init__(self) -> None:
        self._callbacks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def run_on_loop(self, callback: Callable[[], None]) -> None:
        """What the shell hands to the quorum."""
        self._callbacks.put(callback)

    def run_until(self, condition: Callable[[], Any], timeout_s: float = 10.0) -> None:
        """Run callbacks until the condition holds."""
        while not condition():
            self._callbacks.get(timeout=timeout_s)()

    def run_all(self) -> None:
        """Run what is there."""
        while not self._callbacks.empty():
            self._callbacks.get()()


def counting_uuids(start: int = 0) -> Callable[[], bytes]:
    """Ids that are the same in every run."""
    count = start

    def new_uuid() -> bytes:
        nonlocal count
        count += 1
        return count.to_bytes(4, "big") + bytes(12)

    return new_uuid


def identity(node_id: int = 1, log_dir: bytes = b"D" * 16) -> NodeIdentity:
    """A broker that listens on one port."""
    return NodeIdentity(node_id, b"I" * 16, (Listener("PLAINTEXT", "localhost", 9092, 0),), log_dirs=(log_dir,))


class RunningNode:
    """A metadata node on a quorum, with everything that the shell gives it."""

    def __init__(
        self,
        folder: str,
        quorum: Quorum,
        loop: QueueLoop | None = None,
        node_id: int = 1,
        voters: tuple[int, ...] = (1,),
    ) -> None:
        self.node_id = node_id
        self.loop = loop or QueueLoop()
        self.config = BrokerConfig()
        self.controller = Controller(quorum, CLUSTER_ID, lambda: self.config, counting_uuids(1000 * node_id))
        self.node = MetadataNode(MetadataSettings(node_id, CLUSTER_ID, folder, voters), quorum, self.controller)
        self.published: list[Any] = []
        self.woken: list[Hashable] = []
        self.failures: list[BaseException] = []
        self.ready = False
        self.stopped_broker_epoch: int | None = None  # None: cleanly, in the epoch that the log tells
        self.now_ms = 1_700_000_000_000

    def start(self) -> RunningNode:
        """Start and register."""
        self.node.start(
            self.loop.run_on_loop,
            publishers=[lambda delta, image: self.published.append((delta, image))],
            wake=self.woken.append,
            on_ready=lambda: setattr(self, "ready", True),
            on_failure=self.failures.append,
            now_ms=lambda: self.now_ms,
        )
        before = self.node.image.brokers.get(self.node_id)
        stopped = self.stopped_broker_epoch
        if stopped is None:
            stopped = -1 if before is None else before.epoch
        self.node.register(identity(self.node_id)._replace(stopped_broker_epoch=stopped))
        return self

    def wait_ready(self) -> RunningNode:
        """Until the broker may serve."""
        self.loop.run_until(lambda: self.ready or self.failures)
        assert not self.failures, self.failures
        return self
