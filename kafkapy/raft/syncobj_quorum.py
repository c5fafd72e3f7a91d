"""The quorum on pysyncobj: the only module that knows it, and the only thread in raft/.

pysyncobj elects and replicates; everything on which durability or safety hangs is ours and plugged in where it lets us:

    journal        `_JournalSeam` around journal.py, in place of `createJournal`     fsync before anything is acknowledged, CRC, atomic trim
    snapshot       serializer, deserializer, serializeChecker (public)               made off this thread and off the loop, no pickle
    apply          `_SyncObj__doApplyCommand` (private name)                         our entries, errors stop the voter
    transport      transportClass (public), a subclass of `VoterTransport`           sync before acks, stale acks and strangers' verbs dropped
    pickle         the module's name `pickle`                                        replaced by one that refuses

The module is pinned to 0.3.17 and tests/raft/test_syncobj_seams.py fails when a seam moves. The patches are made on a private copy of the module, so
another user of pysyncobj in this process keeps the original.

The thread: a loop of hand over, tick, look for failures. With one voter a proposal is written, synced and committed within two ticks that follow
each other at once, and the thread sleeps in poll for the rest of the time. All proposals that come in while one is being synced go into one entry, so
they share the next sync. What comes out is queued and drained on the loop's thread in log order, one `run_on_loop` for many batches.

Never used: @replicated, setCodeVersion, forwarded commands, readonly nodes, utility verbs, membership changes: each has a way to lose or to repeat
a change. Feature levels and membership are records.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import cache, partial
from types import ModuleType
from typing import Any

from kafkapy.raft.entries import JOURNAL_NAME, SNAPSHOT_NAME, LogEnd, SnapshotFile, encode_batches, encode_claim
from kafkapy.raft.journal import Entry, Journal
from kafkapy.raft.quorum import CommittedBatch, Outcome, QuorumListener, RunOnLoop, SnapshotPosition, Ticket

log = logging.getLogger(__name__)

PINNED_VERSION = "0.3.17"
LEADER = 2

# Entries in flight. One is being synced while the next is gathered; more would only make the entries smaller.
ENTRIES_IN_FLIGHT_MAX = 2
ENTRY_TICKETS_MAX = 1000
ENTRY_BYTES_MAX = 256 * 1024

# One voter has nobody to wait for: it stands for election after some milliseconds, and nothing it does needs a clock afterwards.
SINGLE_VOTER_TIMING = {"appendEntriesPeriod": 0.002, "raftMinTimeout": 0.0065, "raftMaxTimeout": 0.007}
VOTERS_TIMING = {"appendEntriesPeriod": 0.1, "raftMinTimeout": 0.5, "raftMaxTimeout": 1.0}
LEADER_FALLBACK_S = 1.5
TICK_ELECTION_S = 0.002
TICK_SINGLE_VOTER_S = 0.5
TICK_VOTERS_S = 0.05

# Above the largest entry, so that the core never cuts one into pickled pieces.
APPEND_BYTES_MAX = 64 * 1024 * 1024


class SyncObjQuorum:
    """One voter. Files: `quorum.journal` and `quorum.snapshot` in `directory`, which must exist."""

    def __init__(
        self,
        directory: str,
        node_id: int,
        other_voters: Iterable[int] = (),
        transport_class: Callable[..., Any] | None = None,
        snapshot_bytes: int = 20 * 1024 * 1024,
        snapshot_interval_s: float = 3600.0,
        wall_clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.directory = directory
        self.node_id = node_id
        self.other_voters = tuple(other_voters)
        self.snapshot_path = os.path.join(directory, SNAPSHOT_NAME)
        self._transport_class = transport_class
        self._snapshot_bytes = snapshot_bytes
        self._snapshot_interval_s = snapshot_interval_s
        self._wall_clock_ms = wall_clock_ms
        # Shared by the two threads; every one of these operations is atomic.
        self._pending: deque[Ticket] = deque()
        self._deliveries: deque[Callable[[], None]] = deque()
        self._drain_is_due = False
        self._awake = False
        self._stopping = False
        # Of the quorum's thread alone.
        self._end = LogEnd()
        self._in_flight: deque[list[Ticket]] = deque()
        self._leading = False
        self._claim = b""
        self._epoch: int | None = None
        self._unsaved_bytes = 0
        self._snapshot_time = time.monotonic()
        self._snapshot_state = 0
        self._snapshot_thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="kafkapy-quorum", daemon=True)

    # The loop's side.

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

    def stop(self) -> None:
        """Stop the thread and wait for it: at most one sync, or the snapshot that is being written."""
        self._stopping = True
        self._wake()
        if self._thread.ident is not None:
            self._thread.join()
        if self._snapshot_thread is not None:
            self._snapshot_thread.join()
        write, self._wake_write = self._wake_write, -1
        os.close(write)
        os.close(self._wake_read)

    def _wake(self) -> None:
        if not self._awake and self._wake_write >= 0:
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
            self._snapshot_state = _pysyncobj().SERIALIZER_STATE.FAILED
            return
        self._snapshot_thread = threading.Thread(
            target=self._write_snapshot, args=(write, last, prev, position), name="kafkapy-snapshot"
        )
        self._snapshot_thread.start()

    # The snapshot's thread.

    def _write_snapshot(self, write: Callable[[], bytes], last: Entry, prev: Entry, position: SnapshotPosition) -> None:
        states = _pysyncobj().SERIALIZER_STATE
        try:
            SnapshotFile(last, prev, position, write()).write(self.snapshot_path)
            self._snapshot_state = states.SUCCESS
        except Exception:
            log.exception("cannot write a snapshot of the metadata; the journal is kept, the next attempt comes later")
            self._snapshot_state = states.FAILED
        if not self._stopping:
            self._wake()

    # The quorum's thread.

    def _run(self) -> None:
        try:
            self.open()
            while not self._stopping:
                self.step()
            self.close()
        except BaseException as error:
            log.critical("the metadata quorum has stopped", exc_info=True)
            self._tell(partial(self._listener.on_failure, error))
        self._resign()

    def step(self, may_sleep: bool = True) -> None:
        """One tick of the core: what is on disk is committed and applied, what was proposed is written. Then it sleeps until there is more."""
        sleep_s = self._hand_over()
        self._raft.doTick(sleep_s if may_sleep else 0.0)
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Sync and close the journal."""
        self._raft.destroy()

    def open(self) -> None:
        """Read what is on disk and build the core around it."""
        module = _pysyncobj()
        keep_from = 0
        if os.path.exists(self.snapshot_path):
            snapshot = SnapshotFile.read(self.snapshot_path)
            self._end.restore(snapshot.position)
            keep_from = snapshot.prev.log_index
        self._journal = Journal(os.path.join(self.directory, JOURNAL_NAME), keep_from)
        self._unsaved_bytes = sum(len(entry.command) for entry in self._journal.entries)
        configuration = module.SyncObjConf(
            autoTick=False,
            appendEntriesUseBatch=not self.other_voters,  # With one voter nothing is sent, and the core opens no pipe of its own.
            appendEntriesBatchSizeBytes=APPEND_BYTES_MAX,
            leaderFallbackTimeout=LEADER_FALLBACK_S,
            journalFile=_journal_seam()(self._journal),
            fullDumpFile=self.snapshot_path,
            useFork=False,
            serializer=self._serialize,
            deserializer=self._deserialize,
            serializeChecker=self._check_snapshot,
            logCompactionMinEntries=1 << 62,  # It is asked for by name: `forceLogCompaction`.
            logCompactionMinTime=1e12,
            onStateChanged=self._on_state_changed,
            **(VOTERS_TIMING if self.other_voters else SINGLE_VOTER_TIMING),
        )
        node = module.Node
        raft = _voter_class()(
            self._apply,
            node(str(self.node_id)),
            [node(str(voter)) for voter in self.other_voters],
            configuration,
            transportClass=self._transport_class or voter_transport(),
        )
        raft._poller.subscribe(self._wake_read, self._on_wake, 1)
        self._raft = raft

    def _hand_over(self) -> float:
        """Give the core what was proposed and tell how long its next tick may sleep."""
        raft = self._raft
        self._awake = False
        handed_over = False
        while self._pending and len(self._in_flight) < ENTRIES_IN_FLIGHT_MAX:
            tickets = self._gather()
            if tickets:
                self._in_flight.append(tickets)
                raft._applyCommand(encode_batches(tickets[0].epoch, tickets), None)
                handed_over = True
        if self._unsaved_bytes and self._snapshot_state == 0 and raft.isReady() and self._snapshot_is_due():
            raft.forceLogCompaction()
        if self.other_voters:
            return TICK_VOTERS_S
        if handed_over or self._journal.entries[-1].log_index > raft.raftCommitIndex:
            return 0.0
        return TICK_SINGLE_VOTER_S if self._epoch is not None else TICK_ELECTION_S

    def _gather(self) -> list[Ticket]:
        """As many proposals as one entry may hold; those of another epoch are turned away."""
        tickets: list[Ticket] = []
        size = 0
        while self._pending and len(tickets) < ENTRY_TICKETS_MAX and size < ENTRY_BYTES_MAX:
            ticket = self._pending.popleft()
            if ticket.epoch == self._epoch:
                tickets.append(ticket)
                size += sum(map(len, ticket.records))
            else:
                self._settle(ticket, Outcome.NOT_CONTROLLER)
        return tickets

    def _on_wake(self, descriptor: int, event: int) -> None:
        os.read(self._wake_read, 4096)

    def _on_state_changed(self, old: int, new: int) -> None:
        if new == LEADER:
            self._leading = True
            self._claim = os.urandom(8)
            self._raft._applyCommand(encode_claim(self.node_id, self._claim, self._wall_clock_ms()), None)
        elif self._leading:
            self._resign()

    def _resign(self) -> None:
        """No longer leader, or no longer here: what was handed over may or may not be committed by the next leader."""
        self._leading = False
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

    # Snapshots, as the core asks for them.

    def _snapshot_is_due(self) -> bool:
        if self._unsaved_bytes >= self._snapshot_bytes:
            return True
        interval_s = self._snapshot_interval_s
        return interval_s > 0 and time.monotonic() - self._snapshot_time >= interval_s

    def _serialize(self, path: str, extra: tuple[Any, ...]) -> None:
        last, prev = (Entry(*entry) for entry in extra[:2])
        self._snapshot_state = _pysyncobj().SERIALIZER_STATE.SERIALIZING
        self._unsaved_bytes = 0
        self._snapshot_time = time.monotonic()
        self._tell(partial(self._begin_snapshot, last, prev, self._end.position))

    def _check_snapshot(self) -> int:
        """The state; an end is reported once. The core's own renaming finds no file and gives up, which it does without a word."""
        states = _pysyncobj().SERIALIZER_STATE
        state = self._snapshot_state
        if state in (states.SUCCESS, states.FAILED):
            self._snapshot_state = states.NOT_SERIALIZING
        return state

    def _deserialize(self, path: str) -> tuple[Any, ...]:
        """Read at the start, when `_build` has read it before, and when the leader has sent one. The core swallows errors, hence `_failure`."""
        try:
            snapshot = SnapshotFile.read(path)
        except Exception as error:
            self._failure = error
            raise
        if snapshot.position.end_offset > self._end.next_offset:
            self._end.restore(snapshot.position)
            self._unsaved_bytes = 0
            self._tell(partial(self._listener.on_snapshot_received, snapshot.position, snapshot.content))
        return snapshot.last, snapshot.prev, set()


class _NoPickle:
    """Takes the place of pickle: whatever in the core still wants it is a path that we never meant to take."""

    @staticmethod
    def refuse(*_: object) -> None:
        raise RuntimeError("pickle is not used in the metadata quorum")

    dumps = loads = dump = load = to_bytes = refuse


@cache
def _pysyncobj() -> ModuleType:
    """A private, patched copy of pysyncobj.syncobj. Imported late: a broker's other modules come up meanwhile."""
    import pysyncobj.syncobj as original
    from pysyncobj.version import VERSION

    if VERSION != PINNED_VERSION:
        raise ImportError(
            f"pysyncobj {PINNED_VERSION} is needed, {VERSION} is installed: its private names may have moved"
        )
    specification = original.__spec__
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    module.__dict__.update(createJournal=lambda journal: journal, pickle=_NoPickle)
    return module


@cache
def _voter_class() -> type:
    class Voter(_pysyncobj().SyncObj):  # type: ignore[misc]
        """The core with our own apply."""

        def __init__(self, apply: Callable[[bytes], None], *arguments: Any, **keywords: Any) -> None:
            self._apply_entry = apply
            super().__init__(*arguments, **keywords)

        def _SyncObj__doApplyCommand(self, command: bytes) -> None:
            self._apply_entry(command)

    return Voter


@cache
def _journal_seam() -> type:
    from pysyncobj.journal import Journal as JournalInterface

    class JournalSeam(JournalInterface):
        """Our journal under the names that the core calls."""

        def __init__(self, journal: Journal) -> None:
            self.journal = journal
            self.add = journal.append
            self.clear = journal.clear
            self.setRaftCommitIndex = journal.set_commit_index
            self.setCurrentTerm = journal.set_term_and_vote
            self.onOneSecondTimer = journal.note_state
            self._destroy = journal.close

        def deleteEntriesFrom(self, position: int) -> None:
            """Nothing: `append` replaces entries where the terms differ, see there."""

        def deleteEntriesTo(self, position: int) -> None:
            self.journal.trim_to(self.journal.entries[position].log_index)

        def __getitem__(self, item: Any) -> Any:
            return self.journal.entries[item]

        def __len__(self) -> int:
            return len(self.journal.entries)

        def getRaftCommitIndex(self) -> int:
            return self.journal.commit_index

        def getCurrentTerm(self) -> int:
            return self.journal.term

        def getVotedForNodeId(self) -> str | None:
            return self.journal.vote

    return JournalSeam


@cache
def voter_transport() -> type:
    """The base of every transport between voters; by itself the transport of a voter that is alone."""
    from pysyncobj.transport import Transport

    class VoterTransport(Transport):
        """What raft asks of messages and the core leaves out. A subclass implements `deliver` and calls `receive`."""

        VERBS = frozenset({"append_entries", "next_node_idx", "request_vote", "response_vote", "timeout_now"})

        def __init__(self, voter: Any, own_node: Any, other_nodes: Iterable[Any]) -> None:
            super().__init__(voter, own_node, other_nodes)
            self._voter = voter

        def deliver(self, node: Any, message: dict[str, Any]) -> bool:
            """Send; a voter that is alone has nobody to send to."""
            return False

        def send(self, node: Any, message: dict[str, Any]) -> bool:
            """A follower has on disk what it acknowledges, and says in which term it does so."""
            if message["type"] == "next_node_idx":
                self._voter._SyncObj__raftLog.journal.sync()
                message = {**message, "term": self._voter.raftCurrentTerm}
            return self.deliver(node, message)

        def receive(self, node: Any, message: dict[str, Any]) -> None:
            """Pass on what a voter may say: no forwarded commands, no acknowledgements of another term, and no commit beyond what was sent."""
            verb = message.get("type")
            if verb not in self.VERBS:
                return
            if verb == "next_node_idx" and message.get("term") != self._voter.raftCurrentTerm:
                return
            if verb == "append_entries" and message.get("prevLogIdx") is not None:
                entries = message.get("entries")
                last = entries[-1][1] if entries else message["prevLogIdx"]
                message = {**message, "commit_index": min(message["commit_index"], last)}
            self._onMessageReceived(node, message)

        def destroy(self) -> None:
            """Nothing is open."""

    return VoterTransport
