"""The aborted transactions of a segment: which records a read_committed consumer must skip.

    00000000000000000000.txnindex    one entry for each transaction whose abort marker stands in this segment

    offset size  field (big-endian)
         0    2  version             int16; 0
         2    8  producer_id         int64
        10    8  first_offset        int64; of the transaction's first record
        18    8  last_offset         int64; of the abort marker
        26    8  last_stable_offset  int64; what it was once this marker was written

Entries stand in the order of their markers. The file appears with the first abort: most segments never have one. An append is
written at once, before the marker counts as appended, so that a reader can never see the marker without the entry.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from kafkapy.log.filesystem import Filesystem, read_file, storage_errors, write_fully
from kafkapy.log.sparse_index import CorruptIndexError

_ENTRY = Struct(">hqqqq")
_VERSION = 0


class AbortedTxn(NamedTuple):
    """One aborted transaction."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TxnIndex:
    """The aborted transactions of one segment, read when they are asked for first."""

    __slots__ = ("_entries", "fs", "path")

    def __init__(self, fs: Filesystem, path: str) -> None:
        self.fs = fs
        self.path = path
        self._entries: list[AbortedTxn] | None = None

    def entries(self) -> list[AbortedTxn]:
        """All entries in the order of their markers. Raises CorruptIndexError when the file cannot be believed."""
        if self._entries is None:
            try:
                data = read_file(self.fs, self.path)
            except FileNotFoundError:
                data = b""
            whole = len(data) - len(data) % _ENTRY.size
            entries = []
            for version, *fields in _ENTRY.iter_unpack(data[:whole]):
                entry = AbortedTxn(*fields)
                if version != _VERSION or not 0 <= entry.first_offset <= entry.last_offset:
                    raise CorruptIndexError(f"{self.path} has an impossible entry: version {version}, {entry}")
                entries.append(entry)
            self._entries = entries
        return self._entries

    def append(self, entry: AbortedTxn) -> None:
        """Add the transaction whose abort marker is being appended."""
        entries = self.entries()
        with storage_errors(self.path):
            fd = self.fs.open(self.path)
            try:
                write_fully(self.fs, fd, _ENTRY.pack(_VERSION, *entry), len(entries) * _ENTRY.size)
            finally:
                self.fs.close(fd)
        entries.append(entry)

    def reset(self) -> None:
        """Drop all entries: recovery finds them again in the log."""
        self._keep(0)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose marker stands at `offset` or later."""
        self._keep(sum(1 for entry in self.entries() if entry.last_offset < offset))

    def _keep(self, count: int) -> None:
        with storage_errors(self.path):
            fd = self.fs.open(self.path)
            try:
                self.fs.truncate(fd, count * _ENTRY.size)
            finally:
                self.fs.close(fd)
        self._entries = self.entries()[:count] if count else []
