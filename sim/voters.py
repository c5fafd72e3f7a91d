"""The metadata quorum alone: the real core of 3 or 5 voters, their journals on faulty disks, and somebody who proposes all the time.

What must hold after each event:

    one voter leads in a term, and one is told that it may decide in an epoch
    all voters are told the same batches at the same offsets, without a gap
    what was acknowledged is in that log for ever, and whoever is elected has been told it
    when all is well again, somebody leads, and everybody catches up
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkapy.raft.quorum import CommittedBatch, Outcome, SnapshotPosition, Ticket
from sim.disk import DiskRouter, SimulatedDisk
from sim.events import InvariantError, Process, Simulation
from sim.faults import Nemesis
from sim.network import Network
from sim.quorum_core import CoreQuorum, VoterLinks, virtual_world

FAULTY_US = 20_000_000
CALM_US = 6_000_000
QUIET_US = 1_000_000
PROPOSE_US = 60_000


class Ledger:
    """What all voters together have been told, and what has been acknowledged."""

    def __init__(self) -> None:
        self.batches: dict[int, CommittedBatch] = {}
        self.end_offset = 0
        self.acknowledged_end = 0
        self.acknowledged = 0
        self.leader_of_term: dict[int, int] = {}
        self.elected_in_epoch: dict[int, int] = {}

    def told(self, node_id: int, batch: CommittedBatch) -> None:
        """A voter was told a batch."""
        known = self.batches.setdefault(batch.base_offset, batch)
        if known != batch:
            raise InvariantError(f"voter {node_id} was told {batch}, another one {known}")
        self.end_offset = max(self.end_offset, batch.next_offset)

    def acknowledge(self, ticket: Ticket) -> None:
        """A proposal was reported as committed."""
        batch = self.batches.get(ticket.base_offset)
        if batch is None or batch.records != ticket.records or batch.epoch != ticket.epoch:
            raise InvariantError(f"acknowledged at {ticket.base_offset}, but the log holds {batch}")
        self.acknowledged += 1
        self.acknowledged_end = max(self.acknowledged_end, batch.next_offset)

    def elected(self, node_id: int, epoch: int, told_offset: int) -> None:
        """A voter may decide in an epoch."""
        if self.elected_in_epoch.setdefault(epoch, node_id) != node_id:
            raise InvariantError(f"epoch {epoch} has two controllers: {self.elected_in_epoch[epoch]} and {node_id}")
        if told_offset < self.acknowledged_end:
            raise InvariantError(
                f"voter {node_id} is elected in epoch {epoch} and knows offsets up to {told_offset}, "
                f"{self.acknowledged_end} have been acknowledged"
            )

    def leads(self, node_id: int, term: int) -> None:
        """A voter believes to lead in a term."""
        if self.leader_of_term.setdefault(term, node_id) != node_id:
            raise InvariantError(f"term {term} has two leaders: {self.leader_of_term[term]} and {node_id}")


class VoterListener:
    """One life of a voter: what it is told, and its proposals."""

    def __init__(self, world: VoterWorld, process: Process, node_id: int) -> None:
        self.world = world
        self.process = process
        self.node_id = node_id
        self.told_offset = 0
        self.next_offset = 0
        self.epoch: int | None = None
        self.failure: BaseException | None = None

    def on_committed(self, batch: CommittedBatch) -> None:
        if batch.base_offset != self.told_offset:
            raise InvariantError(f"voter {self.node_id} was told offset {batch.base_offset} after {self.told_offset}")
        self.told_offset = batch.next_offset
        self.world.ledger.told(self.node_id, batch)

    def on_ticket(self, ticket: Ticket) -> None:
        if ticket.outcome is Outcome.COMMITTED:
            self.world.ledger.acknowledge(ticket)

    def on_elected(self, epoch: int) -> None:
        self.world.simulation.note(self.process, f"elected in epoch {epoch} at offset {self.told_offset}")
        self.world.ledger.elected(self.node_id, epoch, self.told_offset)
        self.epoch = epoch
        self.next_offset = self.told_offset

    def on_resigned(self) -> None:
        self.world.simulation.note(self.process, f"resigned from epoch {self.epoch}")
        self.epoch = None

    def on_snapshot_due(self, position: SnapshotPosition) -> Callable[[], bytes] | None:
        return None

    def on_snapshot_received(self, position: SnapshotPosition, content: bytes) -> None:
        raise InvariantError("nobody writes snapshots here")

    def on_failure(self, error: BaseException) -> None:
        raise InvariantError(f"voter {self.node_id} failed: {error!r}") from error


class VoterWorld:
    """3 or 5 voters in a faulty world."""

    def __init__(self, seed: int) -> None:
        self.simulation = Simulation(seed)
        dice = self.simulation.dice("shape")
        self.ids = tuple(range(1, 1 + dice.choice((3, 3, 5))))
        self.network = Network(self.simulation)
        self.router = DiskRouter()
        self.ledger = Ledger()
        self.links = VoterLinks(self.simulation, self.network)
        self.processes = {node_id: Process(f"voter-{node_id}") for node_id in self.ids}
        self.listeners: dict[int, VoterListener] = {}
        self.quorums: dict[int, CoreQuorum] = {}
        self.dice = dice
        self.proposals = 0
        self.proposing = True
        self.simulation.after_each = self.check

    # The life of a voter.

    def start(self, node_id: int) -> None:
        """A new process on the disk that is there."""
        process = self.processes[node_id]
        self.simulation.start(process)
        self.simulation.note(process, "starts")
        listener = self.listeners[node_id] = VoterListener(self, process, node_id)
        folder = f"/{node_id}/meta"
        disk = self.router.disks[str(node_id)]
        if not disk.exists(folder):
            disk.make_folder(folder)
        quorum = CoreQuorum(
            self.links, process, folder, node_id, self.ids, self.simulation.dice(f"quorum {node_id}.{process.life}")
        )
        self.quorums[node_id] = quorum
        quorum.start(listener, lambda callback: self.simulation.at(0, callback, process))

    def crash(self, node_id: int, *, power: bool) -> None:
        """`kill -9`, or the machine loses its power."""
        process = self.processes[node_id]
        if not process.is_alive:
            return
        self.simulation.note(process, "loses its power" if power else "is killed")
        self.simulation.kill(process)
        self.quorums.pop(node_id).release()
        self.network.died(process)
        disk = self.router.disks[str(node_id)]
        self.router.mount(str(node_id), disk.after_power_failure(self.dice) if power else disk.after_kill())

    def wipe(self, node_id: int) -> None:
        """A voter's disk is never simulated as lost: it would have to be let in again by hand (raft/voter_identity.py)."""
        self.crash(node_id, power=True)

    def stop(self, node_id: int) -> None:
        """A clean stop."""
        process = self.processes[node_id]
        if not process.is_running:
            return
        self.simulation.note(process, "stops")
        self.quorums.pop(node_id).stop()
        self.simulation.kill(process)
        self.network.died(process)
        self.router.mount(str(node_id), self.router.disks[str(node_id)].after_kill())

        def start_again() -> None:
            if not process.is_alive:
                self.start(node_id)

        self.simulation.at(self.dice.randrange(10_000, 3_000_000), start_again)

    # The run.

    def run(self) -> VoterWorld:
        """Faults for a while, then none; raises InvariantError."""
        with virtual_world(self.simulation, self.router):
            for node_id in self.ids:
                self.router.mount(str(node_id), SimulatedDisk())
                self.start(node_id)
            self.simulation.at(PROPOSE_US, self._propose)
            nemesis = Nemesis(self.simulation, self.network, self, FAULTY_US)
            nemesis.begin()
            self.simulation.run(FAULTY_US)
            nemesis.end()
            self.simulation.run(FAULTY_US + CALM_US)
            self.proposing = False
            self.simulation.run(FAULTY_US + CALM_US + QUIET_US)
            self._check_end()
            for quorum in self.quorums.values():
                quorum.release()
        return self

    def _propose(self) -> None:
        if not self.proposing:
            return
        for node_id, listener in self.listeners.items():
            quorum = self.quorums.get(node_id)
            if listener.epoch is not None and quorum is not None and listener.process.is_running:
                self.proposals += 1
                records = (b"record %d" % self.proposals,) * self.dice.choice((1, 1, 3))
                ticket = Ticket(records, listener.epoch, listener.next_offset, self.simulation.now_ms)
                listener.next_offset += len(records)
                quorum.propose(ticket)
        self.simulation.at(self.dice.randrange(PROPOSE_US), self._propose)

    # What must hold.

    def check(self, owner: Process | None) -> None:
        """After each event."""
        for node_id, quorum in self.quorums.items():
            term = quorum.leads_in_term
            if term is not None:
                self.ledger.leads(node_id, term)

    def _check_end(self) -> None:
        told = {node_id: listener.told_offset for node_id, listener in self.listeners.items()}
        if not any(listener.epoch is not None for listener in self.listeners.values()):
            raise InvariantError("nobody leads although all is well")
        if min(told.values()) < self.ledger.acknowledged_end:
            raise InvariantError(f"not everybody caught up to {self.ledger.acknowledged_end}: {told}")

    def summary(self) -> dict[str, Any]:
        """What happened, in numbers."""
        return {
            "voters": len(self.ids),
            "events": self.simulation.steps,
            "acknowledged": self.ledger.acknowledged,
            "epochs": len(self.ledger.elected_in_epoch),
        }
