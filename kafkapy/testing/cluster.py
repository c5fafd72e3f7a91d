"""`Cluster`: several real brokers, each in its own process, for the length of a with block.

    with Cluster(3, topics={"orders": 3}) as cluster:
        connect(cluster.bootstrap)
        cluster.kill(cluster.leader("orders", 0))
        cluster.wait_healthy()

Nodes have the ids 1, 2, ... Each has a plain server.properties in `data_dir`, as `kafkapy start --brokers N` writes it. Data outlives `stop(node)`
and `kill(node)` + `start(node)`. With `start=False` the block begins with all nodes stopped, so that their files can be changed. `addresses` and
`prefix` put nodes into surroundings of their own, such as network namespaces.
"""

from __future__ import annotations

import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from kafkapy.client.client import Client
from kafkapy.client.connection import Unreachable
from kafkapy.config.local_cluster import Address, data_path, properties_path, write_properties
from kafkapy.errors import KafkaError
from kafkapy.testing.process import ProcessRunner

T = TypeVar("T")

HOST = "127.0.0.1"
WAIT_S = 30.0
_POLL_PAUSE_S = 0.05


class Cluster:
    """Brokers that run while the block does."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str] | None = None,
        racks: Sequence[str] = (),
        voters: Iterable[int] = (),
        data_dir: str | Path | None = None,
        addresses: Mapping[int, Address] | None = None,
        prefix: Callable[[int], Sequence[str]] = lambda node: (),
        start: bool = True,
    ) -> None:
        self.nodes = list(range(1, brokers + 1))
        self.topics = dict(topics or {})
        self._own_folder = data_dir is None
        self.data_dir = Path(data_dir) if data_dir is not None else Path(tempfile.mkdtemp(prefix="kafkapy-test-"))
        self.addresses = dict(addresses) if addresses is not None else _free_addresses(self.nodes)
        self._prefix = prefix
        self._start = start
        self._runners: dict[int, ProcessRunner] = {}
        self._paused: set[int] = set()
        self._lines: dict[int, list[str]] = {}
        settings = {"group.initial.rebalance.delay.ms": "0", **(config or {})}
        write_properties(self.data_dir, self.addresses, settings, racks=racks, voters=voters)

    def __enter__(self) -> Self:
        try:
            if self._start:
                self.start_all()
            for name, partitions in self.topics.items():
                self.create_topic(name, partitions)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill_all()
        if self._own_folder:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    # ---- life

    @property
    def running(self) -> list[int]:
        """The nodes that have a process, paused ones included."""
        return sorted(self._runners)

    def start_all(self) -> None:
        """Start every node that does not run, all at the same time: a quorum needs more than one to begin."""
        new = [node for node in self.nodes if node not in self._runners]
        for node in new:
            self.launch(node)
        for node in new:
            self.wait_ready(node)

    def start(self, node: int) -> None:
        """Start a node, after `stop` or `kill` on the same data and port, and wait until it is ready."""
        self.launch(node)
        self.wait_ready(node)

    def launch(self, node: int) -> None:
        """Start a node without waiting for it."""
        assert node not in self._runners, f"node {node} runs already"
        arguments = ["--config", str(self.properties(node))]
        runner = ProcessRunner(arguments, prefix=self._prefix(node), lines=self._lines.setdefault(node, []))
        runner.launch()
        self._runners[node] = runner

    def wait_ready(self, node: int, timeout_s: float = WAIT_S) -> None:
        """Wait until a node that was launched is ready."""
        try:
            self._runners[node].wait_ready(timeout_s)
        except BaseException:
            self._runners.pop(node, None)
            raise

    def stop(self, node: int) -> None:
        """Stop a node cleanly: its leaderships move first."""
        self.resume(node)
        self._runners.pop(node).stop()

    def stop_all(self) -> None:
        """Stop all nodes cleanly, at the same time."""
        for node in self.running:
            self.resume(node)
            self._runners[node].terminate()
        for node in self.running:
            self._runners.pop(node).stop()

    def kill(self, node: int) -> None:
        """SIGKILL, in the middle of whatever it does."""
        self._paused.discard(node)
        self._runners.pop(node).kill()

    def kill_all(self) -> None:
        """Kill what still runs."""
        for node in self.running:
            self.kill(node)

    def restart(self, node: int) -> None:
        """Stop cleanly and start on the same data."""
        self.stop(node)
        self.start(node)

    def pause(self, node: int) -> None:
        """SIGSTOP: it hangs, but its sockets stay open."""
        self._paused.add(node)
        self._runners[node].pause()

    def resume(self, node: int) -> None:
        """SIGCONT; nothing happens to a node that was not paused."""
        if node in self._paused:
            self._paused.discard(node)
            self._runners[node].resume()

    # ---- use

    @property
    def bootstrap(self) -> str:
        """What clients call bootstrap.servers."""
        return ",".join(map(self.address, self.nodes))

    def address(self, node: int) -> str:
        """Where a node listens for clients."""
        return f"{self.addresses[node].host}:{self.addresses[node].port}"

    def client(self, **options: Any) -> Client:
        """A new synchronous client of our own; close it, or use it in a with statement."""
        return Client(self.bootstrap, **options)

    def pid(self, node: int) -> int:
        """A node's process."""
        return self._runners[node].pid

    def exit_code(self, node: int) -> int | None:
        """How a node that was not stopped has ended; None while it runs."""
        return self._runners[node].exit_code

    def log_lines(self, node: int) -> list[str]:
        """What a node has logged since its first start, as JSON."""
        return self._lines.get(node, [])

    def properties(self, node: int) -> Path:
        """The node's server.properties."""
        return properties_path(self.data_dir, node)

    def data(self, node: int) -> Path:
        """The node's data folder."""
        return data_path(self.data_dir, node)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replicas: int = -1,
        config: Mapping[str, str] | None = None,
        assignment: Sequence[Sequence[int]] = (),
    ) -> None:
        """Create a topic, with `assignment` on exactly these nodes (a list for each partition); the node that was asked knows its leaders."""
        from kafkapy.client.admin import NewTopic, create_topics

        if assignment:
            partitions = replicas = -1
        with self.client() as client:
            (result,) = create_topics(client, [NewTopic(name, partitions, replicas, config or {}, assignment)])
        if result.error is not None:
            raise result.error

    def leader(self, topic: str, partition: int = 0) -> int:
        """The node that leads a partition; waits for one."""

        def found(client: Client) -> int | None:
            leader = client.topic(topic).partitions[partition].leader_id
            return leader if leader in self._runners else None

        return self.wait_for(found, f"a leader of {topic}-{partition}")

    def controller(self) -> int:
        """The node that leads the metadata quorum; waits for one."""
        from kafkapy.client.replicas import describe_quorum

        def found(client: Client) -> int | None:
            leader = describe_quorum(client, patient=False).leader
            return leader if leader in self._runners else None

        return self.wait_for(found, "a leader of the metadata quorum")

    def wait_in_sync(self, timeout_s: float = WAIT_S) -> None:
        """Wait until every running node knows that each partition has a leader and all its replicas in sync."""
        for node in self.running:
            self._wait_in_sync(node, timeout_s)

    def _wait_in_sync(self, node: int, timeout_s: float) -> None:
        from kafkapy.client.replicas import describe_replicas

        behind: list[str] = []

        def found(client: Client) -> bool | None:
            rows = [row for row in describe_replicas(client) if row.leader < 0 or set(row.isr) != set(row.replicas)]
            behind[:] = [f"{row.partition} led by {row.leader} has {row.isr} of {row.replicas}" for row in rows]
            return None if rows else True

        try:
            self.wait_for(found, f"all replicas to be in sync as node {node} sees them", timeout_s, node)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; {'; '.join(behind)}") from None

    def wait_for(
        self, ask: Callable[[Client], T | None], what: str, timeout_s: float = WAIT_S, node: int | None = None
    ) -> T:
        """Ask one node, or whichever answers, again and again until there is an answer."""
        address = self.bootstrap if node is None else self.address(node)
        deadline = time.monotonic() + timeout_s
        reason = ""
        while time.monotonic() < deadline:
            try:
                with Client(address, timeout_s=2.0) as client:
                    answer = ask(client)
                if answer is not None:
                    return answer
            except (Unreachable, KafkaError) as error:
                reason = f": {error}"
            time.sleep(_POLL_PAUSE_S)
        raise TimeoutError(f"waited {timeout_s:.0f} s for {what}{reason}")


def _free_addresses(nodes: Sequence[int]) -> dict[int, Address]:
    """Ports that were free a moment ago; all are held until the last is found."""
    held: list[socket.socket] = []
    try:
        for _ in range(2 * len(nodes)):
            sock = socket.socket()
            held.append(sock)
            sock.bind((HOST, 0))
        ports = [sock.getsockname()[1] for sock in held]
    finally:
        for sock in held:
            sock.close()
    return {node: Address(HOST, ports[2 * place], ports[2 * place + 1]) for place, node in enumerate(nodes)}
