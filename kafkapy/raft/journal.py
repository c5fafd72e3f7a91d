"""The quorum's journal: raft entries, term and vote in one append-only file that is on disk before anything is acknowledged.

The file is a magic of 8 bytes, then records, each of them

    length   u32   bytes of kind and body together, never 0, so that unwritten zeros are no record
    crc      u32   CRC-32C over durable, kind and body
    durable  u64   how much of this file was known to be on disk when the record was written
    kind     u8    E, T or S
    body

    E  index u64, term u64, command         an entry of the raft log
    T  index u64                            entries from this index on are dropped: another leader's entries replace them
    S  term u64, commit u64, vote           the voter's state; the vote is UTF-8, or absent where nobody has been voted for

All numbers are big-endian. The last S counts, whatever came before it.

What a crash may do, and what opening the file makes of it. Bytes behind the last fsync may be missing, half written or garbled: none of
them has been acknowledged, so the file is cut at the first bad record. Damage before the last fsync is another thing: a disk lost what
it had promised. `durable` tells the two apart: where a whole record stands behind the damage and says that the damaged bytes had been on
disk, opening refuses with the file and the position, because to go on would be to forget acknowledged changes without a word. Damage in the
very last synced bytes looks like a torn tail from here; the metadata log holds the same changes, and its loader refuses a journal that
ends before it.

A rewrite (after a snapshot) goes to a new file that is synced and renamed over the old one: there is always one whole journal.
"""

from __future__ import annotations

import logging
import os
import struct
from typing import NamedTuple

from kafkapy.errors import StorageError
from kafkapy.log.filesystem import OsFilesystem, read_file, replace_file, storage_errors, write_fully
from kafkapy.wire.crc import crc32c

log = logging.getLogger(__name__)

MAGIC = b"KPYRAFT1"
_FS = OsFilesystem()
_HEADER = struct.Struct(">IIQ")
_ENTRY = struct.Struct(">cQQ")
_TRUNCATE = struct.Struct(">cQ")
_STATE = struct.Struct(">cQQ?")


class Entry(NamedTuple):
    """One entry of the raft log; the order of the fields is the one that pysyncobj expects of a journal."""

    command: bytes
    log_index: int
    term: int


class Journal:
    """The entries in memory, the file behind them, and the point up to which it is known to be on disk."""

    def __init__(self, path: str, keep_from: int = 0) -> None:
        """Open or create the journal; entries before index `keep_from` are covered by a snapshot and may be dropped.

        A crash between the writing of a snapshot and the trimming of the journal leaves those entries behind, so they are dropped here.
        """
        self.path = path
        self.entries: list[Entry] = []
        self.term = 0
        self.vote: str | None = None
        self.commit_index = 1
        self.syncs = 0
        self.size = 0
        self._durable = 0
        self._state_is_stale = False
        self._descriptor = -1
        if os.path.exists(path):
            self._load()
            if self.entries and self.entries[0].log_index < keep_from <= self.entries[-1].log_index:
                self.trim_to(keep_from)
        else:
            self._rewrite()

    # What a voter does.

    def append(self, command: bytes, index: int, term: int) -> None:
        """Add an entry, or keep the one that is there: entries are replaced only where the term differs.

        A leader sends the same entries again as a matter of course. To cut them and write them anew, as the core asks for, would make acknowledged
        entries vanish for a moment, and a crash in that moment would lose them.
        """
        if self.entries:
            position = index - self.entries[0].log_index
            if not 0 <= position <= len(self.entries):
                raise ValueError(f"entry {index} does not follow {self.entries[-1].log_index}")
            if position < len(self.entries):
                if self.entries[position].term == term:
                    return
                if index <= self.commit_index:
                    raise ValueError(
                        f"entry {index} of term {term} contradicts a committed one of {self.entries[position].term}"
                    )
                del self.entries[position:]
                self._write(_TRUNCATE.pack(b"T", index))
        self.entries.append(Entry(command, index, term))
        self._write(_ENTRY.pack(b"E", index, term) + command)

    def sync(self) -> None:
        """Have everything written so far on disk. One call serves all the entries written since the last one."""
        if self._durable < self.size:
            with storage_errors(self.path):
                os.fdatasync(self._descriptor)
            self._durable = self.size
            self.syncs += 1

    def set_term_and_vote(self, term: int, vote: str | None) -> None:
        """Durable at once: a vote that is forgotten can be given twice, and then one term has two leaders."""
        self.term, self.vote = term, vote
        self._write(self._state())
        self.sync()

    def set_commit_index(self, index: int) -> None:
        """Remember how far the log is committed, and sync: a leader counts its own copy, so it must be on disk before it is applied.

        The index itself is only a hint that saves work after a restart, hence it is written by `note_state` and not each time.
        """
        if index != self.commit_index:
            self.commit_index = index
            self._state_is_stale = True
        self.sync()

    def note_state(self) -> None:
        """Write the commit index if it has moved; asked for once a second and at the end."""
        if self._state_is_stale:
            self._write(self._state())

    # What a snapshot does.

    def trim_to(self, index: int) -> None:
        """Drop the entries before `index`: a snapshot covers them."""
        self.entries = self.entries[index - self.entries[0].log_index :]
        self._rewrite()

    def clear(self) -> None:
        """Drop all entries, because a snapshot from another voter takes their place."""
        self.entries = []
        self._rewrite()

    def close(self) -> None:
        """Write the commit index, sync and close."""
        if self._descriptor >= 0:
            self.note_state()
            self.sync()
            os.close(self._descriptor)
            self._descriptor = -1

    # The file.

    def _state(self) -> bytes:
        self._state_is_stale = False
        vote = self.vote
        return _STATE.pack(b"S", self.term, self.commit_index, vote is not None) + (vote or "").encode()

    def _write(self, body: bytes) -> None:
        """Append or raise: after a short write, which is what a full disk makes, nothing may follow, or it would be thought damaged."""
        record = _frame(body, self._durable)
        with storage_errors(self.path):
            write_fully(_FS, self._descriptor, record, self.size)
        self.size += len(record)

    def _rewrite(self) -> None:
        """A new file is seen only when all of it is on disk, so each of its records vouches for those before; the state stands at the
        end once more, to vouch for the last entry."""
        state = self._state()
        entries = [_ENTRY.pack(b"E", entry.log_index, entry.term) + entry.command for entry in self.entries]
        content = bytearray(MAGIC)
        for body in (state, *entries, state):
            content += _frame(body, len(content))
        with storage_errors(self.path):
            replace_file(_FS, self.path, bytes(content))
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._descriptor = _FS.open_existing(self.path)
        self.size = self._durable = len(content)

    def _load(self) -> None:
        with storage_errors(self.path):
            content = read_file(_FS, self.path)
        if not content.startswith(MAGIC):
            raise StorageError(self.path, "is not a quorum journal: it does not begin with its magic")
        position = len(MAGIC)
        while (body := read_record(content, position)) is not None:
            self._replay(body, position)
            position += _HEADER.size + len(body)
        if position < len(content):
            refuse_lost_promise(self.path, content, position)
            log.warning("%s: dropped %d unsynced bytes at %d", self.path, len(content) - position, position)
        with storage_errors(self.path):
            self._descriptor = _FS.open_existing(self.path)
            os.ftruncate(self._descriptor, position)
            os.fsync(self._descriptor)
        self.size = self._durable = position
        if self.entries:
            self.commit_index = min(self.commit_index, self.entries[-1].log_index)

    def _replay(self, body: bytes, position: int) -> None:
        kind = body[:1]
        if kind == b"E":
            _, index, term = _ENTRY.unpack_from(body)
            if self.entries and index != self.entries[-1].log_index + 1:
                raise StorageError(
                    self.path, f"entry {index} at byte {position} does not follow {self.entries[-1].log_index}"
                )
            self.entries.append(Entry(body[_ENTRY.size :], index, term))
        elif kind == b"T":
            _, index = _TRUNCATE.unpack(body)
            del self.entries[max(0, index - self.entries[0].log_index) :]
        elif kind == b"S":
            _, self.term, self.commit_index, voted = _STATE.unpack_from(body)
            self.vote = body[_STATE.size :].decode() if voted else None
        else:
            raise StorageError(
                self.path, f"record of unknown kind {kind!r} at byte {position}: written by a newer version?"
            )


def read_record(content: bytes, position: int) -> bytes | None:
    """The kind and body of the whole and undamaged record at `position`, or None."""
    start = position + _HEADER.size
    if start > len(content):
        return None
    length, crc, durable = _HEADER.unpack_from(content, position)
    if not 0 < length <= len(content) - start or durable > position:
        return None
    if crc32c(content[start - 8 : start + length]) != crc:
        return None
    return content[start : start + length]


def refuse_lost_promise(path: str, content: bytes, damaged: int) -> None:
    """Raise if a record behind the damage says that the damaged bytes had been on disk."""
    for position in range(damaged + 1, len(content) - _HEADER.size):
        if read_record(content, position) is not None:
            durable = _HEADER.unpack_from(content, position)[2]
            if durable > damaged:
                raise StorageError(
                    path,
                    f"damaged at byte {damaged}, before byte {durable} that had been synced: acknowledged changes are in there. "
                    "Restore the file or the disk; to give the lost changes up, move the file away.",
                )


def _frame(body: bytes, durable: int) -> bytes:
    checked = durable.to_bytes(8, "big") + body
    return len(body).to_bytes(4, "big") + crc32c(checked).to_bytes(4, "big") + checked
