"""The real quorum in virtual time: pysyncobj's core with its clock, its dice, its files and its network replaced.

`SyncObjQuorum` is stepped by events instead of a thread: when a message arrives, when something was proposed, and when its own clock says so. Its
journal is on a simulated disk, so a power loss takes what was not synced. Snapshots of the core are not simulated: they go through the
operating system's files and a thread (tests/raft does that). Nor is the handshake of two voters: who is connected is who it says it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

from kafkapy.raft import entries, journal, metadata_log
from kafkapy.raft.quorum import QuorumListener, RunOnLoop, Ticket
from kafkapy.raft.syncobj_quorum import LEADER, LinkState, SyncObjQuorum
from kafkapy.raft.syncobj_seams import load_core
from sim.disk import DiskRouter
from sim.events import Process, Simulation
from sim.network import Connection, Network

RECONNECT_US = 150_000
# How long the quorum's thread may be busy with its disk: by seed and voter.
SYNC_US_MAX = (1_000, 3_000, 3_000, 60_000)
EPOCH_OF_CLOCK_S = 1_000


class _World:
    """The clock and the dice of the simulation that runs now: the core is loaded once and keeps them."""

    simulation: Simulation | None = None
    dice: Random = Random(0)

    def clock(self) -> float:
        assert self.simulation is not None
        return self.simulation.now_s + EPOCH_OF_CLOCK_S

    def random(self) -> float:
        return self.dice.random()


_WORLD = _World()
_CLOCK = _WORLD.clock


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


def _number_nodes() -> None:
    """The core keeps voters in sets: their order must not depend on the process's hash seed."""
    core = load_core(_CLOCK, _WORLD)
    if core.Node.__name__ != "NumberedNode":

        class NumberedNode(core.Node):  # type: ignore[name-defined]
            """A node whose place in a set is its number's."""

            def __hash__(self) -> int:
                return int(self.id)

        core.Node = NumberedNode


@contextmanager
def virtual_world(simulation: Simulation, router: DiskRouter) -> Iterator[None]:
    """Within it the quorum's modules see the simulation's clock, dice and disks. One simulation at a time in a process."""
    _WORLD.simulation, _WORLD.dice = simulation, simulation.dice("core")
    _number_nodes()

    def file_system() -> DiskRouter:
        return router

    changes: list[tuple[Any, str, Any]] = [
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
        _WORLD.simulation = None


class VoterLinks:
    """The links between all voters."""

    def __init__(self, simulation: Simulation, network: Network) -> None:
        self.simulation = simulation
        self.network = network
        self.voters: dict[int, CoreQuorum] = {}
        self.links: dict[tuple[int, int], Connection] = {}

    def connect(self, lower: CoreQuorum, higher: int) -> None:
        """The lower voter of each pair calls the higher one, again and again."""
        pair = (lower.node_id, higher)
        other = self.voters.get(higher)
        link = self.links.get(pair)
        if link is not None and link.is_open:
            return
        if other is None:
            lower.core.link_refused(higher)
            lower.step_soon()
            return
        link = self.network.connect(lower.process, other.process)
        if link is None:
            return
        self.links[pair] = link

        def accepted() -> None:
            other.connected(lower.node_id, link)
            link.tell(lambda: lower.connected(higher, link), to_server=False)

        def closed() -> None:
            if lower.is_current():
                lower.disconnected(higher, link)

        def server_closed() -> None:
            if other.is_current():
                other.disconnected(lower.node_id, link)
                if self.voters.get(lower.node_id) is not lower:
                    other.core.link_refused(lower.node_id)

        link.on_closed = closed
        link.on_server_closed = server_closed
        link.tell(accepted, to_server=True)


class CoreQuorum:
    """One voter: `Quorum` for the node, on the real core. It is also the core's VoterNetwork."""

    def __init__(
        self, world: VoterLinks, process: Process, folder: str, node_id: int, voters: tuple[int, ...], dice: Random
    ) -> None:
        self.world = world
        self.process = process
        self.node_id = node_id
        self.others = tuple(voter for voter in voters if voter != node_id)
        self._life = process.life
        self._links: dict[int, Connection] = {}
        self._next_step_us = -1
        self._dice = dice
        self._sync_us_max = dice.choice(SYNC_US_MAX)
        simulation = world.simulation
        self.core = SyncObjQuorum(
            folder, node_id, self.others, wall_clock_ms=lambda: simulation.now_ms, clock=_CLOCK, dice=_WORLD
        )
        self.core.join(self, is_member=True)
        wake = self.core._wake

        def wake_and_step() -> None:
            wake()
            self.step_soon()

        self.core._wake = wake_and_step  # type: ignore[method-assign]

    def is_current(self) -> bool:
        """Whether its process still lives the life it was started in."""
        return self.process.is_alive and self.process.life == self._life

    @property
    def leads_in_term(self) -> int | None:
        """The term in which it believes to lead."""
        raft = self.core._raft
        return raft.raftCurrentTerm if raft.state == LEADER else None

    # Quorum.

    @property
    def leader_id(self) -> int | None:
        """The voter that leads, as far as the core knows."""
        return self.core.leader_id

    def start(self, listener: QuorumListener, run_on_loop: RunOnLoop) -> None:
        """Open the journal and begin to tick."""
        self.core.attach(listener, run_on_loop)
        self.core.open()
        self.world.voters[self.node_id] = self
        self._reconnect()
        self.step_soon()

    def propose(self, ticket: Ticket) -> None:
        """Hand it over in the next step."""
        self.core.propose(ticket)
        self.step_soon()

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

    def step_soon(self) -> None:
        """Something happened; the thread is busy with a disk for a while."""
        self._step_within(self._dice.randrange(self._sync_us_max))

    def _step_within(self, delay_us: int) -> None:
        simulation = self.world.simulation
        due_us = simulation.now_us + delay_us
        if self._next_step_us < simulation.now_us or due_us < self._next_step_us:
            self._next_step_us = due_us
            simulation.at(delay_us, lambda: self._due_step(due_us), self.process)

    def _due_step(self, due_us: int) -> None:
        if self._next_step_us == due_us:
            self._next_step_us = -1
            self.core.step(may_sleep=False)
            self._step_within(int(self.core._sleep_s() * 1_000_000) + 1)

    # Links.

    def _reconnect(self) -> None:
        for other in self.others:
            if self.node_id < other:
                self.world.connect(self, other)
        self.world.simulation.at(RECONNECT_US + self._dice.randrange(10_000), self._reconnect, self.process)

    def connected(self, other: int, link: Connection) -> None:
        """A link stands."""
        self._links[other] = link
        self.core.link_up(other, True)
        self.step_soon()

    def disconnected(self, other: int, link: Connection) -> None:
        """A link broke."""
        if self._links.get(other) is link:
            del self._links[other]
            self.core.link_down(other)
            if other not in self.world.voters:
                self.core.link_refused(other)
            self.step_soon()

    # VoterNetwork.

    def opened(self) -> None:
        """See VoterNetwork."""

    def send(self, node_id: int, payload: bytes) -> None:
        """See VoterNetwork."""
        link = self._links.get(node_id)
        if link is None or not link.is_open:
            return
        voters = self.world.voters

        def arrive() -> None:
            voter = voters.get(node_id)
            if voter is not None and voter._links.get(self.node_id) is link:
                voter.core.receive(self.node_id, payload)
                voter.step_soon()

        link.tell(arrive, to_server=link.client is self.process)

    def closed(self) -> None:
        """See VoterNetwork."""

    def backlog_bytes(self, node_id: int) -> int:
        """See VoterNetwork."""
        return 0

    def link_state(self, node_id: int) -> LinkState:
        """See VoterNetwork."""
        return LinkState.CONNECTED if node_id in self._links else LinkState.SILENT

    def caught_up(self) -> None:
        """See VoterNetwork."""
