"""A quorum without disk or thread."""

from __future__ import annotations

from collections import deque

from kafkapy.raft.quorum import CommittedBatch, Outcome, QuorumListener, RunOnLoop, Ticket, VoterProgress


class MemoryQuorum:
    """One voter without disk or thread, which commits when `commit` is called: every interleaving can be written down in a test."""

    def __init__(self, node_id: int = 1, epoch: int = 0, next_offset: int = 0) -> None:
        self.node_id = node_id
        self.epoch = epoch
        self.next_offset = next_offset
        self.in_flight: deque[Ticket] = deque()
        self.progress: dict[int, VoterProgress] = {}
        self.leading = False
        self._listener: QuorumListener | None = None

    @property
    def leader_id(self) -> int | None:
        """Itself or nobody."""
        return self.node_id if self.leading else None

    @property
    def listener(self) -> QuorumListener:
        """Who is told."""
        assert self._listener is not None, "the quorum has not been started"
        return self._listener

    def start(self, listener: QuorumListener, run_on_loop: RunOnLoop) -> None:
        """Start and win the election at once."""
        self._listener = listener
        self.elect(timestamp_ms=0)

    def elect(self, timestamp_ms: int) -> None:
        """Open the next epoch."""
        self.epoch += 1
        self._tell(CommittedBatch(self.next_offset, self.epoch, self.node_id, timestamp_ms, ()))
        self.leading = True
        self.listener.on_elected(self.epoch)

    def resign(self, outcome: Outcome = Outcome.UNKNOWN) -> None:
        """Lose the leadership, and with it whatever is in flight."""
        self.leading = False
        self.listener.on_resigned()
        while self.in_flight:
            ticket = self.in_flight.popleft()
            ticket.outcome = outcome
            self.listener.on_ticket(ticket)

    def propose(self, ticket: Ticket) -> None:
        """Keep it until `commit`."""
        assert self.leading, "only a leader proposes"
        self.in_flight.append(ticket)

    def commit(self, count: int | None = None) -> None:
        """Commit the first `count` proposals in flight, or all of them, also those that are made meanwhile."""
        while self.in_flight and count != 0:
            ticket = self.in_flight.popleft()
            assert (ticket.epoch, ticket.base_offset) == (self.epoch, self.next_offset), "the controller lost count"
            self._tell(
                CommittedBatch(ticket.base_offset, self.epoch, self.node_id, ticket.timestamp_ms, ticket.records)
            )
            ticket.outcome = Outcome.COMMITTED
            self.listener.on_ticket(ticket)
            count = None if count is None else count - 1

    def stop(self) -> None:
        """Leave, as a clean stop does."""
        if self.leading:
            self.resign()

    def _tell(self, batch: CommittedBatch) -> None:
        self.next_offset = batch.next_offset
        self.listener.on_committed(batch)
