"""Cutting a log: a follower that diverged from its leader, or one that must start anew.

The order of the steps makes a crash harmless: later segments go first, newest before oldest, so that what remains at any moment is a
log without a gap. Each step is synced: a power loss after new records were appended must not bring old ones back beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkapy.log import recovery
from kafkapy.log.filesystem import storage_errors, unlink_if_exists
from kafkapy.log.producer_state import ProducerTable
from kafkapy.log.retention import mark_deleted, mark_snapshots_deleted
from kafkapy.log.sparse_index import CorruptIndexError

if TYPE_CHECKING:
    from kafkapy.log.log import Log


def truncate_to(log: Log, offset: int, now_ms: int) -> list[str]:
    """Drop everything from `offset` on; returns the files to unlink."""
    assert offset >= 0, "an offset"
    if offset >= log.log_end_offset:
        log.epochs.truncate_from_end(log.log_end_offset)
        return []
    if offset < log.segments[0].base_offset:
        return truncate_fully(log, offset, now_ms)
    paths = []
    while len(log.segments) > 1 and log.segments[-1].base_offset >= offset:
        paths += mark_deleted(log, [log.segments.pop()])
    log.active = log.segments[-1]
    with storage_errors(log.folder):
        log.pool.fs.sync_folder(log.folder)
    if log.active.offset_index.entries is None:
        try:
            log.active.offset_index.load()
            log.active.time_index.load()
        except CorruptIndexError as error:
            log.active.rebuild_indexes(str(error))
            log.active.offset_index.load()
            log.active.time_index.load()
    log.active.truncate_to(offset)
    paths += mark_snapshots_deleted(log, offset + 1, None)
    log.truncations += 1
    log.log_end_offset = offset
    log.log_start_offset = min(log.log_start_offset, offset)
    log.recovery_point = min(log.recovery_point, offset)
    log.epochs.truncate_from_end(offset)
    log.producers = ProducerTable()
    recovery.load_producers(log, offset)
    return paths


def truncate_fully(log: Log, offset: int, now_ms: int) -> list[str]:
    """Drop everything; the log begins anew, empty, at `offset`."""
    paths = mark_deleted(log, list(reversed(log.segments)))
    paths += mark_snapshots_deleted(log, 0, None)
    log.segments.clear()
    log.truncations += 1
    log.epochs.clear()
    log.producers = ProducerTable()
    log.log_start_offset = log.log_end_offset = log.recovery_point = offset
    with storage_errors(log.folder):
        log.add_segment(offset, now_ms)
        log.pool.fs.sync_folder(log.folder)
    return paths


def begin_before_start(log: Log, first_offset: int, now_ms: int) -> None:
    """Let an empty log take batches from `first_offset` on, although what is before its start is deleted."""
    assert log.log_end_offset == log.log_start_offset, "an empty log"
    start = log.log_start_offset
    paths = truncate_fully(log, first_offset, now_ms)
    log.log_start_offset = start
    with storage_errors(log.folder):
        for path in paths:
            unlink_if_exists(log.pool.fs, path)
