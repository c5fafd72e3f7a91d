"""Compaction: rewriting a log's closed segments so that each key keeps its last record. The work itself, in any process.

    1. Read the dirty part of the log, from where the last round ended, into a table: key -> last offset.
    2. Read all of the log up to there, in groups of neighbouring segments that fit into one, and write what counts into one `*.cleaned`
       segment for each group, with its indexes, flushed. The log swaps it in (see cleaner.py and replacement.py).

What is kept of the part that the table covers:

    a record whose key has no later record, if it has a value
    a tombstone (no value) likewise, until its batch's delete horizon has passed; the first round that meets it sets the horizon
    a marker while batches of its transaction are left, and then until its own delete horizon
    the last batch of each producer that the log remembers, without records if need be: it holds the producer's last sequence;
      where a producer has only a marker, that stays as it is (Kafka would empty it and lose the producer's epoch in a recovery)
    the last batch of the part, likewise: it holds the last offset
    nothing of aborted transactions

Every batch is verified against its checksum before it is believed, so damage is never given a new and valid checksum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.log.batch_walk import UnreadableBatch, read_whole
from kafkapy.log.compaction_keys import OffsetMap
from kafkapy.log.compaction_records import RawRecord, emptied, raw_records, rewritten
from kafkapy.log.compaction_task import CompactedGroup, CompactionStats, CompactionTask, SegmentSource
from kafkapy.log.compaction_txns import TransactionTrail
from kafkapy.log.files import FilePool
from kafkapy.log.filesystem import Filesystem, storage_error, unlink_if_exists, write_fully
from kafkapy.log.replacement import cleaned_segment
from kafkapy.log.segment import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_path,
)
from kafkapy.log.sparse_index import RELATIVE_OFFSET_MAX
from kafkapy.log.txn_index import TxnIndex
from kafkapy.wire.record_batch import BATCH_HEADER, CONTROL, NO_PRODUCER_ID, BatchHeader
from kafkapy.wire.records import decompressed_records

# Small batches are gathered before they are written.
_WRITE_BYTES = 1024 * 1024
# What is written goes to the disk bit by bit: one large flush at the end would hold up everybody else's.
_SYNC_BYTES = 16 * 1024 * 1024
_SEGMENT_BYTES_MAX = 2**31 - 1
# Swapping a segment out takes the loop some renames, so no more than so many leave at once.
GROUP_SEGMENTS_MAX = 32


class DamagedSourceError(Exception):
    """A segment cannot be read, so its log cannot be compacted before somebody has looked at it."""


class SourceGoneError(Exception):
    """A file is not there any more: the log was truncated, trimmed or deleted meanwhile."""


class MeasuredSegment(NamedTuple):
    """A segment with the sizes of its indexes, which also bound what may be put together."""

    segment: SegmentSource
    index_bytes: int
    time_index_bytes: int


class Compaction:
    """One round.

    `step(bytes)` is called for everything read or written, and with 0 before a file is made: it may slow the work down, or end it
    by raising.
    """

    def __init__(self, task: CompactionTask, fs: Filesystem, step: Callable[[int], None]) -> None:
        self._task = task
        self._fs = fs
        self._step = step
        self._pool = FilePool(fs, 4)
        self._last_records = {last.producer_id: last for last in task.producers}
        self._map = OffsetMap(
            task.map_bytes, task.map_load_factor, task.first_uncleanable_offset - task.first_dirty_offset
        )
        self._trail = TransactionTrail(task.aborted)
        self._bytes_written = self._records_read = self._records_kept = 0

    def groups(self) -> Iterator[CompactedGroup]:
        """Do the work; each group is complete and on disk when it is yielded.

        Raises SourceGoneError, DamagedSourceError, or StorageError when the disk fails. `*.cleaned` files may be left behind then.
        """
        self._remove_leftovers()
        self._build_map()
        end_offset = self._map.latest_offset + 1
        sources = [self._measured(segment) for segment in self._task.segments if segment.base_offset < end_offset]
        for group in group_segments(sources, self._task.segment_bytes, self._task.segment_index_bytes):
            yield self._compact_group(group)

    def _remove_leftovers(self) -> None:
        """A `*.cleaned` file of an earlier attempt would make a restart take a swap that was under way for one that was not."""
        folder = self._task.folder
        try:
            for entry in self._fs.list(folder):
                if entry.name.endswith(CLEANED_SUFFIX):
                    unlink_if_exists(self._fs, f"{folder}/{entry.name}")
        except FileNotFoundError as error:
            raise SourceGoneError(folder) from error
        except OSError as error:
            raise storage_error(folder, error) from error

    @property
    def stats(self) -> CompactionStats:
        """What was done, once all groups are."""
        return CompactionStats(
            self._map.latest_offset + 1,
            self._map.count,
            self._bytes_written,
            self._records_read,
            self._records_kept,
        )

    # Step 1: the table of keys.

    def _build_map(self) -> None:
        task, offset_map = self._task, self._map
        dirty = [segment for segment in task.segments if segment.end_offset > task.first_dirty_offset]
        if not dirty:
            return
        start = dirty[0].base_offset
        trail = TransactionTrail(entry for entry in task.aborted if entry.last_offset >= start)
        for segment in dirty:
            if not self._map_segment(segment, trail):
                return
            offset_map.reached(segment.end_offset - 1)

    def _map_segment(self, segment: SegmentSource, trail: TransactionTrail) -> bool:
        """Take the keys of a segment into the table; False when it is full."""
        header = None
        try:
            for header, batch in self._batches(segment):
                if header.attributes & CONTROL:
                    trail.is_spent(header, batch)
                elif not trail.is_aborted(header) and not self._map_batch(header, batch):
                    return False
                self._map.reached(header.last_offset)
        except KafkaError as error:
            raise self._damaged(segment, header, error) from error
        return True

    def _map_batch(self, header: BatchHeader, batch: memoryview) -> bool:
        """Take the keys of a batch into the table; False when it is full."""
        put, base_offset, first_offset = self._map.put, header.base_offset, self._task.first_dirty_offset
        if header.last_offset < first_offset:
            return True
        for record in raw_records(decompressed_records(batch, 0, header), header.record_count):
            key, offset = record.key, base_offset + record.offset_delta
            if key is not None and offset >= first_offset and not put(key, offset):
                return False
        return True

    # Step 2: writing what counts.

    def _measured(self, segment: SegmentSource) -> MeasuredSegment:
        sizes = []
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            path = segment_path(self._task.folder, segment.base_offset, suffix)
            try:
                fd = self._fs.open_existing(path)
            except FileNotFoundError:
                sizes.append(0)  # Rebuilt when it is needed.
                continue
            except OSError as error:
                raise storage_error(path, error) from error
            sizes.append(self._fs.size(fd))
            self._fs.close(fd)
        return MeasuredSegment(segment, *sizes)

    def _compact_group(self, group: list[SegmentSource]) -> CompactedGroup:
        writer = _Writer(self._task, self._pool, group[0].base_offset, self._step)
        try:
            for segment in group:
                self._compact_segment(segment, writer)
            aborted, self._trail.retained = self._trail.retained, []
            for entry in aborted:
                writer.txn_index.append(entry)
            writer.finish(bool(aborted))
        except FileNotFoundError as error:
            raise SourceGoneError(self._task.folder) from error
        except OSError as error:
            raise storage_error(self._task.folder, error) from error
        finally:
            writer.close()
        self._bytes_written += writer.size
        return CompactedGroup([segment.base_offset for segment in group], writer.size, bool(aborted))

    def _compact_segment(self, segment: SegmentSource, writer: _Writer) -> None:
        header = None
        try:
            for header, batch in self._batches(segment):
                kept = self._cleaned(header, batch)
                if kept is not None:
                    writer.write(header, kept)
        except KafkaError as error:
            raise self._damaged(segment, header, error) from error

    def _cleaned(self, header: BatchHeader, batch: memoryview) -> memoryview | bytearray | None:
        """What is kept of a batch; None: nothing."""
        task, horizon = self._task, header.delete_horizon_ms
        is_control = bool(header.attributes & CONTROL)
        self._records_read += header.record_count
        if is_control:
            spent = self._trail.is_spent(header, batch)
            discard = spent and horizon is not None and horizon <= task.now_ms
        else:
            spent = False
            discard = self._trail.is_aborted(header)
        last_of_producer = self._is_last_of_producer(header)
        retain_empty = last_of_producer or header.next_offset == task.first_uncleanable_offset
        if discard and is_control and last_of_producer:
            return batch  # Without its record it would not be taken for a marker, and the epoch would be forgotten after a crash.
        if discard:
            return emptied(header) if retain_empty else None
        if is_control:
            kept, data, has_tombstones = self._whole(header, batch)
        else:
            kept, data, has_tombstones = self._kept_records(header, batch)
        if not kept:
            return emptied(header) if retain_empty else None
        self._records_kept += len(kept)
        if horizon is None and (has_tombstones or spent):
            return rewritten(header, data, kept, task.now_ms + task.delete_retention_ms)
        if len(kept) == header.record_count:
            return batch
        return rewritten(header, data, kept, horizon)

    def _whole(self, header: BatchHeader, batch: memoryview) -> tuple[list[RawRecord], bytes, bool]:
        """All records of a control batch."""
        data = decompressed_records(batch, 0, header)
        return list(raw_records(data, header.record_count)), data, False

    def _kept_records(self, header: BatchHeader, batch: memoryview) -> tuple[list[RawRecord], bytes, bool]:
        """(the records of a batch that count, the decompressed records, whether tombstones are among the kept ones)."""
        last_of, covered = self._map.get, self._map.latest_offset
        horizon = header.delete_horizon_ms
        keep_tombstones = horizon is None or self._task.now_ms < horizon
        base_offset = header.base_offset
        has_tombstones = False
        kept = []
        data = decompressed_records(batch, 0, header)
        for record in raw_records(data, header.record_count):
            offset, key = base_offset + record.offset_delta, record.key
            if offset <= covered and (
                key is None or last_of(key) > offset or not (record.has_value or keep_tombstones)
            ):
                continue
            if not record.has_value:
                has_tombstones = True
            kept.append(record)
        return kept, data, has_tombstones

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Whether a batch is all that tells of a producer's last sequence, or where it has none, of its epoch."""
        if header.producer_id == NO_PRODUCER_ID:
            return False
        last = self._last_records.get(header.producer_id)
        if last is None:
            return False
        if last.offset >= 0:
            return header.last_offset == last.offset
        return bool(header.attributes & CONTROL) and header.producer_epoch == last.epoch

    # Reading.

    def _path(self, segment: SegmentSource) -> str:
        return segment_path(self._task.folder, segment.base_offset, LOG_SUFFIX)

    def _batches(self, segment: SegmentSource) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Every batch of a segment, verified."""
        path = self._path(segment)
        try:
            fd = self._fs.open_existing(path)
        except FileNotFoundError as error:
            raise SourceGoneError(path) from error
        except OSError as error:
            raise storage_error(path, error) from error
        try:
            for _, header, batch in read_whole(self._fs, fd, segment.size):
                self._step(len(batch))
                yield header, batch
        except UnreadableBatch as error:
            raise DamagedSourceError(f"{path}: damaged at position {error.position}: {error.reason}") from error
        except OSError as error:
            raise storage_error(path, error) from error
        finally:
            self._fs.close(fd)

    def _damaged(self, segment: SegmentSource, header: BatchHeader | None, error: KafkaError) -> DamagedSourceError:
        where = "" if header is None else f", the batch at offset {header.base_offset}"
        return DamagedSourceError(f"{self._path(segment)}{where}: {error.message}")


class _Writer:
    """A `*.cleaned` segment that grows."""

    __slots__ = ("_buffer", "_fs", "_segment", "_step", "_unsynced", "_written", "txn_index")

    def __init__(self, task: CompactionTask, pool: FilePool, base_offset: int, step: Callable[[int], None]) -> None:
        self._fs = pool.fs
        self._step = step
        self._segment = cleaned_segment(
            pool, task.folder, base_offset, task.index_interval_bytes, task.segment_index_bytes, active=True
        )
        path = segment_path(task.folder, base_offset, TXN_INDEX_SUFFIX + CLEANED_SUFFIX)
        self.txn_index = TxnIndex(pool.fs, path)
        self._buffer = bytearray()
        self._written = self._unsynced = 0
        # Nobody should make a file that nobody is going to take over; and what an earlier attempt left is not written into.
        step(0)
        self._segment.delete_files()
        self._segment.file.create()

    @property
    def size(self) -> int:
        """Bytes of batches so far."""
        return self._written + len(self._buffer)

    def write(self, header: BatchHeader, batch: memoryview | bytearray) -> None:
        """Append a batch, which keeps its offsets."""
        position = self.size
        if position + len(batch) > _SEGMENT_BYTES_MAX:
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, "compressed anew, the segment is larger than one may be")
        _, _, _, _, _, _, _, _, max_timestamp, *_ = BATCH_HEADER.unpack_from(batch)
        self._segment.index_batch(position, len(batch), header.last_offset, max_timestamp)
        self._buffer += batch
        if len(self._buffer) >= _WRITE_BYTES:
            self._flush_buffer()

    def _flush_buffer(self) -> None:
        size = len(self._buffer)
        self._step(size)
        write_fully(self._fs, self._segment.file.descriptor(), self._buffer, self._written)
        self._written += size
        self._buffer.clear()
        self._unsynced += size
        if self._unsynced >= _SYNC_BYTES:
            self._fs.fsync(self._segment.file.descriptor())
            self._unsynced = 0

    def finish(self, has_aborted: bool) -> None:
        """Make all files durable."""
        self._flush_buffer()
        self._fs.fsync(self._segment.file.descriptor())
        self._segment.save_indexes()
        paths = [self._segment.offset_index.path, self._segment.time_index.path]
        if has_aborted:
            paths.append(self.txn_index.path)
        for path in paths:
            fd = self._fs.open_existing(path)
            try:
                self._fs.fsync(fd)
            finally:
                self._fs.close(fd)

    def close(self) -> None:
        self._segment.file.close()


def group_segments(
    sources: list[MeasuredSegment], segment_bytes: int, index_bytes_max: int
) -> list[list[SegmentSource]]:
    """Neighbours that fit into one segment, by their sizes as they are: compaction makes them no larger."""
    groups: list[list[SegmentSource]] = []
    size = index_bytes = time_index_bytes = 0
    for source in sources:
        segment = source.segment
        if (
            groups
            and len(groups[-1]) < GROUP_SEGMENTS_MAX
            and size + segment.size <= segment_bytes
            and index_bytes + source.index_bytes <= index_bytes_max
            and time_index_bytes + source.time_index_bytes <= index_bytes_max
            and (not segment.size or segment.end_offset - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX)
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size = index_bytes = time_index_bytes = 0
        size += segment.size
        index_bytes += source.index_bytes
        time_index_bytes += source.time_index_bytes
    return groups
