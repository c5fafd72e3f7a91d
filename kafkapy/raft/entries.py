"""The entries that the quorum orders, what each of them adds to the metadata log, and the file that stands in for entries long gone.

An entry of the raft log is one of (big-endian; the first byte differs from pysyncobj's own entries, which are 0 to 3)

    CLAIM    0x11  leader i32, claim 8 bytes, timestamp i64                     the leader of a new term opens its epoch
    BATCHES  0x12  then, to the end: epoch u32, base_offset u64, timestamp i64, count u32, count times (length u32, record)

Entries carry the offsets at which their records land, and `LogEnd.apply` refuses what doesn't fit the epoch or the end of the log. It is a
pure function of the entries before, so all voters refuse and accept the same ones.

The snapshot file is what pysyncobj calls the full dump: enough to go on without the entries before it.

    magic 8 bytes, crc u32 (CRC-32C of the rest), then
    last and prev, the last two entries covered, each: index u64, term u64, length u32, command
    end_offset u64, epoch u32, leader i32, timestamp i64                        where the metadata log stood
    content to the end                                                          the image there, as a KRaft checkpoint
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from typing import NamedTuple

from kafkapy.errors import StorageError
from kafkapy.log.filesystem import OsFilesystem, read_file, replace_file, storage_errors
from kafkapy.raft.journal import Entry
from kafkapy.raft.quorum import CommittedBatch, SnapshotPosition, Ticket
from kafkapy.wire.crc import crc32c

NO_OP = b"\x01"  # pysyncobj's own, with which a new leader commits what it found
CLAIM = 0x11
BATCHES = 0x12
SNAPSHOT_MAGIC = b"KPYSNAP1"
JOURNAL_NAME = "quorum.journal"
SNAPSHOT_NAME = "quorum.snapshot"
_CLAIM = struct.Struct(">Bi8sq")
_BATCH = struct.Struct(">IQqI")
_LENGTH = struct.Struct(">I")
_ENTRY = struct.Struct(">QQI")
_POSITION = struct.Struct(">QIiq")


class BadEntryError(Exception):
    """A committed entry that cannot be read: written by a newer version, or by a voter that lies."""


def encode_claim(leader_id: int, claim: bytes, timestamp_ms: int) -> bytes:
    """The first thing that a leader has committed; `claim` are 8 random bytes by which it knows its own."""
    return _CLAIM.pack(CLAIM, leader_id, claim, timestamp_ms)


def encode_batches(epoch: int, tickets: Iterable[Ticket]) -> bytes:
    """Several decisions in one entry, so that they share one fsync."""
    parts = [b"\x12"]
    for ticket in tickets:
        parts.append(_BATCH.pack(epoch, ticket.base_offset, ticket.timestamp_ms, len(ticket.records)))
        for record in ticket.records:
            parts += (_LENGTH.pack(len(record)), record)
    return b"".join(parts)


class LogEnd:
    """The end of the metadata log as the entries applied so far make it."""

    __slots__ = ("claim", "epoch", "leader_id", "next_offset", "timestamp_ms")

    def __init__(self) -> None:
        self.epoch = 0
        self.leader_id = -1
        self.next_offset = 0
        self.timestamp_ms = 0
        self.claim = b""

    @property
    def position(self) -> SnapshotPosition:
        """Where a snapshot taken now would stand."""
        return SnapshotPosition(self.next_offset, self.epoch, self.leader_id, self.timestamp_ms)

    def restore(self, position: SnapshotPosition) -> None:
        """Go on from a snapshot."""
        self.next_offset, self.epoch, self.leader_id, self.timestamp_ms = position
        self.claim = b""

    def apply(self, command: bytes) -> list[CommittedBatch]:
        """The batches that this entry adds. Those of another epoch than the current one are left out."""
        try:
            kind = command[0]
            if kind == CLAIM:
                return [self._apply_claim(command)]
            if kind == BATCHES:
                return self._apply_batches(command)
        except (struct.error, IndexError) as error:
            raise BadEntryError(f"an entry of {len(command)} bytes is cut short") from error
        if command == NO_OP:
            return []
        raise BadEntryError(f"an entry of kind {kind}: is this a newer version's journal?")

    def _apply_claim(self, command: bytes) -> CommittedBatch:
        _, self.leader_id, self.claim, self.timestamp_ms = _CLAIM.unpack(command)
        self.epoch += 1
        batch = CommittedBatch(self.next_offset, self.epoch, self.leader_id, self.timestamp_ms, ())
        self.next_offset = batch.next_offset
        return batch

    def _apply_batches(self, command: bytes) -> list[CommittedBatch]:
        batches = []
        position = 1
        while position < len(command):
            epoch, base_offset, timestamp_ms, count = _BATCH.unpack_from(command, position)
            position += _BATCH.size
            records = []
            for _ in range(count):
                (length,) = _LENGTH.unpack_from(command, position)
                position += _LENGTH.size
                records.append(command[position : position + length])
                position += length
            if position > len(command):
                raise IndexError
            if epoch == self.epoch and base_offset == self.next_offset and records:
                batches.append(CommittedBatch(base_offset, epoch, self.leader_id, timestamp_ms, tuple(records)))
                self.next_offset = base_offset + count
                self.timestamp_ms = timestamp_ms
        return batches


class SnapshotFile(NamedTuple):
    """A snapshot with the two raft entries at which the journal joins it."""

    last: Entry
    prev: Entry
    position: SnapshotPosition
    content: bytes

    @classmethod
    def at(cls, position: SnapshotPosition, content: bytes) -> SnapshotFile:
        """The snapshot with which a raft log begins that has no entries yet: two no-ops stand for all that was before. An empty log, which
        begins with entry 1 of term 0, has neither of them, so a voter that is added later is sent the snapshot."""
        return cls(Entry(NO_OP, 1001, 1), Entry(NO_OP, 1000, 1), position, content)

    def write(self, path: str) -> None:
        """Put it at `path`, whole and durable."""
        parts: list[bytes] = []
        for entry in (self.last, self.prev):
            parts += (_ENTRY.pack(entry.log_index, entry.term, len(entry.command)), entry.command)
        body = b"".join((*parts, _POSITION.pack(*self.position), self.content))
        # By way of a name of its own: the core renames `path`.tmp to `path` at a moment that it thinks right.
        fresh = path + ".new"
        filesystem = OsFilesystem()
        with storage_errors(path):
            replace_file(filesystem, fresh, SNAPSHOT_MAGIC + _LENGTH.pack(crc32c(body)) + body)
            filesystem.rename(fresh, path)
            filesystem.sync_folder(os.path.dirname(path) or ".")

    @classmethod
    def read(cls, path: str) -> SnapshotFile:
        """Read and check it."""
        with storage_errors(path):
            data = read_file(OsFilesystem(), path)
        start = len(SNAPSHOT_MAGIC) + _LENGTH.size
        if not data.startswith(SNAPSHOT_MAGIC) or len(data) < start:
            raise StorageError(path, "is not a quorum snapshot")
        if crc32c(data[start:]) != _LENGTH.unpack_from(data, len(SNAPSHOT_MAGIC))[0]:
            raise StorageError(path, "the quorum snapshot is damaged: its checksum does not match")
        entries = []
        for _ in range(2):
            index, term, length = _ENTRY.unpack_from(data, start)
            start += _ENTRY.size
            entries.append(Entry(data[start : start + length], index, term))
            start += length
        position = SnapshotPosition(*_POSITION.unpack_from(data, start))
        return cls(entries[0], entries[1], position, data[start + _POSITION.size :])
