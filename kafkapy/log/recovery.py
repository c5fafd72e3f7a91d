"""Opening a log: putting right what a crash left behind, then finding its end.

    1. Leftovers: `*.deleted` go; `*.cleaned` go; a swap that had begun is completed (see replacement.py).
    2. After a clean stop the last segment's end is a short walk from its last index entry, and the producers are in a snapshot.
    3. Otherwise every segment from the recovery point on is read, each batch checked, and its indexes are made anew. At the first
       batch that is not whole and sound, or missing, the log is cut, and later segments go: whatever followed was never flushed.
    4. Damage *before* the recovery point was on disk once. It is never cut off: the log refuses to open and says where it is.

Indexes of closed segments before the recovery point are believed until a lookup finds that an entry does not fit; then they are
rebuilt from the log.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.log.batch_walk import UnreadableBatch, read_whole
from kafkapy.log.checkpoints import PARTITION_METADATA_FILE, read_topic_id, write_topic_id
from kafkapy.log.epochs import load_epochs
from kafkapy.log.files import FileSlice
from kafkapy.log.filesystem import DamagedLogError, FileEntry, storage_errors, unlink_if_exists
from kafkapy.log.producer_replay import replay
from kafkapy.log.producer_snapshot import CorruptSnapshotError, read_snapshot
from kafkapy.log.producer_state import ProducerState, ProducerTable
from kafkapy.log.replacement import finish_replacements
from kafkapy.log.retention import mark_deleted, mark_snapshots_deleted
from kafkapy.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
    segment_path,
)
from kafkapy.log.sparse_index import CorruptIndexError
from kafkapy.log.txn_index import AbortedTxn, TxnIndex
from kafkapy.types import ZERO_UUID
from kafkapy.wire.record_batch import read_header

if TYPE_CHECKING:
    from kafkapy.log.log import Log

logger = logging.getLogger(__name__)

_DAMAGE_ADVICE = "this was on disk before; to give up what follows it, remove the partition's line from recovery-point-offset-checkpoint"


def load(
    log: Log,
    topic_id: bytes,
    recovery_point: int,
    log_start_offset: int,
    clean: bool,
    now_ms: int,
    producer_id_expiration_ms: int,
) -> None:
    """Fill a new Log from its folder, or make the folder."""
    fs = log.pool.fs
    with storage_errors(log.folder):
        entries = _entries(log)
        _check_topic_id(log, topic_id, entries)
        entries = finish_replacements(log, entries)
        _load_segments(log, entries, None if clean else recovery_point, now_ms)
    if not log.segments:
        with storage_errors(log.folder):
            log.add_segment(log_start_offset, now_ms)
        log.log_start_offset = log.log_end_offset = log.recovery_point = log_start_offset
        return
    epochs = load_epochs(fs, log.folder)
    if epochs is not None:
        log.epochs = epochs
        if not clean:
            # What the file says of later offsets may be of records that were cut since; the batches that are there now tell.
            log.epochs.truncate_from_end(recovery_point)
    else:
        _read_epochs(log, log.segments if clean else log.segments[: _first_unflushed(log, recovery_point)])
    if clean:
        _activate(log)
        log.recovery_point = log.log_end_offset
    else:
        _recover(log, recovery_point)
        log.recovery_point = min(recovery_point, log.log_end_offset)
    log.log_start_offset = max(log_start_offset, log.segments[0].base_offset)
    if log.log_end_offset < log.log_start_offset:
        logger.warning("%s ends at %d, before its start; it begins anew", log.folder, log.log_end_offset)
        log.truncate_fully_and_start_at(log.log_start_offset, now_ms)
    log.epochs.truncate_from_end(log.log_end_offset)
    log.epochs.truncate_from_start(log.log_start_offset)
    if clean:
        load_producers(log, log.log_end_offset)
        log.snapshot_synced = True
    log.producers.expire(now_ms, producer_id_expiration_ms)


def _entries(log: Log) -> list[FileEntry]:
    """What is in the folder, which is made if it is missing: most logs that are opened early in a broker's life are new."""
    try:
        log.pool.fs.make_folder(log.folder)
    except FileExistsError:
        return log.pool.fs.list(log.folder)
    return []


def _write_topic_id(log: Log, topic_id: bytes) -> None:
    """Name the topic in the folder. The partitions of one topic share a file, for a link costs much less than a new file."""
    pool = log.pool
    data_folder = log.folder.rpartition("/")[0]
    known = pool.topic_id_file
    path = f"{log.folder}/{PARTITION_METADATA_FILE}"
    if known is not None and known[:2] == (topic_id, data_folder):
        try:
            pool.fs.link(known[2], path)
            return
        except OSError as error:
            logger.debug("%s gets a file of its own: %s", path, error)
    write_topic_id(pool.fs, log.folder, topic_id)
    pool.topic_id_file = (topic_id, data_folder, path)


def _check_topic_id(log: Log, topic_id: bytes, entries: list[FileEntry]) -> None:
    """The folder must belong to this topic, not to an earlier one of the same name."""
    stored = read_topic_id(log.pool.fs, log.folder) if entries else None
    if stored is None:
        if topic_id != ZERO_UUID:
            _write_topic_id(log, topic_id)
        log.topic_id = topic_id
        return
    if topic_id not in (stored, ZERO_UUID):
        raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, f"{log.folder} belongs to another topic of the same name")
    log.topic_id = stored


def _load_segments(log: Log, entries: list[FileEntry], recovery_point: int | None, now_ms: int) -> None:
    """A Segment for every data file; index files without one go. `recovery_point` is None after a clean stop."""
    by_name = {entry.name: entry for entry in entries}
    last_snapshot = -1
    for entry in entries:
        stem, dot, kind = entry.name.partition(".")
        suffix = dot + kind
        if not stem.isdecimal():
            continue
        if suffix == LOG_SUFFIX:
            segment = log.new_segment(int(stem), entry.size, now_ms, active=False)
            segment.modified_ms = entry.modified_ms
            if stem + TXN_INDEX_SUFFIX in by_name:
                path = segment_path(log.folder, segment.base_offset, TXN_INDEX_SUFFIX)
                segment.txn_index = TxnIndex(log.pool.fs, path)
            if log.segments:
                log.segments[-1].next_offset = segment.base_offset
            log.segments.append(segment)
        elif suffix == SNAPSHOT_SUFFIX:
            last_snapshot = max(last_snapshot, int(stem))
        elif suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX) and stem + LOG_SUFFIX not in by_name:
            logger.warning("%s/%s has no log file beside it and is removed", log.folder, entry.name)
            unlink_if_exists(log.pool.fs, f"{log.folder}/{entry.name}")
    log.last_snapshot_offset = last_snapshot
    if log.segments:
        log.active = log.segments[-1]
    # From the recovery point on segments may be torn, and recovery makes their indexes anew.
    checked = -1 if recovery_point is None or not log.segments else _first_unflushed(log, recovery_point)
    for segment in log.segments[:checked]:
        _check_closed_indexes(segment, by_name)


def _check_closed_indexes(segment: Segment, by_name: dict[str, FileEntry]) -> None:
    """What the listing alone shows to be wrong with the indexes of a closed segment is put right at once."""
    stem = f"{segment.base_offset:020d}"
    index, time_index = by_name.get(stem + INDEX_SUFFIX), by_name.get(stem + TIME_INDEX_SUFFIX)
    if index is None or time_index is None:
        segment.rebuild_indexes("an index is missing")
    elif index.size % 8 or time_index.size % 12 or (segment.size and not time_index.size):
        segment.rebuild_indexes(f"their sizes are {index.size} and {time_index.size}")


def _activate(log: Log) -> None:
    """Find the log's end after a clean stop."""
    active = log.active
    try:
        try:
            active.activate()
        except CorruptIndexError as error:
            active.offset_index.reset()
            active.time_index.reset()
            active.rebuild_indexes(str(error))
            active.first_batch_timestamp()
    except UnreadableBatch as error:
        raise active.damaged(error) from error
    log.log_end_offset = active.next_offset


# After a crash.


def _recover(log: Log, recovery_point: int) -> None:
    """Check everything from the segment that holds the recovery point on; cut at the first batch that is not sound."""
    first = _first_unflushed(log, recovery_point)
    later = _producers_of_later_snapshot(log, log.segments[first].base_offset)
    load_producers(log, log.segments[first].base_offset)
    for index in range(first, len(log.segments)):
        segment = log.segments[index]
        log.active = segment
        problem = _recover_segment(log, segment)
        log.log_end_offset = segment.next_offset
        if problem is None and index + 1 < len(log.segments):
            problem = _gap(log, segment, log.segments[index + 1], recovery_point)
        if problem is not None:
            if segment.next_offset < recovery_point:
                message = f"damaged at position {problem.position} (offset {segment.next_offset}): {problem.reason}"
                raise DamagedLogError(segment.file.path, f"{message}; {_DAMAGE_ADVICE}") from problem
            _cut(log, index, problem)
            break
        if index + 1 < len(log.segments):
            segment.next_offset = log.segments[index + 1].base_offset
            log.log_end_offset = segment.next_offset
            segment.save_indexes()
            segment.unload_indexes()
            log.take_snapshot()
    if log.log_end_offset < recovery_point:
        message = f"ends at offset {log.log_end_offset}, before {recovery_point}, which was flushed"
        raise DamagedLogError(log.active.file.path, f"{message}; {_DAMAGE_ADVICE}")
    log.producers.adopt(state for state in later if state.last_offset < log.log_end_offset)
    if log.log_end_offset == recovery_point:
        # Nothing is left for the next flush to sync, but this file may have been cut, now or just before the crash.
        with storage_errors(log.active.file.path):
            log.pool.fs.fsync(log.active.file.descriptor())
    log.active.first_batch_timestamp()


def _gap(log: Log, segment: Segment, following: Segment, recovery_point: int) -> UnreadableBatch | None:
    """The end of a segment that lost its tail at the border of two batches, while a later file was kept whole.

    A power loss may do that to what was not flushed. A gap that is meant is left by compaction, here or at the leader that was copied.
    """
    end = segment.next_offset
    if end == following.base_offset or end < recovery_point:
        return None
    if "compact" in log.config.cleanup_policy:
        return None
    return UnreadableBatch(segment.size, f"the next segment begins at offset {following.base_offset}")


def _first_unflushed(log: Log, recovery_point: int) -> int:
    """The segment that holds the recovery point."""
    first = len(log.segments) - 1
    while first > 0 and log.segments[first].base_offset > recovery_point:
        first -= 1
    return first


def _read_epochs(log: Log, segments: list[Segment]) -> None:
    """Find the leader epochs in the batch headers."""
    for segment in segments:
        for batch in segment.batches_from(0):
            if batch.leader_epoch > log.epochs.latest_epoch:
                log.epochs.assign(batch.leader_epoch, batch.base_offset)


def _recover_segment(log: Log, segment: Segment) -> UnreadableBatch | None:
    """Check every batch and make the indexes, epochs and producers from them; what is wrong with the first unsound one."""
    if segment.txn_index is not None:
        segment.txn_index.reset()
    segment.begin_rebuild()
    segment.next_offset = segment.base_offset
    fs = log.pool.fs
    with storage_errors(segment.file.path):
        try:
            for position, header, batch in read_whole(fs, segment.file.descriptor(), segment.size):
                if header.base_offset < segment.next_offset:
                    return UnreadableBatch(
                        position, f"offset {header.base_offset} comes after {segment.next_offset - 1}"
                    )
                epoch = header.partition_leader_epoch
                if epoch > log.epochs.latest_epoch:
                    log.epochs.assign(epoch, header.base_offset)
                segment.index_batch(position, len(batch), header.last_offset, header.max_timestamp)
                if header.producer_id >= 0:
                    replay(log.producers, segment, batch, header)
        except UnreadableBatch as error:
            return error
        except KafkaError as error:
            return UnreadableBatch(-1, f"a transaction marker that cannot be read: {error}")
    return None


def _cut(log: Log, index: int, problem: UnreadableBatch) -> None:
    """End the log before an unsound batch of its unflushed part."""
    segment = log.segments[index]
    logger.warning(
        "%s: cutting %d bytes at position %d, offset %d: %s",
        segment.file.path,
        segment.size - problem.position,
        problem.position,
        segment.next_offset,
        problem.reason,
    )
    later = log.segments[index + 1 :]
    fs = log.pool.fs
    with storage_errors(log.folder):
        for path in mark_deleted(log, later[::-1]):
            unlink_if_exists(fs, path)
        del log.segments[index + 1 :]
        for path in mark_snapshots_deleted(log, segment.next_offset + 1, None):
            unlink_if_exists(fs, path)
        fs.truncate(segment.file.descriptor(), problem.position)
        fs.fsync(segment.file.descriptor())
    segment.size = problem.position
    log.last_snapshot_offset = max(log.snapshot_offsets(), default=-1)


# Producers.


def load_producers(log: Log, end_offset: int) -> None:
    """The producers as they were before `end_offset`: the latest snapshot that can be read, and the batches after it."""
    log.producers, log.last_snapshot_offset = _producers_at(log, end_offset)


def _producers_of_later_snapshot(log: Log, offset: int) -> list[ProducerState]:
    """The producers in the newest good snapshot after `offset`.

    Recovery replays from a segment's base. Where the snapshot there was lost, producers whose last batch is older are known to
    later ones only.
    """
    for later in reversed(log.snapshot_offsets() if log.last_snapshot_offset > offset else []):
        if later <= offset:
            break
        try:
            return list(read_snapshot(log.pool.fs, segment_path(log.folder, later, SNAPSHOT_SUFFIX)).values())
        except CorruptSnapshotError:
            logger.warning("the snapshot of %s at offset %d cannot be used", log.folder, later)
    return []


def _producers_at(log: Log, end_offset: int) -> tuple[ProducerTable, int]:
    """The state before an offset, and the offset of the snapshot that it began with, -1 without any."""
    producers = ProducerTable()
    fs = log.pool.fs
    snapshots = log.snapshot_offsets() if log.last_snapshot_offset >= 0 else []
    start = log.segments[0].base_offset
    found = -1
    for offset in reversed(snapshots):
        path = segment_path(log.folder, offset, SNAPSHOT_SUFFIX)
        if offset > end_offset:
            continue
        try:
            producers.restore(read_snapshot(fs, path))
        except CorruptSnapshotError as error:
            logger.warning("%s cannot be used: %s", path, error)
            with storage_errors(path):
                unlink_if_exists(fs, path)
            continue
        start = found = offset
        break
    for segment in log.segments:
        if segment.base_offset >= end_offset:
            break
        if segment.next_offset > start:
            _replay_segment(producers, None, segment, start, end_offset)
    return producers, found


def _replay_segment(
    producers: ProducerTable, index_of: Segment | None, segment: Segment, start_offset: int, end_offset: int
) -> None:
    """Apply the batches of a segment in [start, end)."""
    first = segment.locate(start_offset)
    if first is None:
        return
    for batch in segment.batches_from(first.position):
        if batch.base_offset >= end_offset:
            return
        if batch.producer_id >= 0:
            data = FileSlice(segment.file, batch.position, batch.size, -1).read_bytes()
            replay(producers, index_of, data, read_header(data))


def aborted_entries(log: Log, segment: Segment) -> list[AbortedTxn]:
    """The aborted transactions of a segment; an index that cannot be read is made anew from the log."""
    assert segment.txn_index is not None
    try:
        return segment.txn_index.entries()
    except CorruptIndexError as error:
        logger.warning("rebuilding %s: %s", segment.txn_index.path, error)
    segment.txn_index.reset()
    producers, _ = _producers_at(log, segment.base_offset)
    _replay_segment(producers, segment, segment, segment.base_offset, segment.next_offset)
    return segment.txn_index.entries()
