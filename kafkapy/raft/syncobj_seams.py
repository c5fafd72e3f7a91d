"""Where our parts go into pysyncobj; the only module that knows its names.

pysyncobj elects and replicates; everything on which durability or safety hangs is ours and plugged in where it lets us:

    journal        `JournalSeam` around journal.py, in place of `createJournal`      fsync before anything is acknowledged, CRC, atomic trim
    snapshots      `SnapshotSeam`, in place of `Serializer`                          made elsewhere, checked and synced before they count
    apply          `_SyncObj__doApplyCommand` (private name)                         our entries, errors stop the voter
    messages       `VoterTransport` (public base class)                              sync before acks, and the rules below
    elections      `_SyncObj__raftElectionDeadline` and others (private names)       the core stands for election when voter_elections.py says so
    time, dice     the module's names `monotonicTime` and `random`                   a simulation brings its own
    pickle         the module's name `pickle`                                        replaced by one that refuses

The module is pinned to 0.3.17 and tests/raft/test_syncobj_seams.py fails when a seam moves. The patches are made on private copies of the module, so
another user of pysyncobj in this process keeps the original.

Where the core deviates from raft, and what is done about it here and in `VoterTransport`:

- It truncates its log at each message that overlaps it. `deleteEntriesFrom` does nothing; the journal replaces entries where the terms differ, never
  committed ones. Hence a follower may keep entries behind those that the leader has sent, and may commit only up to what was sent: the commit
  index of each message is capped there.
- Its acknowledgements have no term. Ours do, and those of another term are dropped. One that goes beyond the leader's own log is cut.
- What a follower lacks is sent to it with the next heartbeat. Here it is sent at once.
- A message of an old term is not answered, so its sender never learns: we tell it the term.
- A message that brings a piece of a snapshot carries the leader's commit index too, which says nothing about the follower's own entries: capped
  at what the follower has committed already.
- A snapshot that ends before what the follower has committed would take acknowledged entries away: it is not installed.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, lru_cache
from queue import Empty
from typing import TYPE_CHECKING, Any, Protocol

from kafkapy.log.filesystem import OsFilesystem, storage_errors
from kafkapy.raft.journal import Entry, Journal

PINNED_VERSION = "0.3.17"
FOLLOWER, CANDIDATE, LEADER = 0, 1, 2

# Entries of one message to a follower that lags: about this many bytes, and never less than one entry.
APPEND_BYTES = 1 << 20
# Above the largest entry, so that the core never cuts one into pickled pieces.
ENTRY_BYTES_MAX = 64 * 1024 * 1024
SNAPSHOT_PIECE_BYTES = 256 * 1024
# While more than this waits for a slow follower, no further piece of a snapshot is read.
BACKLOG_BYTES_MAX = 4 << 20


class Dice(Protocol):
    """The part of `random` that the core uses."""

    def random(self) -> float:
        """From 0 to 1."""


class _NoPickle:
    """Takes the place of pickle: whatever in the core still wants it is a path that we never meant to take."""

    @staticmethod
    def refuse(*_: object) -> None:
        raise RuntimeError("pickle is not used in the metadata quorum")

    dumps = loads = dump = load = to_bytes = refuse


class _CoreLog(logging.LoggerAdapter[logging.Logger]):
    """The core's log, but for one alarm: it says that applied entries are truncated at each message that overlaps its log, and with our journal
    nothing is."""

    def critical(self, msg: object, *args: Any, **kwargs: Any) -> None:
        self.debug(msg, *args, **kwargs)


@lru_cache(maxsize=2)
def load_core(clock: Callable[[], float], dice: Any) -> Any:
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
    module.__dict__.update(
        createJournal=lambda journal: journal,
        pickle=_NoPickle,
        monotonicTime=clock,
        PIPE_NOTIFIER_ENABLED=False,  # Commands come from the thread that ticks, which needs no pipe to be woken.
        logger=_CoreLog(logging.getLogger(__name__), {}),
        # The core makes one of these with six arguments; ours comes ready-made with the configuration.
        Serializer=lambda path, size, fork, snapshots, *_: snapshots,
    )
    if dice is not None:
        module.__dict__["random"] = dice
    return module


def make_voter(
    core: Any,
    *,
    node_id: int,
    other_voters: Iterable[int],
    apply: Callable[[bytes], None],
    transport: Callable[..., Any],
    journal: Journal,
    snapshots: Any,
    on_state_changed: Callable[[int, int], None],
    timing: dict[str, float],
) -> Any:
    """The core with all of ours around it. It does nothing until `doTick`."""
    others = tuple(other_voters)
    configuration = core.SyncObjConf(
        autoTick=False,
        appendEntriesUseBatch=not others,  # With one voter nothing is sent, and the core opens no pipe of its own.
        appendEntriesBatchSizeBytes=ENTRY_BYTES_MAX,
        journalFile=journal_seam()(journal),
        fullDumpFile=snapshots.path,
        useFork=False,
        serializer=snapshots,
        deserializer=snapshots,
        logCompactionMinEntries=1 << 62,  # It is asked for by name: `forceLogCompaction`.
        logCompactionMinTime=1e12,
        onStateChanged=on_state_changed,
        **timing,
    )
    node, voter = voter_class(core)
    return voter(
        apply,
        node(str(node_id)),
        [node(str(other)) for other in others],
        configuration,
        transportClass=transport,
    )


class VoterView:
    """What elections and transports look at in the core, and do to it."""

    # The core reads all of its attributes, properties too, before it has set this one.
    _SyncObj__newAppendEntriesTime = 0.0

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    @property
    def state(self) -> int:
        return self._SyncObj__raftState

    @property
    def leader(self) -> Any:
        return self._SyncObj__raftLeader

    @property
    def last_entry(self) -> Entry:
        return self._SyncObj__raftLog[-1]

    @property
    def journal(self) -> Journal:
        return self._SyncObj__raftLog.journal

    @property
    def election_deadline(self) -> float:
        return self._SyncObj__raftElectionDeadline

    @election_deadline.setter
    def election_deadline(self, deadline: float) -> None:
        self._SyncObj__raftElectionDeadline = deadline

    @property
    def next_heartbeat(self) -> float:
        return self._SyncObj__newAppendEntriesTime

    def send_soon(self) -> None:
        """A follower lacks something: the core would leave that until the next heartbeat."""
        self._SyncObj__newAppendEntriesTime = 0.0

    def forget_match(self, node: Any) -> None:
        """What a voter had acknowledged was on a disk that is lost."""
        self._SyncObj__raftMatchIndex[node] = 0

    def adopt_term(self, term: int) -> None:
        """Another voter is in a later term: go there, without a vote given."""
        self._SyncObj__setCurrentTerm(term, None)
        self.step_back()

    def step_back(self) -> None:
        """Lead no longer, stand no longer."""
        self._SyncObj__raftLeader = None
        self._SyncObj__setState(FOLLOWER)

    def forget_commands(self) -> None:
        """What was handed over and not yet put into the log is not for the next leader, nor for another term of ours."""
        with suppress(Empty):
            while True:
                self._SyncObj__commandsQueue.get_nowait()

    def forget_transmission(self, node: Any) -> None:
        """Pieces of a snapshot may have been lost with a link, so the next ones begin anew."""
        self._SyncObj__serializer.cancelTransmisstion(node)

    def ignore_response_time(self, node: Any) -> None:
        """An acknowledgement that doesn't count for having a quorum."""
        self._SyncObj__lastResponseTime[node] = float("-inf")


@lru_cache(maxsize=2)
def voter_class(core: Any) -> tuple[type, type]:
    """The core's classes of a node and of a voter, with our own apply and message sizes."""

    class NumberedNode(core.Node):
        """A node whose place in a set doesn't depend on the process's hash seed, so that simulations can be repeated."""

        def __hash__(self) -> int:
            return int(self.id)

    class Voter(VoterView, core.SyncObj):
        """One voter, in the core's eyes."""

        def __init__(self, apply: Callable[[bytes], None], *arguments: Any, **keywords: Any) -> None:
            self._apply_entry = apply
            super().__init__(*arguments, **keywords)

        def _SyncObj__doApplyCommand(self, command: bytes) -> None:
            self._apply_entry(command)

        def _SyncObj__getEntries(
            self, start: int | None, count: int | None = None, max_bytes: int | None = None
        ) -> Any:
            limit = None if max_bytes is None else APPEND_BYTES
            return super()._SyncObj__getEntries(start, count, limit)

    return NumberedNode, Voter


@cache
def journal_seam() -> type:
    """The class that gives the core our journal."""
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


class SnapshotSeam:
    """Snapshots under the names that the core calls on its own `Serializer`, which this replaces.

    One is made on request (`begin`), elsewhere; whoever makes it says `finished`. One that the leader sends comes in pieces into a file of its own,
    and takes the place of ours when it is whole, checked, synced and goes further than what this voter has committed.
    """

    NOT_SERIALIZING, SERIALIZING, SUCCESS = 0, 1, 2

    def __init__(
        self,
        path: str,
        begin: Callable[[Entry, Entry], None],
        read: Callable[[str], tuple[Entry, Entry]],
        install: Callable[[str], bool],
        backlog_bytes: Callable[[Any], int],
    ) -> None:
        """`read` opens the snapshot at a path for the core; `install` says whether a received one is to be taken, and may raise."""
        self.path = path
        self.state = self.NOT_SERIALIZING
        self._begin = begin
        self._read = read
        self._install = install
        self._backlog_bytes = backlog_bytes
        self._last_index: int | None = None
        self._outgoing: dict[Any, tuple[int, int]] = {}
        self._incoming: int | None = None

    def finished(self, success: bool) -> None:
        """Called by whoever makes the snapshot, from its thread. A failure has been logged there, and the core need not do it again."""
        self.state = self.SUCCESS if success else self.NOT_SERIALIZING

    # The core's names.

    def serialize(self, data: tuple[Any, ...], last_index: int) -> None:
        """Have one made that covers everything up to two entries, of which the log is to keep both."""
        _, last, prev, _ = data
        self.state = self.SERIALIZING
        self._last_index = last_index
        self._begin(Entry(*last), Entry(*prev))

    def checkSerializing(self) -> tuple[int, int | None]:
        """The state; success is reported once."""
        state = self.state
        if state == self.SUCCESS:
            self.state = self.NOT_SERIALIZING
        return state, self._last_index

    def deserialize(self) -> tuple[Any, ...]:
        """The two entries at which the journal joins the snapshot, which has been told to whoever replays it."""
        last, prev = self._read(self.path)
        return None, last, prev, set()

    def getTransmissionData(self, node: Any) -> tuple[bytes, bool, bool] | None:
        """The next piece for a follower; None while it has not taken those before. An empty piece is the last."""
        if self._backlog_bytes(node) > BACKLOG_BYTES_MAX:
            return None
        descriptor, position = self._outgoing.get(node, (-1, 0))
        with storage_errors(self.path):
            if descriptor < 0:
                descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            piece = os.pread(descriptor, SNAPSHOT_PIECE_BYTES, position)
        self._outgoing[node] = (descriptor, position + len(piece))
        if not piece:
            self.cancelTransmisstion(node)
        return piece, position == 0, not piece

    def cancelTransmisstion(self, node: Any) -> None:
        """Begin anew the next time."""
        descriptor, _ = self._outgoing.pop(node, (-1, 0))
        if descriptor >= 0:
            os.close(descriptor)

    def setTransmissionData(self, data: tuple[bytes, bool, bool] | None) -> bool:
        """Take a piece. True once a snapshot has taken the place of ours."""
        if data is None:
            return False
        piece, is_first, is_last = data
        received = self.path + ".received"
        with storage_errors(received):
            if is_first:
                self._drop_incoming()
                flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
                self._incoming = os.open(received, flags, 0o644)
            if self._incoming is None:
                return False  # Its beginning has been lost with a link.
            view = memoryview(piece)
            while view:
                view = view[os.write(self._incoming, view) :]
            if not is_last:
                return False
            os.fsync(self._incoming)
            self._drop_incoming()
            if not self._install(received):
                os.unlink(received)
                return False
            filesystem = OsFilesystem()
            filesystem.rename(received, self.path)
            filesystem.sync_folder(os.path.dirname(self.path) or ".")
        return True

    def close(self) -> None:
        """Let go of all files."""
        self._drop_incoming()
        for node in tuple(self._outgoing):
            self.cancelTransmisstion(node)

    def _drop_incoming(self) -> None:
        if self._incoming is not None:
            os.close(self._incoming)
            self._incoming = None


@cache
def transport_class() -> type:
    """The class through which the core sends and receives."""
    from pysyncobj.transport import Transport

    class VoterTransport(Transport):
        """What raft asks of messages and the core leaves out; what remains goes to `deliver`."""

        VERBS = frozenset({"append_entries", "next_node_idx", "request_vote", "response_vote", "timeout_now"})

        def __init__(self, voter: Any, own_node: Any, other_nodes: Iterable[Any]) -> None:
            super().__init__(voter, own_node, other_nodes)
            self._voter = voter
            self.nodes = {int(node.id): node for node in other_nodes}
            # Set by the quorum before anything is sent. `learners` are voters whose word doesn't count yet.
            self.deliver: Callable[[int, dict[str, Any]], None] = lambda node_id, message: None
            self.learners: set[int] = set()

        def send(self, node: Any, message: dict[str, Any]) -> bool:
            """A follower has on disk what it acknowledges, and says in which term it does so."""
            if message["type"] == "next_node_idx":
                self._voter.journal.sync()
                message = {**message, "term": self._voter.raftCurrentTerm}
            self.deliver(int(node.id), message)
            return True

        def connected(self, node_id: int) -> None:
            """A link is up."""
            self._onNodeConnected(self.nodes[node_id])

        def disconnected(self, node_id: int) -> None:
            """It is down, and what was on its way is lost."""
            node = self.nodes[node_id]
            self._onNodeDisconnected(node)
            self._voter.forget_transmission(node)

        def receive(self, node_id: int, message: dict[str, Any]) -> None:
            """Pass on what a voter may say, in the way the core should understand it."""
            verb = message["type"]
            if verb not in self.VERBS:
                return
            voter, node = self._voter, self.nodes[node_id]
            term = voter.raftCurrentTerm
            if verb == "append_entries":
                if message["term"] < term:
                    self.deliver(node_id, {"type": "pre_vote_answer", "term": term, "granted": False})
                    return
                message = _capped(message, voter.raftCommitIndex)
            elif verb == "next_node_idx":
                if message["term"] != term:
                    return
                message = _counted(message, voter.last_entry.log_index + 1, node_id in self.learners)
            elif node_id in self.learners:
                return
            self._onMessageReceived(node, message)
            if verb == "next_node_idx":
                if node_id in self.learners:
                    voter.ignore_response_time(node)
                if message["reset"] and message["next_node_idx"] <= voter.last_entry.log_index:
                    voter.send_soon()

    return VoterTransport


def _capped(message: dict[str, Any], committed: int) -> dict[str, Any]:
    """Commit no further than what the message itself vouches for, which is nothing where it brings a piece of a snapshot."""
    entries = message.get("entries")
    if entries:
        known = entries[-1][1]
    elif message.get("prevLogIdx") is not None:
        known = message["prevLogIdx"]
    else:
        known = committed
    return {**message, "commit_index": min(message["commit_index"], known)}


def _counted(message: dict[str, Any], end: int, is_learner: bool) -> dict[str, Any]:
    """An acknowledgement as far as our own log goes. A learner's moves what is sent to it next, and no commit."""
    next_index = min(message["next_node_idx"], end)
    if is_learner and message["success"]:
        return {**message, "next_node_idx": next_index, "success": False, "reset": True}
    return {**message, "next_node_idx": next_index}
