"""The real quorum in virtual time: pysyncobj's core with its clock, its dice, its files and its network replaced.

`SyncObjQuorum` is stepped by events instead of a thread: one when a message arrives, one when something was proposed, and one each TICK otherwise.
Its journal is on a simulated disk, so a power loss takes what was not synced. Snapshots of the core are not simulated: they go through the
operating system's files and a thread (tests/raft does that).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

from kafkapy.raft import entries, journal, metadata_log, syncobj_quorum
from kafkapy.raft.quorum import QuorumListener, RunOnLoop, Ticket
from kafkapy.raft.syncobj_quorum import LEADER, SyncObjQuorum, voter_transport
from sim.disk import DiskRouter
from sim.events import Process, Simulation
from sim.network import Connection, Network

TICK_US = 50_000
RECONNECT_US = 200_000
SYNC_US_MAX = 3_000
EPOCH_OF_CLOCK_S = 1_000


class _DiskPath:
    """os.path for simulated disks."""

    def __init__(self, router: DiskRouter) -> None:
        self._router = router

    def exists(self, path: str) -> bool:
        return self._router.exists(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(os.path, name)


class _DiskOs:
    """The functions of `os` that the quorum's files are used with, on simulated disks."""

    def __init__(self, router: DiskRouter) -> None:
        self.path = _DiskPath(router)
        self.fdatasync = self.fsync = router.fsync
        self.ftruncate = router.truncate
        self.close = router.close

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


@contextmanager
def virtual_world(simulation: Simulation, router: DiskRouter) -> Iterator[None]:
    """Within it the quorum's modules see the simulation's clock, dice and disks. One simulation at a time in a process."""
    core = syncobj_quorum._pysyncobj()

    class NumberedNode(core.Node):  # type: ignore[misc, name-defined]
        """A node whose place in a set doesn't depend on the process's hash seed."""

        def __hash__(self) -> int:
            return int(self.id)

    def file_system() -> DiskRouter:
        return router

    changes: list[tuple[Any, str, Any]] = [
        (core, "monotonicTime", lambda: simulation.now_s + EPOCH_OF_CLOCK_S),
        (core, "random", simulation.dice("core")),
        (core, "Node", NumberedNode),
        (journal, "_FS", router),
        (journal, "os", _DiskOs(router)),
        (entries, "OsFilesystem", file_system),
        (metadata_log, "OsFilesystem", file_system),
    ]
    patches = [patch.object(target, name, value) for target, name, value in changes]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in reversed(patches):
            one.stop()


class VoterNetwork:
    """The links between the voters, and who leads in which term as far as anybody believes."""

    def __init__(self, simulation: Simulation, network: Network) -> None:
        self.simulation = simulation
        self.network = network
        self.voters: dict[int, CoreQuorum] = {}
        self.links: dict[tuple[int, int], Connection] = {}
        self.dice = simulation.dice("voters")

    def connect(self, lower: CoreQuorum, higher: int) -> None:
        """The lower voter of each pair calls the higher one, again and again."""
        pair = (lower.node_id, higher)
        other = self.voters.get(higher)
        link = self.links.get(pair)
        if other is None or (link is not None and link.is_open):
            return
        link = self.network.connect(lower.process, other.process)
        if link is None:
            return
        self.links[pair] = link

        def accepted() -> None:
            other.connected(lower.node_id, link)

        def closed() -> None:
            if lower.is_current():
                lower.disconnected(higher, link)

        def server_closed() -> None:
            if other.is_current():
                other.disconnected(lower.node_id, link)

        link.on_closed = closed
        link.on_server_closed = server_closed
        link.tell(accepted, to_server=True)
        lower.connected(higher, link)


class CoreQuorum:
    """One voter: `Quorum` for the node, on the real core."""

    def __init__(
        self, world: VoterNetwork, process: Process, folder: str, node_id: int, voters: tuple[int, ...], dice: Random
    ) -> None:
        self.world = world
        self.process = process
        self.node_id = node_id
        self.others = tuple(voter for voter in voters if voter != node_id)
        self._life = process.life
        self._links: dict[int, Connection] = {}
        self._step_is_due = False
        self._dice = dice
        simulation = world.simulation
        self.core = SyncObjQuorum(
            folder, node_id, self.others, self._transport_class(), wall_clock_ms=lambda: simulation.now_ms
        )
        self.transport: Any = None

    def is_current(self) -> bool:
        """Whether its process still lives the life it was started in."""
        return self.process.is_alive and self.process.life == self._life

    @property
    def leads_in_term(self) -> int | None:
        """The term in which it believes to lead."""
        raft = self.core._raft
        return raft.raftCurrentTerm if raft._SyncObj__raftState == LEADER else None

    # Quorum.

    def start(self, listener: QuorumListener, run_on_loop: RunOnLoop) -> None:
        """Open the journal and begin to tick."""
        self.core.attach(listener, run_on_loop)
        self.core.open()
        self.world.voters[self.node_id] = self
        self._reconnect()
        self._tick()

    def propose(self, ticket: Ticket) -> None:
        """Hand it over in the next step."""
        self.core.propose(ticket)
        self._step_soon()

    def stop(self) -> None:
        """A clean stop: the journal is synced and closed."""
        self.core.close()
        self.release()

    def release(self) -> None:
        """Give back what the operating system lent, also after a kill."""
        if self.world.voters.get(self.node_id) is self:
            del self.world.voters[self.node_id]
        if self.core._wake_write >= 0:
            self.core.stop()

    # Time.

    def _tick(self) -> None:
        self._step()
        self.world.simulation.at(TICK_US, self._tick, self.process)

    def _step_soon(self) -> None:
        if not self._step_is_due:
            self._step_is_due = True
            self.world.simulation.at(self._dice.randrange(SYNC_US_MAX), self._due_step, self.process)

    def _due_step(self) -> None:
        self._step_is_due = False
        self._step()

    def _step(self) -> None:
        self.core.step(may_sleep=False)

    # Links.

    def _reconnect(self) -> None:
        for other in self.others:
            if self.node_id < other:
                self.world.connect(self, other)
        self.world.simulation.at(RECONNECT_US + self._dice.randrange(10_000), self._reconnect, self.process)

    def connected(self, other: int, link: Connection) -> None:
        """A link stands."""
        self._links[other] = link
        self.transport._onNodeConnected(self.transport.nodes[str(other)])
        self._step_soon()

    def disconnected(self, other: int, link: Connection) -> None:
        """A link broke."""
        if self._links.get(other) is link:
            del self._links[other]
            self.transport._onNodeDisconnected(self.transport.nodes[str(other)])

    def arrived(self, sender: int, message: dict[str, Any]) -> None:
        """A message of another voter."""
        self.transport.receive(self.transport.nodes[str(sender)], message)
        self._step_soon()

    def _send(self, other: int, message: dict[str, Any]) -> bool:
        link = self._links.get(other)
        if link is None or not link.is_open:
            return False
        world = self.world

        def arrive() -> None:
            voter = world.voters.get(other)
            if voter is not None:
                voter.arrived(self.node_id, message)

        link.tell(arrive, to_server=link.client is self.process)
        return True

    def _transport_class(self) -> Callable[..., Any]:
        quorum = self

        class SimulatedTransport(voter_transport()):  # type: ignore[misc]
            """Sends over the simulated network."""

            def __init__(self, voter: Any, own_node: Any, other_nodes: Any) -> None:
                super().__init__(voter, own_node, other_nodes)
                self.nodes = {node.id: node for node in other_nodes}
                quorum.transport = self

            def deliver(self, node: Any, message: dict[str, Any]) -> bool:
                return quorum._send(int(node.id), message)

        return SimulatedTransport
