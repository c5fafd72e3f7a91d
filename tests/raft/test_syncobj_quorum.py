"""A quorum of one on disk: ordered, durable, shared syncs, snapshots, and no silent end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkapy.errors import StorageError
from kafkapy.raft.entries import SnapshotFile
from kafkapy.raft.journal import Journal
from kafkapy.raft.quorum import CommittedBatch, Outcome, SnapshotPosition, Ticket
from kafkapy.raft.syncobj_quorum import SyncObjQuorum
from tests.raft.support import QueueLoop


class Listener:
    """Keeps what the quorum tells."""

    def __init__(self) -> None:
        self.batches: list[CommittedBatch] = []
        self.tickets: list[Ticket] = []
        self.epoch: int | None = None
        self.failure: BaseException | None = None
        self.snapshots: list[SnapshotPosition] = []
        self.content: Callable[[], bytes] = lambda: b"image"

    @property
    def next_offset(self) -> int:
        return self.batches[-1].next_offset

    def on_committed(self, batch: CommittedBatch) -> None:
        self.batches.append(batch)

    def on_ticket(self, ticket: Ticket) -> None:
        self.tickets.append(ticket)

    def on_elected(self, epoch: int) -> None:
        self.epoch = epoch

    def on_resigned(self) -> None:
        self.epoch = None

    def on_snapshot_due(self, position: SnapshotPosition) -> Callable[[], bytes]:
        self.snapshots.append(position)
        assert not self.batches or position.end_offset == self.next_offset
        return self.content

    def on_snapshot_received(self, position: SnapshotPosition, content: bytes) -> None:
        raise AssertionError("a single voter is sent nothing")

    def on_failure(self, error: BaseException) -> None:
        self.failure = error


class Running:
    """A quorum that has been elected."""

    def __init__(self, folder: Path, **options: object) -> None:
        self.loop = QueueLoop()
        self.listener = Listener()
        self.quorum = SyncObjQuorum(str(folder), 1, **options)  # type: ignore[arg-type]
        self.quorum.start(self.listener, self.loop.run_on_loop)
        self.loop.run_until(lambda: self.listener.epoch or self.listener.failure)

    def propose(self, *records: bytes, offset: int | None = None) -> Ticket:
        assert self.listener.epoch is not None
        base = self.listener.next_offset if offset is None else offset
        ticket = Ticket(records, self.listener.epoch, base, 5)
        self.quorum.propose(ticket)
        return ticket

    def commit(self, *records: bytes) -> Ticket:
        ticket = self.propose(*records)
        self.loop.run_until(lambda: ticket in self.listener.tickets or self.listener.failure)
        return ticket


def test_committed_batches_come_in_order_and_again_after_a_restart(tmp_path: Path) -> None:
    """What was acknowledged is told anew, at the same offsets, before the new epoch begins."""
    first = Running(tmp_path)
    for number in range(5):
        assert first.commit(b"a%d" % number, b"b%d" % number).outcome is Outcome.COMMITTED
    first.quorum.stop()
    second = Running(tmp_path)
    told = first.listener.batches
    assert second.listener.batches[: len(told)] == told
    assert second.listener.epoch == 2
    assert second.listener.batches[-1].is_leader_change
    assert [batch.base_offset for batch in told] == [0, 1, 3, 5, 7, 9]
    second.quorum.stop()


def test_many_proposals_share_a_sync(tmp_path: Path) -> None:
    """A thousand decisions at once cost a handful of syncs."""
    running = Running(tmp_path)
    syncs = running.quorum._journal.syncs
    start = running.listener.next_offset
    tickets = [running.propose(b"r", offset=start + number) for number in range(1000)]
    running.loop.run_until(lambda: len(running.listener.tickets) == 1000)
    assert running.listener.tickets == tickets
    assert all(ticket.outcome is Outcome.COMMITTED for ticket in tickets)
    assert running.quorum._journal.syncs - syncs < 20
    running.quorum.stop()


def test_a_ticket_of_an_epoch_that_is_over_is_turned_away(tmp_path: Path) -> None:
    """It was decided on an image that may have been dropped."""
    running = Running(tmp_path)
    ticket = Ticket((b"late",), 7, running.listener.next_offset, 0)
    running.quorum.propose(ticket)
    running.loop.run_until(lambda: running.listener.tickets)
    assert ticket.outcome is Outcome.NOT_CONTROLLER
    running.quorum.stop()


def test_stopping_settles_what_is_open(tmp_path: Path) -> None:
    """Nobody waits for ever for a quorum that has gone."""
    running = Running(tmp_path)
    running.quorum._stopping = True
    ticket = running.propose(b"r")
    running.quorum.stop()
    running.loop.run_until(lambda: running.listener.tickets)
    assert ticket.outcome in (Outcome.NOT_CONTROLLER, Outcome.COMMITTED)


def test_a_snapshot_takes_the_place_of_the_entries(tmp_path: Path) -> None:
    """It is asked for at exactly the end of what has been told; the journal shrinks and the next start begins behind it."""
    running = Running(tmp_path, snapshot_bytes=2000)
    for _ in range(30):
        running.commit(b"x" * 100)
    running.loop.run_until(lambda: running.listener.snapshots)
    position = running.listener.snapshots[0]
    while running.quorum._journal.entries[0].log_index < 10:
        running.commit(b"y")
    running.quorum.stop()
    assert SnapshotFile.read(str(tmp_path / "quorum.snapshot")).content == b"image"
    last = running.listener.next_offset

    again = Running(tmp_path, snapshot_bytes=1 << 30)
    assert again.listener.batches[0].base_offset >= position.end_offset
    assert again.listener.next_offset == last + 1
    assert again.commit(b"z").outcome is Outcome.COMMITTED
    again.quorum.stop()


def test_a_crash_after_the_snapshot_and_before_the_trim_loses_nothing(tmp_path: Path) -> None:
    """The window in which pysyncobj's own files forget everything: the snapshot is there and the journal still whole."""
    running = Running(tmp_path, snapshot_bytes=2000)
    for _ in range(40):
        running.commit(b"x" * 100)
    journal = (tmp_path / "quorum.journal").read_bytes()
    running.loop.run_until(lambda: running.listener.snapshots)
    running.quorum.stop()
    end = running.listener.next_offset
    assert (tmp_path / "quorum.snapshot").exists()
    (tmp_path / "quorum.journal").write_bytes(journal)
    again = Running(tmp_path)
    assert again.listener.next_offset == end + 1
    again.quorum.stop()


def test_a_snapshot_that_fails_leaves_the_journal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is said, and everything goes on."""
    running = Running(tmp_path, snapshot_bytes=500)

    def fail() -> bytes:
        raise StorageError("disk", "is full")

    running.listener.content = fail
    while not running.listener.snapshots:
        running.commit(b"x" * 100)
    running.loop.run_until(lambda: "cannot write a snapshot" in caplog.text or running.commit(b"y"))
    assert running.commit(b"z").outcome is Outcome.COMMITTED
    running.quorum.stop()
    assert not (tmp_path / "quorum.snapshot").exists()


@pytest.mark.parametrize("name", ["quorum.journal", "quorum.snapshot"])
def test_a_damaged_file_stops_the_voter_with_its_name(tmp_path: Path, name: str) -> None:
    """Never empty and silent: the listener is told, and the error names the file."""
    running = Running(tmp_path, snapshot_bytes=1000)
    for _ in range(30):
        running.commit(b"x" * 100)
    running.quorum.stop()
    running.loop.run_until(lambda: running.listener.epoch is None)
    path = tmp_path / name
    damaged = bytearray(path.read_bytes())
    damaged[20] ^= 0xFF
    path.write_bytes(damaged)
    again = Running(tmp_path)
    assert isinstance(again.listener.failure, StorageError)
    assert name in str(again.listener.failure)
    again.quorum.stop()


def test_an_entry_that_cannot_be_read_stops_the_voter(tmp_path: Path) -> None:
    """A journal of a newer version is not half understood."""
    running = Running(tmp_path)
    journal = running.quorum._journal
    running.quorum.stop()
    again = Journal(journal.path)
    again.append(b"\x77newer", again.entries[-1].log_index + 1, again.term)
    again.set_commit_index(again.entries[-1].log_index)
    again.close()
    failed = Running(tmp_path)
    assert "kind 119" in str(failed.listener.failure)
    failed.quorum.stop()


def test_a_full_disk_stops_the_voter(tmp_path: Path) -> None:
    """Nothing is acknowledged that could not be written, and the error says what is wrong."""
    running = Running(tmp_path)
    running.quorum._journal._descriptor = os.open("/dev/full", os.O_WRONLY)
    ticket = running.commit(b"r")
    running.loop.run_until(lambda: ticket.outcome is not Outcome.PENDING)
    assert ticket.outcome is Outcome.UNKNOWN
    assert "the disk is full" in str(running.listener.failure)
    running.quorum.stop()
    assert Running(tmp_path).listener.failure is None
