"""A fast stand-in for the metadata quorum: it keeps the promises of raft/quorum.py, and breaks everything that they leave open.

What is committed is in one list that no fault can reach, as if consensus beneath were perfect (`sim/voters.py` tests the real one). Everything else
happens as it may: a leader that is cut off goes on believing until it notices, what it had in flight is committed or not by its successor, followers
hear late, and after a restart a voter is told everything again.
"""

from __future__ import annotations

from collections import deque

from kafkapy.raft.quorum import CommittedBatch, Outcome, QuorumListener, RunOnLoop, Ticket
from sim.events import Process, Simulation
from sim.network import Network

COMMIT_US = (300, 4_000)
RETRY_US = 40_000
WATCH_US = 100_000
ELECTION_US = (400_000, 1_100_000)
FALLBACK_US = 1_500_000


class QuorumModel:
    """The one log of all voters."""

    def __init__(self, simulation: Simulation, network: Network, voters: tuple[int, ...]) -> None:
        self.simulation = simulation
        self.network = network
        self.voters = voters
        self.dice = simulation.dice("quorum")
        self.log: list[CommittedBatch] = []
        self.epoch = 0
        self.next_offset = 0
        self.members: dict[int, ModelQuorum] = {}
        self.leader: ModelQuorum | None = None
        self._leaderless_since_us = 0
        simulation.at(WATCH_US, self._watch)

    def reaches_majority(self, member: ModelQuorum) -> bool:
        """Whether it can talk with more than half of the voters, itself included."""
        if not member.is_up:
            return False
        count = 0
        for voter in self.voters:
            other = self.members.get(voter)
            count += other is member or (other is not None and other.is_up and self._connected(member, other))
        return 2 * count > len(self.voters)

    def _connected(self, one: ModelQuorum, other: ModelQuorum) -> bool:
        network = self.network
        return not network.is_cut(one.process, other.process) and not network.is_cut(other.process, one.process)

    def _watch(self) -> None:
        """Every now and then: is the leader still one?"""
        simulation = self.simulation
        simulation.at(WATCH_US, self._watch)
        leader = self.leader
        if leader is not None and leader.resigned_from != self.epoch and self.reaches_majority(leader):
            self._leaderless_since_us = simulation.now_us
            return
        if leader is not None:
            leader.lost_majority(simulation.now_us - self._leaderless_since_us)
        patience_us = self.dice.randrange(*ELECTION_US) if self.log else 0
        if simulation.now_us - self._leaderless_since_us >= patience_us:
            candidates = [member for member in self.members.values() if self.reaches_majority(member)]
            if candidates:
                self._elect(self.dice.choice(candidates))

    def _elect(self, winner: ModelQuorum) -> None:
        """The next epoch. Of what the old leader had in flight the first few may have reached the majority."""
        old, self.leader = self.leader, winner
        if old is not None:
            flight = [ticket for ticket in old.in_flight if ticket.epoch == self.epoch]
            for ticket in flight[: self.dice.randrange(len(flight) + 1)]:
                self._append(ticket.epoch, old.node_id, ticket)
        self.epoch += 1
        self._leaderless_since_us = self.simulation.now_us
        self.log.append(CommittedBatch(self.next_offset, self.epoch, winner.node_id, self.simulation.now_ms, ()))
        self.next_offset += 1
        winner.pump()
        if old is not None and old is not winner:
            old.pump()

    def _append(self, epoch: int, leader_id: int, ticket: Ticket) -> None:
        assert ticket.base_offset == self.next_offset, "the controller lost count"
        batch = CommittedBatch(ticket.base_offset, epoch, leader_id, ticket.timestamp_ms, ticket.records)
        self.log.append(batch)
        self.next_offset = batch.next_offset

    def commit(self, member: ModelQuorum) -> None:
        """The leader's oldest proposal has reached the majority."""
        ticket = member.in_flight[0]
        self._append(ticket.epoch, member.node_id, ticket)
        for other in self.members.values():
            if other is not member:
                other.hear_soon()
        member.pump()


class ModelQuorum:
    """One voter's connection to the model; its life ends with the process."""

    def __init__(self, world: QuorumModel, process: Process, node_id: int) -> None:
        self.world = world
        self.process = process
        self.node_id = node_id
        self.in_flight: deque[Ticket] = deque()
        self.epoch: int | None = None
        self._life = process.life
        self.resigned_from = -1
        self._told = 0
        self._heard_of = -1
        self._pump_is_due = False
        self._commit_is_due = False

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self.process.is_running and self.process.life == self._life

    # Quorum.

    @property
    def leader_id(self) -> int:
        """Whom this voter has heard of last."""
        return self._heard_of

    def start(self, listener: QuorumListener, run_on_loop: RunOnLoop) -> None:
        """Join; everything is told again."""
        self._listener = listener
        self._run_on_loop = run_on_loop
        self.world.members[self.node_id] = self
        self._listen()

    def propose(self, ticket: Ticket) -> None:
        """Have it committed, if nobody else leads by then."""
        if ticket.epoch != self.epoch:
            self._settle(ticket, Outcome.NOT_CONTROLLER)
            return
        self.in_flight.append(ticket)
        self._commit_soon()

    def stop(self) -> None:
        """Leave."""
        self._resign()
        self.release()

    def release(self) -> None:
        """The process is gone."""
        if self.world.members.get(self.node_id) is self:
            del self.world.members[self.node_id]

    # Following.

    def _listen(self) -> None:
        """What was committed while nothing could be heard comes with the next heartbeat."""
        self.pump()
        self.world.simulation.at(WATCH_US, self._listen, self.process)

    def hear_soon(self) -> None:
        """Something was committed; the leader tells it with the next message."""
        if not self._pump_is_due:
            self._pump_is_due = True
            self.world.simulation.at(self.world.dice.randrange(*COMMIT_US), self._due_pump, self.process)

    def _due_pump(self) -> None:
        self._pump_is_due = False
        self.pump()

    def pump(self) -> None:
        """Take what is committed, if the leader can be heard."""
        world = self.world
        leader = world.leader
        if not self.is_up or leader is None or (leader is not self and not world._connected(leader, self)):
            return
        if leader is not self and not leader.is_up:
            return
        if leader is not self and self.epoch is not None:
            self._resign()
        while self._told < len(world.log):
            batch = world.log[self._told]
            self._told += 1
            self._heard_of = batch.leader_id
            self._run_on_loop(lambda batch=batch: self._listener.on_committed(batch))  # type: ignore[misc]
            if self.in_flight and batch.epoch == self.epoch and batch.base_offset == self.in_flight[0].base_offset:
                self._settle(self.in_flight.popleft(), Outcome.COMMITTED)
        if leader is self and self.epoch != world.epoch and self.resigned_from != world.epoch:
            if self.epoch is not None:
                self._resign()
            self.in_flight.clear()
            self.epoch = epoch = world.epoch
            self._run_on_loop(lambda: self._listener.on_elected(epoch))

    # Leading.

    def lost_majority(self, for_us: int) -> None:
        """It is cut off, and notices after a while."""
        if for_us >= FALLBACK_US and self.is_up and self.epoch is not None:
            self._resign()

    def _commit_soon(self) -> None:
        if not self._commit_is_due and self.in_flight:
            self._commit_is_due = True
            self.world.simulation.at(self.world.dice.randrange(*COMMIT_US), self._commit, self.process)

    def _commit(self) -> None:
        self._commit_is_due = False
        world = self.world
        if not self.in_flight or world.leader is not self or world.epoch != self.epoch:
            return
        if world.reaches_majority(self):
            world.commit(self)
            self._commit_soon()
        else:
            self._commit_is_due = True
            world.simulation.at(RETRY_US, self._commit, self.process)

    def _resign(self) -> None:
        """No longer leader: what is in flight may or may not be committed by the next one."""
        if self.epoch is None:
            return
        self.resigned_from, self.epoch = self.epoch, None
        self._run_on_loop(self._listener.on_resigned)
        # The tickets stay: the model decides about their fate at the next election.
        for ticket in self.in_flight:
            self._settle(ticket, Outcome.UNKNOWN)

    def _settle(self, ticket: Ticket, outcome: Outcome) -> None:
        def tell() -> None:
            if ticket.outcome is Outcome.PENDING:
                ticket.outcome = outcome
                self._listener.on_ticket(ticket)

        self._run_on_loop(tell)
