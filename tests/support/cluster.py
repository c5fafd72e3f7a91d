"""A cluster of brokers in one thread of this process: one trio loop, real sockets on loopback, a folder for each node.

    with Cluster(tmp_path, brokers=3) as cluster:
        with cluster.client() as client: ...           # of all brokers
        with cluster.connected(2) as wire: ...         # a raw connection to broker 2
        cluster.call(lambda: cluster.node(1).image)    # on the loop, where the brokers' parts may be looked at
        cluster.kill(2); cluster.start(2); cluster.stop(3)
        cluster.wait_for(lambda: cluster.node(1).image.brokers[2].fenced)

Nodes 1 to `brokers` are brokers; the first `voters` of them are controllers as well (all of them unless said otherwise), and with
`controllers=N` there are N nodes more, numbered on, that only control and are then the only voters. A killed node is gone without a word, as after
SIGKILL: its sockets close, nothing is flushed or handed over. What SIGKILL does to a disk is for tests with processes. The end of the block kills.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

import trio

from kafkapy.client.client import Client
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.server.broker import Broker
from tests.support.ports import free_ports
from tests.support.wire_client import WireClient

HOST = "127.0.0.1"
START_TIMEOUT_S = 20.0
PATIENCE_S = 15.0

T = TypeVar("T")

# Quick enough for tests; a cluster in real life is told to wait longer.
SETTINGS = {
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "1500",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}


class _Node:
    """One node: its settings, and the broker while it runs."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings
        self.broker: Broker | None = None
        self.scope = trio.CancelScope()
        self.ready = threading.Event()
        self.ended = threading.Event()
        self.failure: BaseException | None = None


class Cluster:
    """The nodes and the loop that they share."""

    def __init__(
        self,
        folder: Path,
        brokers: int = 3,
        *,
        voters: int | None = None,
        controllers: int = 0,
        config: Mapping[str, str] | None = None,
        node_config: Mapping[int, Mapping[str, str]] | None = None,
    ) -> None:
        count = brokers + controllers
        ports = free_ports(2 * count)
        self.ports = {node: ports[node - 1] for node in range(1, count + 1)}
        self.controller_ports = {node: ports[count + node - 1] for node in range(1, count + 1)}
        voting = range(brokers + 1, count + 1) if controllers else range(1, (voters or brokers) + 1)
        self.broker_ids = list(range(1, brokers + 1))
        self.voter_ids = list(voting)
        self._nodes = {
            node: _Node(
                {
                    **self._settings(node, folder),
                    **SETTINGS,
                    **_replication(min(3, brokers)),
                    **(config or {}),
                    **(node_config or {}).get(node, {}),
                }
            )
            for node in range(1, count + 1)
        }
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._running = threading.Event()
        self._thread = threading.Thread(target=lambda: trio.run(self._run), name="cluster", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._running.wait()
        try:
            self.start(*self._nodes)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill(*self.running())
        assert self._nursery is not None
        self.call(self._nursery.cancel_scope.cancel)
        self._thread.join()

    # ---- life

    def start(self, *nodes: int) -> None:
        """Start these nodes at the same time; returns when all of them are ready."""
        self.begin(*nodes)
        for node in nodes:
            self.wait_until_ready(node)

    def begin(self, *nodes: int) -> None:
        """Start these nodes and wait for nothing."""
        for node in nodes:
            one = self._nodes[node]
            assert one.broker is None, f"node {node} runs already"
            one.ready, one.ended, one.failure = threading.Event(), threading.Event(), None
            one.broker = Broker(BrokerConfig(one.settings))
            self.call(lambda one=one: self._nursery_of_loop.start_soon(self._serve, one))  # type: ignore[misc]

    def wait_until_ready(self, node: int) -> None:
        """Until the node says that it is ready; raises what it has failed with."""
        one = self._nodes[node]
        deadline = time.monotonic() + START_TIMEOUT_S
        while not one.ready.wait(0.01):
            if one.ended.is_set():
                one.broker = None
                raise one.failure or AssertionError(f"node {node} has ended")
            assert time.monotonic() < deadline, f"node {node} is not ready after {START_TIMEOUT_S:.0f} s"

    def stop(self, *nodes: int) -> None:
        """Stop these nodes cleanly, at the same time."""
        running = [one for node in nodes if (one := self._nodes[node]).broker is not None]
        for one in running:
            assert one.broker is not None
            one.broker.request_stop_from_thread()
        for one in running:
            assert one.ended.wait(2 * PATIENCE_S), "a node does not stop"
            one.broker = None

    def kill(self, *nodes: int) -> None:
        """End these nodes in the middle of whatever they do."""
        for node in nodes:
            broker = self.node(node)
            self._nodes[node].broker = None
            self.call(lambda node=node, broker=broker: _kill(broker, self._nodes[node]))  # type: ignore[misc]
        for node in nodes:
            assert self._nodes[node].ended.wait(PATIENCE_S), f"node {node} does not end"

    # ---- looking and asking

    def node(self, node: int) -> Broker:
        """The running broker's parts; to be touched on the loop only, by `call`."""
        broker = self._nodes[node].broker
        assert broker is not None, f"node {node} does not run"
        return broker

    def settings(self, node: int) -> dict[str, str]:
        """What the node is started with; changes count from its next start on."""
        return self._nodes[node].settings

    def running(self) -> list[int]:
        """The nodes that run."""
        return [node for node, one in self._nodes.items() if one.broker is not None]

    def controller(self) -> int:
        """The active controller; waits until there is one."""
        found: list[int] = []

        def look() -> bool:
            found[:] = [node for node in self.running() if self.node(node).controller.is_active]
            return bool(found)

        self.wait_for(look)
        return found[0]

    def call(self, function: Callable[[], T]) -> T:
        """Run this on the loop."""
        assert self._token is not None
        return trio.from_thread.run_sync(function, trio_token=self._token)

    def wait_for(self, condition: Callable[[], Any]) -> None:
        """Until this holds; it is asked on the loop."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.call(condition):
            assert time.monotonic() < deadline, "it did not happen"
            time.sleep(0.005)

    @property
    def bootstrap(self) -> str:
        """All brokers, for bootstrap.servers."""
        return ",".join(f"{HOST}:{self.ports[node]}" for node in self.broker_ids)

    def client(self, **options: Any) -> Client:
        """A new synchronous client of our own; close it, or use it in a with statement."""
        return Client(self.bootstrap, **options)

    def connected(self, node: int) -> WireClient:
        """A raw connection to a broker."""
        return WireClient(HOST, self.ports[node])

    def connected_to_controller(self, node: int) -> WireClient:
        """A raw connection to a controller's listener."""
        return WireClient(HOST, self.controller_ports[node])

    # ---- inside

    @property
    def _nursery_of_loop(self) -> trio.Nursery:
        assert self._nursery is not None
        return self._nursery

    def _settings(self, node: int, folder: Path) -> dict[str, str]:
        is_broker, votes = node in self.broker_ids, node in self.voter_ids
        listeners = [f"PLAINTEXT://{HOST}:{self.ports[node]}"] if is_broker else []
        if votes:
            listeners.append(f"CONTROLLER://{HOST}:{self.controller_ports[node]}")
        settings = {
            "process.roles": ",".join(["broker"] * is_broker + ["controller"] * votes),
            "node.id": str(node),
            "controller.quorum.voters": ",".join(
                f"{voter}@{HOST}:{self.controller_ports[voter]}" for voter in self.voter_ids
            ),
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(listeners),
            "log.dirs": str(folder / f"node-{node}"),
        }
        if is_broker:
            settings["advertised.listeners"] = listeners[0]
        return settings

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._running.set()
            await trio.sleep_forever()

    async def _serve(self, one: _Node) -> None:
        broker = one.broker
        assert broker is not None
        try:
            with trio.CancelScope() as one.scope:
                await broker.serve(one.ready.set)
        except Exception as error:  # noqa: BLE001 -- whoever waits for the node is told
            one.failure = error
        finally:
            one.ended.set()


def _kill(broker: Broker, one: _Node) -> None:
    broker.server.close_listeners()
    broker.metadata.stop()
    one.scope.cancel()


def _replication(copies: int) -> dict[str, str]:
    return {
        "default.replication.factor": str(copies),
        "offsets.topic.replication.factor": str(copies),
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(max(1, copies - 1)),
        "min.insync.replicas": str(max(1, copies - 1)),
        "share.coordinator.state.topic.replication.factor": str(copies),
        "share.coordinator.state.topic.min.isr": str(max(1, copies - 1)),
    }
