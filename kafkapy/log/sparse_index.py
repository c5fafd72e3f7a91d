"""The two sparse indexes of a segment: from offset to file position, and from time to offset.

Both are arrays of fixed entries in rising order, big-endian, one entry about every `index.interval.bytes` of log:

    00000000000000000000.index       00000000000000000000.timeindex
    int32 offset - base offset       int64 timestamp
    int32 position of the batch      int32 offset - base offset

An offset entry names the *last* offset of the batch that begins at the position. A time entry says: of all batches up to here the
largest timestamp is this, first reached in the batch whose last offset is that.

The index of an active segment lives in memory and is written at roll, flush and clean stop. Nothing depends on it: after a crash
it is rebuilt from the log, and an entry that does not fit the log is found out when it is used. The index of a closed segment stays
on disk and is searched there: about twenty small reads for a gigabyte of log, and no memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Any

from kafkapy.log.filesystem import Filesystem, read_file, write_fully

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
RELATIVE_OFFSET_MAX = 2**31 - 1
NO_TIMESTAMP = -1


class CorruptIndexError(Exception):
    """The index file is missing or does not fit its log: rebuild it from the log."""


class SparseIndex:
    """What both indexes have in common: a sorted array of entries, in memory while it grows and on disk afterwards."""

    __slots__ = ("_saved_bytes", "base_offset", "entries", "fs", "path")
    entry: Struct

    def __init__(self, fs: Filesystem, path: str, base_offset: int, entries: bytearray | None) -> None:
        self.fs = fs
        self.path = path
        self.base_offset = base_offset
        self.entries = entries  # None: on disk
        self._saved_bytes = 0

    def load(self) -> None:
        """Bring the entries into memory, where they can grow again."""
        if self.entries is not None:
            return
        try:
            self.entries = bytearray(read_file(self.fs, self.path))
        except FileNotFoundError as error:
            raise CorruptIndexError(f"{self.path} is missing") from error
        self._saved_bytes = len(self.entries)
        if len(self.entries) % self.entry.size:
            raise CorruptIndexError(f"{self.path} has {len(self.entries)} bytes, no multiple of {self.entry.size}")

    def save(self) -> None:
        """Write what is not on disk yet. The file exists afterwards, even when there are no entries, as Kafka expects."""
        if self.entries is None:
            return
        fd = self.fs.open(self.path)
        try:
            if self.fs.size(fd) != self._saved_bytes:
                self.fs.truncate(fd, self._saved_bytes)
            if len(self.entries) > self._saved_bytes:
                with memoryview(self.entries) as view:
                    write_fully(self.fs, fd, view[self._saved_bytes :], self._saved_bytes)
        finally:
            self.fs.close(fd)
        self._saved_bytes = len(self.entries)

    def unload(self) -> None:
        """Save, and leave the entries to the disk: the segment is closed."""
        self.save()
        self.entries = None

    def reset(self) -> None:
        """Forget all entries, in memory and (with the next save) on disk."""
        self.entries = bytearray()
        self._saved_bytes = 0

    def count(self) -> int:
        """The number of entries; those in memory only when it is loaded."""
        assert self.entries is not None, "count is for a loaded index"
        return len(self.entries) // self.entry.size

    def last(self) -> tuple[int, int] | None:
        """The last entry as it is stored, or None."""
        return self._search(lambda count, read: count - 1)

    def floor(self, field: int, target: int) -> tuple[int, int] | None:
        """The last entry whose field is at most `target`, as it is stored, or None."""

        def last_at_most(count: int, read: Callable[[int], tuple[Any, ...]]) -> int:
            return bisect_right(range(count), target, key=lambda slot: read(slot)[field]) - 1

        return self._search(last_at_most)

    def _search(self, choose: Callable[[int, Callable[[int], tuple[Any, ...]]], int]) -> tuple[int, int] | None:
        """Let `choose` pick a slot, given the count and a way to read one."""
        size = self.entry.size
        if self.entries is not None:
            entries, unpack_from = self.entries, self.entry.unpack_from
            slot = choose(len(entries) // size, lambda index: unpack_from(entries, index * size))
            return None if slot < 0 else unpack_from(entries, slot * size)
        fs, unpack = self.fs, self.entry.unpack
        try:
            fd = fs.open_existing(self.path)
        except FileNotFoundError as error:
            raise CorruptIndexError(f"{self.path} is missing") from error
        try:
            slot = choose(fs.size(fd) // size, lambda index: unpack(fs.pread(fd, size, index * size)))
            return None if slot < 0 else unpack(fs.pread(fd, size, slot * size))
        except StructError as error:
            raise CorruptIndexError(f"{self.path} became shorter while it was read") from error
        finally:
            fs.close(fd)

    def _truncate_to_slot(self, count: int) -> None:
        """Keep the first `count` entries; the file follows with the next save."""
        assert self.entries is not None, "truncate a loaded index"
        del self.entries[count * self.entry.size :]
        self._saved_bytes = min(self._saved_bytes, len(self.entries))


class OffsetIndex(SparseIndex):
    """From an offset to the position of a batch at or before it."""

    __slots__ = ()
    entry = _OFFSET_ENTRY

    def append(self, offset: int, position: int) -> None:
        """Note that the batch ending with `offset` begins at `position`."""
        assert self.entries is not None
        self.entries += _OFFSET_ENTRY.pack(offset - self.base_offset, position)

    def lookup(self, offset: int) -> tuple[int, int]:
        """(last offset, position) of an indexed batch that ends at or before `offset`; else (base offset, 0)."""
        found = self.floor(0, offset - self.base_offset)
        return (self.base_offset, 0) if found is None else (found[0] + self.base_offset, found[1])

    def lookup_position(self, position: int) -> tuple[int, int]:
        """(last offset, position) of the last indexed batch that begins at or before `position`; else (base offset, 0)."""
        found = self.floor(1, position)
        return (self.base_offset, 0) if found is None else (found[0] + self.base_offset, found[1])

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of batches that end at `offset` or later."""
        assert self.entries is not None
        entries, target = self.entries, offset - self.base_offset
        count = len(entries) // 8
        self._truncate_to_slot(
            bisect_right(range(count), target - 1, key=lambda slot: _OFFSET_ENTRY.unpack_from(entries, slot * 8)[0])
        )


class TimeIndex(SparseIndex):
    """From a timestamp to an offset before which no record is as late."""

    __slots__ = ()
    entry = _TIME_ENTRY

    def append(self, timestamp: int, offset: int) -> None:
        """Note that the largest timestamp so far stands in the batch ending with `offset`; older times are not noted."""
        assert self.entries is not None
        last = self.last()
        if timestamp > (NO_TIMESTAMP if last is None else last[0]):
            self.entries += _TIME_ENTRY.pack(timestamp, offset - self.base_offset)

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """(timestamp, offset) of the last entry not later than `timestamp`; else (-1, base offset)."""
        found = self.floor(0, timestamp)
        return (NO_TIMESTAMP, self.base_offset) if found is None else (found[0], found[1] + self.base_offset)

    def last_entry(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry; else (-1, base offset)."""
        found = self.last()
        return (NO_TIMESTAMP, self.base_offset) if found is None else (found[0], found[1] + self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose batch ends at `offset` or later."""
        assert self.entries is not None
        entries, target = self.entries, offset - self.base_offset
        count = len(entries) // 12
        self._truncate_to_slot(
            bisect_right(range(count), target - 1, key=lambda slot: _TIME_ENTRY.unpack_from(entries, slot * 12)[1])
        )
