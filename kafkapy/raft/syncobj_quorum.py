"""The quorum on pysyncobj, in a thread of its own: what is proposed goes in, what is committed comes out.

What pysyncobj is used for and what is replaced in it stands in `syncobj_seams.py`; this is the thread around it: a loop of receive, hand over, tick,
sync, sleep. With one voter a proposal is written, synced and committed within two ticks that follow each other at once. With several the leader syncs
while its message is on the way to the followers, so a commit takes about one sync and one round trip. All proposals that come in while one is being
synced go into one entry, so they share the next sync. What comes out is queued and drained on the loop's thread in log order, one `run_on_loop` for
many batches. Messages to other voters are sent from here, so that a leader is heard while its loop is busy; what they say comes through the loop.

Never used: @replicated, setCodeVersion, forwarded commands, readonly nodes, utility verbs, membership changes: each has a way to lose or to repeat
a change. Feature levels and membership are records.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol

from kafkapy.raft.entries import JOURNAL_NAME, NO_OP, SNAPSHOT_NAME, LogEnd, SnapshotFile, encode_batches, encode_claim
from kafkapy.raft.journal import Entry, Journal
from kafkapy.raft.quorum import (
    CommittedBatch,
    Outcome,
    QuorumListener,
    RunOnLoop,
    SnapshotPosition,
    Ticket,
    VoterProgress,
)
from kafkapy.raft.syncobj_seams import (
    ENTRY_BYTES_MAX,
    LEADER,
    Dice,
    SnapshotSeam,
    load_core,
    make_voter,
    transport_class,
)

if TYPE_CHECKING:
    from kafkapy.raft.voter_messages import Message
    from kafkapy.raft.voter_session import Standing

log = logging.getLogger(__name__)

# Entries in flight. One is being synced while the next is gathered; more would only make the entries smaller.
ENTRIES_IN_FLIGHT_MAX = 2
ENTRY_TICKETS_MAX = 1000
ENTRY_BYTES = 256 * 1024

# One voter has nobody to wait for: it stands for election after some milliseconds, and nothing it does needs a clock afterwards.
SINGLE_VOTER_TIMING = {"appendEntriesPeriod": 0.002, "raftMinTimeout": 0.0065, "raftMaxTimeout": 0.007}
NEVER_S = 1e9
OFFSETS_KEPT = 1000
LOOK_TURNS = 3
# The core's own election timeouts are not used with several voters: see voter_elections.py.
VOTERS_TIMING = {
    "appendEntriesPeriod": 0.2,
    "leaderFallbackTimeout": 4.0,
    "raftMinTimeout": NEVER_S,
    "raftMaxTimeout": 2 * NEVER_S,
    "connectionTimeout": 2 * NEVER_S,
}
TICK_ELECTION_S = 0.002
TICK_SINGLE_VOTER_S = 0.5
TICK_VOTERS_S = 1.0


class LinkState(Enum):
    """What this node sees of another voter."""

    CONNECTED = "connected"
    REFUSED = "refused"  # nobody listens there: the process has ended, or has not begun
    SILENT = "silent"  # no answer, or not yet asked


class VoterNetwork(Protocol):
    """The links to the other voters. Everything on the loop's thread, unless it says otherwise."""

    def opened(self) -> None:
        """The journal is there: from now on others may be talked to."""

    def send(self, node_id: int, payload: bytes) -> None:
        """Send a message; without a link it is dropped. On the quorum's thread."""

    def backlog_bytes(self, node_id: int) -> int:
        """How much of what was sent waits for a slow peer. On any thread."""

    def link_state(self, node_id: int) -> LinkState:
        """See LinkState."""

    def closed(self) -> None:
        """This voter has left: others shall see that at once."""

    def caught_up(self) -> None:
        """This voter has everything that is committed, says the leader."""


class SyncObjQuorum:
    """One voter. Files: `quorum.journal` and `quorum.snapshot` in `directory`, which must exist."""

    def __init__(
        self,
        directory: str,
        node_id: int,
        other_voters: Iterable[int] = (),
        snapshot_bytes: int = 20 * 1024 * 1024,
        snapshot_interval_s: float = 3600.0,
        wall_clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        clock: Callable[[], float] = time.monotonic,
        dice: Dice | None = None,
    ) -> None:
        self.directory = directory
        self.node_id = node_id
        self.other_voters = tuple(sorted(other_voters))
        self.snapshot_path = os.path.join(directory, SNAPSHOT_NAME)
        # See Quorum. Written by the quorum's thread, read anywhere.
        self.leader_id: int | None = None
        # How far the others have come, while this voter leads. Written by the quorum's thread, read anywhere.
        self.progress: dict[int, VoterProgress] = {}
        self.network: VoterNetwork | None = None
        self._snapshot_bytes = snapshot_bytes
        self._snapshot_interval_s = snapshot_interval_s
        self._wall_clock_ms = wall_clock_ms
        self._clock = clock
        self._dice: Any = dice
        # Shared by the two threads; every one of these operations is atomic.
        self._pending: deque[Ticket] = deque()
        self._inbox: deque[Callable[[], None]] = deque()
        self._deliveries: deque[Callable[[], None]] = deque()
        self._drain_is_due = False
        self._awake = False
        self._stopping = False
        # Of the quorum's thread alone.
        self._end = LogEnd()
        self._in_flight: deque[list[Ticket]] = deque()
        self._leading = False
        self._caught_up: set[int] = set()
        self._proofs: dict[int, int] = {}
        self._claim = b""
        self._epoch: int | None = None
        self._unsaved_bytes = 0
        # The last raft entries applied, with the end of the metadata log behind each.
        self._offsets: deque[tuple[int, int]] = deque(maxlen=OFFSETS_KEPT)
        self._snapshot_time = clock()
        self._snapshot_thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._wake_lock = threading.Lock()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="kafkapy-quorum", daemon=True)

    # The loop's side.

    def join(self, network: VoterNetwork, is_member: bool = True) -> None:
        """Say how the other voters are reached, and whether this one votes and counts before `become` is called. Before `start`."""
        from kafkapy.raft import voter_messages

        self.network = network
        self._is_member_at_start = is_member
        self._encode, self._decode = voter_messages.encode, voter_messages.decode

    def start(self, listener: QuorumListener, run_on_loop: RunOnLoop) -> None:
        """Begin in a thread of its own. `run_on_loop` is called from that thread and must not raise when the loop has ended."""
        self.attach(listener, run_on_loop)
        self._thread.start()

    def attach(self, listener: QuorumListener, run_on_loop: RunOnLoop) -> None:
        """Say who listens, without a thread: for a simulation, which calls `open` and `step` itself."""
        self._listener = listener
        self._run_on_loop = run_on_loop

    def propose(self, ticket: Ticket) -> None:
        """Queue a batch; a ticket of an epoch that is over is answered with NOT_CONTROLLER."""
        self._pending.append(ticket)
        self._wake()

    def link_state(self, node_id: int) -> LinkState:
        """What this node sees of another voter."""
        return LinkState.SILENT if self.network is None else self.network.link_state(node_id)

    def link_up(self, node_id: int, is_member: bool) -> None:
        """A voter can be reached; whether it votes and counts is what it said of itself."""
        self._hear(partial(self._on_link_up, node_id, is_member))

    def link_down(self, node_id: int) -> None:
        """A link has broken."""
        self._hear(partial(self._on_link_down, node_id))

    def link_refused(self, node_id: int) -> None:
        """Nobody listens where a voter should be, so its process has ended."""
        self._hear(lambda: self._elections.refused(node_id))

    def receive(self, node_id: int, payload: bytes) -> None:
        """A voter says something. Raises ProtocolError where that cannot be read."""
        self._hear(partial(self._on_message, node_id, self._decode(payload)))

    def become(self, standing: Standing) -> None:
        """What this voter's word counts from now on, which has been written down."""
        self._hear(lambda: self._elections.become(standing))

    @property
    def has_history(self) -> bool:
        """Whether there are entries in the journal, or a snapshot: all terms but 0 have been somebody's."""
        return self._journal.entries[-1].term > 0

    def stop(self) -> None:
        """Stop the thread and wait for it: at most one sync, or the snapshot that is being written."""
        self._stopping = True
        self._wake()
        if self._thread.ident is not None:
            self._thread.join()
        if self._snapshot_thread is not None:
            self._snapshot_thread.join()
        with self._wake_lock:
            os.close(self._wake_write)
            os.close(self._wake_read)
            self._wake_write = -1

    def _hear(self, event: Callable[[], None]) -> None:
        self._inbox.append(event)
        self._wake()

    def _wake(self) -> None:
        if not self._awake:
            with self._wake_lock:
                if self._wake_write >= 0:
                    self._awake = True
                    os.write(self._wake_write, b"w")

    def _drain(self) -> None:
        self._drain_is_due = False
        while self._deliveries:
            self._deliveries.popleft()()

    def _begin_snapshot(self, last: Entry, prev: Entry, position: SnapshotPosition) -> None:
        """On the loop, right behind the batches that the snapshot covers: the image is exactly the one to write."""
        write = self._listener.on_snapshot_due(position)
        if write is None:
            self._snapshots.finished(success=False)
            return
        self._snapshot_thread = threading.Thread(
            target=self._write_snapshot, args=(write, last, prev, position), name="kafkapy-snapshot"
        )
        self._snapshot_thread.start()

    # The snapshot's thread.

    def _write_snapshot(self, write: Callable[[], bytes], last: Entry, prev: Entry, position: SnapshotPosition) -> None:
        try:
            SnapshotFile(last, prev, position, write()).write(self.snapshot_path)
            self._snapshots.finished(success=True)
        except Exception:
            log.exception("cannot write a snapshot of the metadata; the journal is kept, the next attempt comes later")
            self._snapshots.finished(success=False)
        if not self._stopping:
            self._wake()

    # The quorum's thread.

    def _run(self) -> None:
        try:
            self.open()
            while not self._stopping:
                self.step()
            self._hand_on()
            self.close()
        except BaseException as error:
            log.critical("the metadata quorum has stopped", exc_info=True)
            self._tell(partial(self._listener.on_failure, error))
        self.leader_id = None
        self._resign()
        if self.network is not None:
            self._tell(self.network.closed)

    def _hand_on(self) -> None:
        """A leader that stops has a follower who has everything stand for election, so that nobody waits for a timeout."""
        if self.other_voters and self._leading:
            self._raft.transferLeadership()

    def step(self, may_sleep: bool = True) -> None:
        """Take what has come, commit and apply what is on enough disks, send and write what was proposed. Then sleep until there is more."""
        raft = self._raft
        self._awake = False
        while self._inbox:
            self._inbox.popleft()()
        self._hand_over()
        if self.other_voters:
            self._elections.tick()
            raft.doTick(0.0)
            # What was sent is on its way while this disk is at work.
            self._journal.sync()
            leader_id = self._elections.leader_id
            self.leader_id = leader_id if leader_id >= 0 else None
        else:
            raft.doTick(0.0)
            self.leader_id = self.node_id if self._leading else None
        if self._failure is not None:
            raise self._failure
        if (
            may_sleep and not self._awake
        ):  # The tick has polled as well, and may have swallowed what should end the sleep.
            raft._poller.poll(self._sleep_s())

    def close(self) -> None:
        """Sync and close the journal."""
        self._raft.destroy()
        self._snapshots.close()

    def open(self) -> None:
        """Read what is on disk and build the core around it."""
        core = load_core(self._clock, self._dice)
        keep_from = 0
        if os.path.exists(self.snapshot_path):
            snapshot = SnapshotFile.read(self.snapshot_path)
            self._end.restore(snapshot.position)
            keep_from = snapshot.prev.log_index
        self._journal = Journal(os.path.join(self.directory, JOURNAL_NAME), keep_from)
        self._unsaved_bytes = sum(len(entry.command) for entry in self._journal.entries)
        self._snapshots = SnapshotSeam(
            self.snapshot_path, self._snapshot_asked, self._read_snapshot, self._may_install, self._backlog_bytes
        )
        raft = make_voter(
            core,
            node_id=self.node_id,
            other_voters=self.other_voters,
            apply=self._apply,
            transport=self._make_transport,
            journal=self._journal,
            snapshots=self._snapshots,
            on_state_changed=self._on_state_changed,
            timing=VOTERS_TIMING if self.other_voters else SINGLE_VOTER_TIMING,
        )
        raft._poller.subscribe(self._wake_read, self._on_wake, 1)
        self._raft = raft
        if self.other_voters:
            self._open_elections()

    def _open_elections(self) -> None:
        """Several voters: only now is loaded what one voter alone never needs."""
        import random

        from kafkapy.raft.voter_elections import Elections
        from kafkapy.raft.voter_session import Standing

        assert self.network is not None, "several voters need links"
        dice = self._dice or random
        self._elections = Elections(self._raft, self._deliver, self.other_voters, self._clock, dice, self._look)
        self._elections.standing = Standing.MEMBER if self._is_member_at_start else Standing.NEWCOMER
        self._tell(self.network.opened)

    def _make_transport(self, *arguments: Any) -> Any:
        self._transport = transport_class()(*arguments)
        self._transport.deliver = self._deliver
        return self._transport

    def _sleep_s(self) -> float:
        """Until a clock has something to say; everything else wakes."""
        raft = self._raft
        if self.other_voters:
            due = raft.next_heartbeat if raft.state == LEADER else self._elections.deadline
            return max(0.0, min(due - self._clock(), TICK_VOTERS_S))
        if self._journal.entries[-1].log_index > raft.raftCommitIndex:
            return 0.0
        return TICK_SINGLE_VOTER_S if self._epoch is not None else TICK_ELECTION_S

    def _hand_over(self) -> None:
        """Give the core what was proposed."""
        raft = self._raft
        while self._pending and len(self._in_flight) < ENTRIES_IN_FLIGHT_MAX:
            tickets = self._gather()
            if tickets:
                self._in_flight.append(tickets)
                raft._applyCommand(encode_batches(tickets[0].epoch, tickets), None)
        snapshots = self._snapshots
        is_idle = self._unsaved_bytes and snapshots.state == snapshots.NOT_SERIALIZING
        if is_idle and self._snapshot_is_due() and raft.isReady():
            raft.forceLogCompaction()

    def _gather(self) -> list[Ticket]:
        """As many proposals as one entry may hold; those of another epoch are turned away."""
        tickets: list[Ticket] = []
        size = 0
        while self._pending and len(tickets) < ENTRY_TICKETS_MAX and size < ENTRY_BYTES:
            ticket = self._pending.popleft()
            if ticket.epoch == self._epoch:
                tickets.append(ticket)
                size += sum(map(len, ticket.records))
                assert size < ENTRY_BYTES_MAX, "a decision larger than any message"
            else:
                self._settle(ticket, Outcome.NOT_CONTROLLER)
        return tickets

    def _on_wake(self, descriptor: int, event: int) -> None:
        os.read(self._wake_read, 4096)

    def _on_state_changed(self, old: int, new: int) -> None:
        log.debug("term %d: %s", self._raft.raftCurrentTerm, ("follower", "candidate", "leader")[new])
        if new == LEADER:
            self._leading = True
            self._claim = os.urandom(8)
            self._proofs = dict.fromkeys(self._transport.learners, self._raft.last_entry.log_index + 1)
            self._raft._applyCommand(encode_claim(self.node_id, self._claim, self._wall_clock_ms()), None)
        elif self._leading:
            self._raft.forget_commands()
            self._resign()

    def _resign(self) -> None:
        """No longer leader, or no longer here: what was handed over may or may not be committed by the next leader."""
        self._leading = False
        self.progress = {}
        self._caught_up.clear()
        if self._epoch is not None:
            self._epoch = None
            self._tell(self._listener.on_resigned)
        while self._in_flight:
            for ticket in self._in_flight.popleft():
                self._settle(ticket, Outcome.UNKNOWN)
        while self._pending:
            self._settle(self._pending.popleft(), Outcome.NOT_CONTROLLER)

    def _apply(self, command: bytes) -> None:
        """A committed entry. The core would try an entry that raises again for ever, so the failure is noted and ends the loop."""
        if self._failure is not None:
            raise self._failure
        try:
            batches = self._end.apply(command)
        except Exception as error:
            self._failure = error
            raise
        self._unsaved_bytes += len(command)
        self._offsets.append((self._raft.raftLastApplied + 1, self._end.next_offset))
        for batch in batches:
            self._tell(partial(self._listener.on_committed, batch))
        if not batches:
            return
        if batches[0].is_leader_change:
            if self._leading and self._end.claim == self._claim:
                self._epoch = self._end.epoch
                self._tell(partial(self._listener.on_elected, self._end.epoch))
        elif self._is_own(batches[0]):
            for ticket in self._in_flight.popleft():
                self._settle(ticket, Outcome.COMMITTED)

    def _is_own(self, batch: CommittedBatch) -> bool:
        return (
            bool(self._in_flight)
            and batch.epoch == self._epoch
            and batch.base_offset == self._in_flight[0][0].base_offset
        )

    def _settle(self, ticket: Ticket, outcome: Outcome) -> None:
        self._tell(partial(self._settle_on_loop, ticket, outcome))

    def _settle_on_loop(self, ticket: Ticket, outcome: Outcome) -> None:
        ticket.outcome = outcome
        self._listener.on_ticket(ticket)

    def _tell(self, delivery: Callable[[], None]) -> None:
        self._deliveries.append(delivery)
        if not self._drain_is_due:
            self._drain_is_due = True
            self._run_on_loop(self._drain)

    def _look(self, turns: int = LOOK_TURNS) -> None:
        """Let the loop take some turns, in which it reads its sockets, then go on with the elections."""
        if turns:
            self._run_on_loop(lambda: self._look(turns - 1))
        else:
            self._hear(lambda: self._elections.looked())

    # The other voters, on the quorum's thread.

    def _deliver(self, node_id: int, message: Message) -> None:
        if message["type"] == "response_vote":
            self._elections.voted()
        assert self.network is not None
        self.network.send(node_id, self._encode(message))

    def _on_link_up(self, node_id: int, is_member: bool) -> None:
        self._elections.link_up(node_id, is_member)
        self._caught_up.discard(node_id)
        self._transport.learners = self._elections.learners
        if not is_member:
            self._raft.forget_match(self._transport.nodes[node_id])
            if self._leading:
                # Something has to be committed without it before it may count, see `_tell_caught_up`.
                self._proofs[node_id] = self._raft.last_entry.log_index + 1
                self._raft._applyCommand(NO_OP, None)
        self._transport.connected(node_id)

    def _on_link_down(self, node_id: int) -> None:
        self._elections.link_down(node_id)
        self._transport.disconnected(node_id)

    def _on_message(self, node_id: int, message: Message) -> None:
        verb, elections, raft = message["type"], self._elections, self._raft
        if verb in ("pre_vote", "pre_vote_answer"):
            elections.receive(node_id, message)
        elif verb == "member":
            elections.learners.discard(node_id)
        elif verb == "caught_up":
            if message["term"] == raft.raftCurrentTerm and message["index"] <= raft.last_entry.log_index:
                assert self.network is not None
                self._tell(self.network.caught_up)
        elif elections.is_member or verb not in ("request_vote", "timeout_now"):
            self._transport.receive(node_id, message)
            if verb == "append_entries" and message["term"] == raft.raftCurrentTerm:
                elections.heard_leader()
            elif verb == "next_node_idx" and raft.state == LEADER and message["term"] == raft.raftCurrentTerm:
                self._note_progress(node_id, message)
                if node_id not in self._caught_up:
                    self._tell_caught_up(node_id, message)

    def _note_progress(self, node_id: int, message: Message) -> None:
        """Keep what DescribeQuorum tells: a voter has fetched when it acknowledges, and is caught up if nothing is missing then."""
        now_ms = self._wall_clock_ms()
        known = self.progress.get(node_id, VoterProgress(-1, -1, -1))
        offset, caught_up_ms = known.log_end_offset, known.caught_up_time_ms
        if message["success"]:
            index = message["next_node_idx"] - 1
            place = bisect_right(self._offsets, index, key=itemgetter(0))
            if place:
                offset = max(offset, self._offsets[place - 1][1])
            if index >= self._raft.last_entry.log_index:
                caught_up_ms = now_ms
        self.progress[node_id] = VoterProgress(offset, now_ms, caught_up_ms)

    def _tell_caught_up(self, node_id: int, message: Message) -> None:
        """Tell a voter once it has everything that is committed in this term.

        One that doesn't count yet must hear that of a leader whom a majority without it follows still: hence the entry that was proposed
        after it had come. Else a leader of the past, which only this voter doesn't know to be one, could make it a member.
        """
        raft = self._raft
        index = raft.raftCommitIndex
        if not message["success"] or message["next_node_idx"] <= index or index < self._proofs.get(node_id, 0):
            return
        first = self._journal.entries[0].log_index
        if self._journal.entries[index - first].term == raft.raftCurrentTerm:
            self._caught_up.add(node_id)
            self._deliver(node_id, {"type": "caught_up", "term": raft.raftCurrentTerm, "index": index})

    def _backlog_bytes(self, node: Any) -> int:
        return 0 if self.network is None else self.network.backlog_bytes(int(node.id))

    # Snapshots, as the core asks for them.

    def _snapshot_is_due(self) -> bool:
        if self._unsaved_bytes >= self._snapshot_bytes:
            return True
        interval_s = self._snapshot_interval_s
        return interval_s > 0 and self._clock() - self._snapshot_time >= interval_s

    def _snapshot_asked(self, last: Entry, prev: Entry) -> None:
        self._unsaved_bytes = 0
        self._snapshot_time = self._clock()
        self._tell(partial(self._begin_snapshot, last, prev, self._end.position))

    def _may_install(self, path: str) -> bool:
        """Whether a snapshot that the leader has sent brings anything: not if this log has the entry with which it ends, or had it."""
        try:
            snapshot = SnapshotFile.read(path)
        except Exception as error:
            self._failure = error
            raise
        last, entries = snapshot.last, self._journal.entries
        position = last.log_index - entries[0].log_index
        is_known = position < len(entries) and entries[position].term == last.term
        if last.log_index <= self._raft.raftCommitIndex or position < 0 or is_known:
            return False
        log.info("takes the leader's snapshot, which ends before offset %d", snapshot.position.end_offset)
        return True

    def _read_snapshot(self, path: str) -> tuple[Entry, Entry]:
        """Read at the start, when `open` has read it before, and when the leader has sent one. The core swallows errors, hence `_failure`."""
        try:
            snapshot = SnapshotFile.read(path)
        except Exception as error:
            self._failure = error
            raise
        if snapshot.position.end_offset > self._end.next_offset:
            self._end.restore(snapshot.position)
            self._unsaved_bytes = 0
            self._tell(partial(self._listener.on_snapshot_received, snapshot.position, snapshot.content))
        return snapshot.last, snapshot.prev
