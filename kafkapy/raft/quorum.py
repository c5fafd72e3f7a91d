"""What the metadata quorum does for the rest: it puts batches of records in one order and says when they are committed.

Theory of operation. One voter leads. It has an epoch of its own, because it opened it with a committed claim; consensus beneath may change its mind
about the leader at any time, and what the old one still had in flight is refused by the epoch, on every voter alike.

A leader proposes a batch together with its epoch and the offset at which the batch must land. Deciding is therefore possible ahead of the commit:
the next decision builds on the last one, and if that one turns out not to be in the log then neither is anything after it.

Everything comes back through one queue, in log order, on the thread of the loop: batches committed, own or not, then the outcome of the ticket that
proposed them. So whoever waits for a ticket sees the image that has its change.

Two implementations: `syncobj_quorum.SyncObjQuorum` for voters, on disk and in a thread, and `observer.Observer` for brokers without a vote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

RunOnLoop = Callable[[Callable[[], None]], None]


class Outcome(Enum):
    """What became of a proposal. UNKNOWN: the leadership was lost after it had been handed over, so it may yet be committed."""

    PENDING = 0
    COMMITTED = 1
    NOT_CONTROLLER = 2
    UNKNOWN = 3


class CommittedBatch(NamedTuple):
    """One decision at its place in the metadata log. Without records it is the start of an epoch: a LeaderChange takes its one offset."""

    base_offset: int
    epoch: int
    leader_id: int
    timestamp_ms: int
    records: tuple[bytes, ...]  # framed metadata records

    @property
    def is_leader_change(self) -> bool:
        return not self.records

    @property
    def next_offset(self) -> int:
        return self.base_offset + (len(self.records) or 1)


class Ticket:
    """A proposal on its way. It is also the key under which an answer waits for it."""

    __slots__ = ("base_offset", "epoch", "outcome", "records", "timestamp_ms")

    def __init__(self, records: tuple[bytes, ...], epoch: int, base_offset: int, timestamp_ms: int) -> None:
        self.records = records
        self.epoch = epoch
        self.base_offset = base_offset
        self.timestamp_ms = timestamp_ms
        self.outcome = Outcome.PENDING


class SnapshotPosition(NamedTuple):
    """Where a snapshot stands: the first offset that it doesn't cover, and the epoch and time of the last batch that it does."""

    end_offset: int
    epoch: int
    leader_id: int
    timestamp_ms: int


class VoterProgress(NamedTuple):
    """How far another voter has come, as the leader sees it; -1 where it hasn't been heard of."""

    log_end_offset: int
    fetch_time_ms: int
    caught_up_time_ms: int


class QuorumListener(Protocol):
    """Who is told, always on the loop's thread and in log order."""

    def on_committed(self, batch: CommittedBatch) -> None:
        """The next batch of the metadata log. After a restart the ones since the last snapshot come again."""

    def on_ticket(self, ticket: Ticket) -> None:
        """The outcome is known; a committed batch has been told before."""

    def on_elected(self, epoch: int) -> None:
        """This voter may propose in this epoch. Everything committed before has been told."""

    def on_resigned(self) -> None:
        """It may not any more. Tickets without an outcome are told after this."""

    def on_snapshot_due(self, position: SnapshotPosition) -> Callable[[], bytes] | None:
        """Asked when exactly the batches before `position` have been told. The function returned runs off the loop: it makes a snapshot
        durable and returns its bytes, and only then does the journal forget what they cover. None: not now, because the image on disk
        was ahead of what has been told again since the start."""

    def on_snapshot_received(self, position: SnapshotPosition, content: bytes) -> None:
        """The leader has sent a snapshot in place of the batches that it no longer has."""

    def on_failure(self, error: BaseException) -> None:
        """The quorum cannot go on and has stopped; the broker must stop too."""


class Quorum(Protocol):
    """One node's connection to the quorum."""

    @property
    def leader_id(self) -> int | None:
        """The voter that leads now, as far as this node knows. It may not have opened its epoch yet."""

    @property
    def progress(self) -> Mapping[int, VoterProgress]:
        """The other voters, while this node leads."""

    def start(self, listener: QuorumListener, run_on_loop: RunOnLoop) -> None:
        """Begin; nothing has been told before this."""

    def propose(self, ticket: Ticket) -> None:
        """Have a batch committed in the current epoch. Called on the loop's thread, returns at once."""

    def stop(self) -> None:
        """Leave cleanly. Outcomes still pending become unknown."""
