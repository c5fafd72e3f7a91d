"""One segment: a file of batches, its two sparse indexes, and where recent reads ended.

    00000000000000000120.log         the batches, one after another, from offset 120
    00000000000000000120.index       see sparse_index.py
    00000000000000000120.timeindex   see sparse_index.py
    00000000000000000120.txnindex    see txn_index.py; only when a transaction was aborted here
    00000000000000000120.snapshot    see producer_snapshot.py; the producers as they were *before* offset 120

Only the last segment of a log, the active one, is written. There is no commit frame in this format: whether the last batch is whole
is known from its length and checksum alone, which is why recovery checks batches and not bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kafkapy.errors import StorageError
from kafkapy.log.batch_walk import WALK_READ_BYTES, UnreadableBatch, WalkedBatch, walk
from kafkapy.log.files import EMPTY, FilePool, FileSlice, LogFile
from kafkapy.log.filesystem import DamagedLogError, storage_error, storage_errors, unlink_if_exists
from kafkapy.log.sparse_index import NO_TIMESTAMP, CorruptIndexError, OffsetIndex, TimeIndex
from kafkapy.log.txn_index import AbortedTxn, TxnIndex

if TYPE_CHECKING:
    from kafkapy.wire.record_batch import BatchHeader

logger = logging.getLogger(__name__)

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

# What an empty segment has for the timestamp of its first batch: later than any, so that it is never due to roll by time.
NO_BATCH_YET = 2**63 - 1
# Positions remembered per segment: one for each consumer that reads here in sequence, and one for the log's end.
_POSITIONS_MAX = 16
# The walk that rebuilds an index reads every header of the segment, so it reads in larger pieces.
_REBUILD_READ_BYTES = 256 * 1024


def segment_path(folder: str, base_offset: int, suffix: str) -> str:
    """The path of one of a segment's files: the base offset in twenty digits, and what it is."""
    return f"{folder}/{base_offset:020d}{suffix}"


class Segment:
    """The batches from `base_offset` on. Appends go to the active one only; reads go to all."""

    __slots__ = (
        "_positions",
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "file",
        "first_timestamp",
        "folder",
        "full",
        "index_bytes_max",
        "index_interval_bytes",
        "max_timestamp",
        "max_timestamp_offset",
        "modified_ms",
        "next_offset",
        "offset_index",
        "size",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        pool: FilePool,
        folder: str,
        base_offset: int,
        *,
        size: int,
        index_interval_bytes: int,
        index_bytes_max: int,
        created_ms: int,
        active: bool,
        suffix: str = "",
    ) -> None:
        self.folder = folder
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = size
        self.index_interval_bytes = index_interval_bytes
        self.index_bytes_max = index_bytes_max
        self.full = False  # An index has no room: the next append goes to a new segment.
        self.created_ms = created_ms
        self.modified_ms = created_ms
        self.bytes_since_index = 0
        # The timestamp of the first batch (its creation where the batch has none); None: not read yet.
        self.first_timestamp: int | None = None if size else NO_BATCH_YET
        # None: not known yet, the last entry of the time index says it.
        self.max_timestamp: int | None = NO_TIMESTAMP if active else None
        self.max_timestamp_offset = base_offset
        self.txn_index: TxnIndex | None = None
        self._positions: dict[int, int] | None = None
        path = segment_path(folder, base_offset, "")
        self.file = LogFile(pool, path + LOG_SUFFIX + suffix)
        entries = bytearray() if active else None
        fs = pool.fs
        self.offset_index = OffsetIndex(fs, path + INDEX_SUFFIX + suffix, base_offset, entries)
        entries = bytearray() if active else None
        self.time_index = TimeIndex(fs, path + TIME_INDEX_SUFFIX + suffix, base_offset, entries)

    def __repr__(self) -> str:
        return f"Segment({self.file.path}, {self.size} bytes)"

    # Writing.

    def append(self, data: memoryview | bytes, size: int, last_offset: int, max_timestamp: int) -> None:
        """Write one batch at the end."""
        position = self._write(data, size)
        self._written(position, size, last_offset, max_timestamp)

    def append_run(self, data: memoryview, batches: Iterable[BatchHeader]) -> None:
        """Write several whole batches, which lie one after another in `data`, at once. The indexes see each of them."""
        position = self._write(data, len(data))
        for header in batches:
            self._written(position, header.size, header.last_offset, header.max_timestamp)
            position += header.size

    def _write(self, data: memoryview | bytes, size: int) -> int:
        """Put the bytes at the end of the file; returns where they are."""
        file = self.file
        fd = file.fd
        if fd < 0:
            fd = file.descriptor()
        file.recent = True
        position = self.size
        try:
            written = file.pool.fs.pwrite(fd, data, position)
            if written != size:
                self._write_rest(fd, data, position, written)
        except OSError as error:
            self._undo_write(fd, position, error)
        return position

    def _written(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """A batch is at `position`: the segment's end and its indexes follow."""
        if not position:
            self.first_timestamp = max_timestamp if max_timestamp >= 0 else self.created_ms
        self.size = position + size
        self.next_offset = last_offset + 1
        if max_timestamp > self.max_timestamp:  # type: ignore[operator]
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self.bytes_since_index > self.index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)  # type: ignore[arg-type]
            self.bytes_since_index = size
            # The time index keeps its last place for the entry that closing it adds.
            entries = self.offset_index.count()
            self.full = (entries + 1) * 8 > self.index_bytes_max or (entries + 2) * 12 > self.index_bytes_max
        else:
            self.bytes_since_index += size

    def _write_rest(self, fd: int, data: memoryview | bytes, position: int, written: int) -> None:
        """Go on after a short write, which is how a disk that is nearly full answers."""
        rest = memoryview(data)
        while written < len(rest):
            written += self.file.pool.fs.pwrite(fd, rest[written:], position + written)

    def _undo_write(self, fd: int, position: int, error: OSError) -> None:
        """Cut off what a failed write left behind, so that no later read or restart finds a part of a batch."""
        refused = storage_error(self.file.path, error)
        try:
            self.file.pool.fs.truncate(fd, position)
        except OSError as second:
            message = f"{refused.message}; cutting off the partial write failed too: {second.strerror}"
            raise StorageError(self.file.path, message) from error
        raise refused from error

    def unload_indexes(self) -> None:
        """The segment is no longer the active one: its indexes are complete, and are searched on disk from now on."""
        with storage_errors(self.file.path):
            self.offset_index.unload()
            self.time_index.unload()

    def save_indexes(self) -> None:
        """Write the indexes as they are, with the segment's largest time as the last entry, as Kafka does."""
        with storage_errors(self.file.path):
            if self.time_index.entries is not None and self.max_timestamp is not None:
                self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
            self.offset_index.save()
            self.time_index.save()

    # Reading.

    def read(self, offset: int, max_bytes: int, upper_offset: int, min_one_batch: bool) -> FileSlice:
        """Whole batches from the one that holds `offset` (or the next one, in a gap), all of them before `upper_offset`."""
        positions = self._positions
        position = None if positions is None else positions.get(offset)
        if position is None:
            batch = self.locate(offset)
            if batch is None:
                return EMPTY
            position = batch.position
        size = self.size - position
        if size <= max_bytes and self.next_offset <= upper_offset:
            if not size:
                return EMPTY
            self.remember(self.next_offset, self.size)
            return FileSlice(self.file, position, size, self.next_offset)
        try:
            return self._read_part(position, max_bytes, upper_offset, min_one_batch)
        except CorruptIndexError as error:
            self.rebuild_indexes(str(error))
            return self._read_part(position, max_bytes, upper_offset, min_one_batch)
        except UnreadableBatch as error:
            raise self.damaged(error) from error

    def _read_part(self, start: int, max_bytes: int, upper_offset: int, min_one_batch: bool) -> FileSlice:
        """The batches from `start` that fit into `max_bytes` and end before `upper_offset`: jump by the index, then walk."""
        limit = start + max_bytes
        index_offset, position = self.offset_index.lookup_position(min(limit, self.size))
        if self.next_offset > upper_offset:
            upper_index_offset, upper_position = self.offset_index.lookup(upper_offset - 1)
            if upper_position < position:
                index_offset, position = upper_index_offset, upper_position
        if position <= start:
            index_offset, position = -1, start
        end, end_offset = position, -1
        for batch in self._walk(position, index_offset):
            if end_offset < 0:
                end_offset = batch.base_offset
            batch_end = batch.position + batch.size
            too_large = batch_end > limit and not (min_one_batch and batch.position == start)
            if too_large or batch.last_offset >= upper_offset:
                break
            end, end_offset = batch_end, batch.last_offset + 1
            if end >= limit:
                break
        if end == start:
            return EMPTY
        self.remember(end_offset, end)
        return FileSlice(self.file, start, end - start, end_offset)

    def locate(self, offset: int) -> WalkedBatch | None:
        """The first batch whose last offset is at least `offset`, or None when the segment ends before it."""
        try:
            try:
                return self._locate(offset)
            except CorruptIndexError as error:
                self.rebuild_indexes(str(error))
                return self._locate(offset)
        except UnreadableBatch as error:
            raise self.damaged(error) from error

    def _locate(self, offset: int) -> WalkedBatch | None:
        index_offset, position = self.offset_index.lookup(offset)
        for batch in self._walk(position, index_offset if position else -1):
            if batch.last_offset >= offset:
                return batch
        return None

    def batches_from(self, position: int) -> Iterator[WalkedBatch]:
        """All batches from a position where one begins."""
        try:
            yield from self._walk(position, -1, _REBUILD_READ_BYTES)
        except UnreadableBatch as error:
            raise self.damaged(error) from error

    def _walk(self, position: int, index_offset: int, read_bytes: int = WALK_READ_BYTES) -> Iterator[WalkedBatch]:
        """Walk from a position; when an index gave it, the batch there must end with `index_offset` (-1: no index did)."""
        trusted = index_offset < 0
        try:
            for batch in walk(self.file.pool.fs, self.file.descriptor(), position, self.size, read_bytes=read_bytes):
                if not trusted and batch.last_offset != index_offset:
                    raise CorruptIndexError(f"offset {index_offset} is not at position {position}")
                trusted = True
                yield batch
        except UnreadableBatch as error:
            if trusted:
                raise
            raise CorruptIndexError(str(error)) from error
        if not trusted:
            raise CorruptIndexError(f"an entry points to {position} in a file of {self.size} bytes")

    def remember(self, offset: int, position: int) -> None:
        """A batch that holds `offset` begins at `position`, or will: the next read in sequence need not look for it."""
        positions = self._positions
        if positions is None:
            self._positions = {offset: position}
            return
        if len(positions) >= _POSITIONS_MAX and offset not in positions:
            del positions[next(iter(positions))]
        positions[offset] = position

    def damaged(self, error: UnreadableBatch) -> DamagedLogError:
        """What to raise where the log itself, not an index, cannot be read."""
        return DamagedLogError(self.file.path, f"damaged at position {error.position}: {error.reason}")

    # Times.

    def largest_timestamp(self) -> int:
        """The largest timestamp of a record here; -1 without any."""
        if self.max_timestamp is None:
            try:
                self.max_timestamp, self.max_timestamp_offset = self._checked_last_time()
            except CorruptIndexError as error:
                self.rebuild_indexes(str(error))
        assert self.max_timestamp is not None
        return self.max_timestamp

    def _checked_last_time(self) -> tuple[int, int]:
        """The last entry of a closed segment's time index, if the batches agree: its own, and those at the segment's end."""
        timestamp, offset = self.time_index.last_entry()
        self._check_time(timestamp, offset)
        index_offset, position = self.offset_index.lookup_position(self.size)
        for batch in self._walk(position, index_offset if position else -1):
            if batch.max_timestamp > timestamp:
                raise CorruptIndexError(f"{self.time_index.path} ends with {timestamp}, before {batch.max_timestamp}")
        return timestamp, offset

    def _check_time(self, timestamp: int, offset: int) -> None:
        """An entry of the time index must name the batch that has this time."""
        if timestamp != NO_TIMESTAMP:
            batch = self._locate(offset)
            if batch is None or batch.max_timestamp != timestamp:
                raise CorruptIndexError(f"{self.time_index.path}: time {timestamp} is not at offset {offset}")

    def first_batch_timestamp(self) -> int:
        """When the first batch was made, from which rolling by time counts; NO_BATCH_YET in an empty segment."""
        if not self.size:
            self.first_timestamp = NO_BATCH_YET
        if self.first_timestamp is None:
            first = next(self.batches_from(0)).max_timestamp
            self.first_timestamp = first if first >= 0 else self.created_ms
        return self.first_timestamp

    def batches_since(self, timestamp: int, start_offset: int) -> Iterator[WalkedBatch]:
        """The batches from `start_offset` on that may hold records at `timestamp` or later."""
        try:
            indexed, offset = self.time_index.lookup(timestamp)
            self._check_time(indexed, offset)
        except CorruptIndexError as error:
            self.rebuild_indexes(str(error))
            _, offset = self.time_index.lookup(timestamp)
        first = self.locate(max(offset, start_offset))
        if first is not None:
            for batch in self.batches_from(first.position):
                if batch.max_timestamp >= timestamp:
                    yield batch

    # Repair and truncation.

    def rebuild_indexes(self, reason: str) -> None:
        """Make both indexes anew from the batch headers. A closed segment's go straight to disk."""
        logger.warning("rebuilding the indexes of %s: %s", self.file.path, reason)
        closed = self.offset_index.entries is None
        self.begin_rebuild()
        for batch in self.batches_from(0):
            self.index_batch(batch.position, batch.size, batch.last_offset, batch.max_timestamp)
        if closed:
            self.save_indexes()
            self.unload_indexes()

    def begin_rebuild(self) -> None:
        """Forget what the indexes say; `index_batch` tells them every batch again."""
        self.offset_index.reset()
        self.time_index.reset()
        self._positions = None
        self.bytes_since_index = 0
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self.full = False

    def index_batch(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Note one batch of the file, in order, just as its append would have done."""
        assert self.max_timestamp is not None
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = max_timestamp, last_offset
        if self.bytes_since_index > self.index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
            self.bytes_since_index = 0
        self.bytes_since_index += size
        self.next_offset = last_offset + 1

    def activate(self) -> None:
        """Make a segment that was closed cleanly ready for appends: load its indexes, find its end.

        Raises CorruptIndexError when an index does not fit, UnreadableBatch when the log does not.
        """
        self.offset_index.load()
        self.time_index.load()
        index_offset, position = self.offset_index.base_offset, 0
        last = self.offset_index.last()
        if last is not None:
            index_offset, position = last[0] + self.base_offset, last[1]
            if not position or index_offset < self.base_offset:
                raise CorruptIndexError(f"{self.offset_index.path} ends with position {position}")
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last_entry()
        self._check_time(self.max_timestamp, self.max_timestamp_offset)
        self.next_offset = self.base_offset
        self.bytes_since_index = 0
        for batch in self._walk(position, index_offset if position else -1):
            if batch.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = batch.max_timestamp, batch.last_offset
            self.bytes_since_index += batch.size
            self.next_offset = batch.last_offset + 1
        self.first_batch_timestamp()

    def add_aborted(self, entry: AbortedTxn) -> None:
        """Note an aborted transaction whose marker stands here; the file comes with the first."""
        if self.txn_index is None:
            path = segment_path(self.folder, self.base_offset, TXN_INDEX_SUFFIX)
            self.txn_index = TxnIndex(self.file.pool.fs, path)
        self.txn_index.append(entry)

    def truncate_to(self, offset: int) -> None:
        """Cut the segment, which must be the active one, before the batch that holds `offset`."""
        batch = self.locate(offset)
        self.cut(self.size if batch is None else batch.position, offset)

    def cut(self, position: int, offset: int) -> None:
        """Cut the file at a position where a batch begins; `offset` is the next one to be written."""
        fs, fd = self.file.pool.fs, self.file.descriptor()
        with storage_errors(self.file.path):
            fs.truncate(fd, position)
            fs.fsync(fd)
        self.size = position
        self._positions = None
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        if self.txn_index is not None:
            self.txn_index.truncate_to(offset)
        self.first_timestamp = None if position else NO_BATCH_YET
        self.full = False
        try:
            self.save_truncated_indexes()
            self.activate()
        except CorruptIndexError as error:
            self.rebuild_indexes(str(error))
            self.first_batch_timestamp()
        self.next_offset = offset

    def save_truncated_indexes(self) -> None:
        """Cut the index files where they exist, so that a crash does not bring back what was cut off."""
        with storage_errors(self.file.path):
            for index in (self.offset_index, self.time_index):
                if index.fs.exists(index.path):
                    index.save()

    # The files themselves.

    def rename_suffix(self, old: str, new: str) -> None:
        """Rename all four files from one suffix to another: Kafka's steps of swapping and deleting."""
        fs = self.file.pool.fs
        path = segment_path(self.folder, self.base_offset, "")
        with storage_errors(self.file.path):
            self.file.rename(path + LOG_SUFFIX + new)
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
                if fs.exists(path + suffix + old):
                    fs.rename(path + suffix + old, path + suffix + new)
        self.offset_index.path = path + INDEX_SUFFIX + new
        self.time_index.path = path + TIME_INDEX_SUFFIX + new
        if self.txn_index is not None:
            self.txn_index.path = path + TXN_INDEX_SUFFIX + new

    def delete_files(self) -> None:
        """Remove all four files at once."""
        self.file.close()
        path = segment_path(self.folder, self.base_offset, "")
        kept = self.file.path[len(path) + len(LOG_SUFFIX) :]
        with storage_errors(self.file.path):
            for suffix in SEGMENT_SUFFIXES:
                unlink_if_exists(self.file.pool.fs, path + suffix + kept)
