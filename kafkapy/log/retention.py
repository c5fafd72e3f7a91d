"""Letting go of old segments: by time, by size, and those before the log's start.

A segment leaves in two steps, as in Kafka: its files are renamed to `*.deleted`, which a restart removes, and the shell unlinks them
after file.delete.delay.ms, when no reader is likely to be in them. Nothing above the high watermark is ever deleted.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafkapy.log.filesystem import storage_errors
from kafkapy.log.segment import DELETED_SUFFIX, SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, Segment, segment_path

if TYPE_CHECKING:
    from kafkapy.log.log import Log

logger = logging.getLogger(__name__)


def delete_old_segments(log: Log, now_ms: int, high_watermark: int) -> list[str]:
    """Apply the topic's retention; returns the renamed files."""
    count = _count_before_start(log)
    if "delete" in log.config.cleanup_policy:
        count = max(count, _count_by_size(log), _count_by_time(log, now_ms))
    while count and _end_offset(log, count - 1) > high_watermark:
        count -= 1
    if not count:
        return []
    if count == len(log.segments):
        if not log.active.size:
            count -= 1
        else:
            log.roll(now_ms)
    doomed = log.segments[:count]
    if not doomed:
        return []
    log.maybe_increment_log_start_offset(log.segments[count].base_offset)
    logger.info("%s: deleting %d segments before offset %d", log.topic_partition, count, log.log_start_offset)
    del log.segments[:count]
    paths = mark_deleted(log, doomed)
    # The snapshot at the first remaining segment is where a replay of what is left would begin.
    return paths + mark_snapshots_deleted(log, 0, log.segments[0].base_offset)


def _end_offset(log: Log, index: int) -> int:
    return log.segments[index + 1].base_offset if index + 1 < len(log.segments) else log.log_end_offset


def _count_before_start(log: Log) -> int:
    """How many segments end before the log's start."""
    count = 0
    while count + 1 < len(log.segments) and log.segments[count + 1].base_offset <= log.log_start_offset:
        count += 1
    return count


def _count_by_size(log: Log) -> int:
    """How many of the oldest segments can go so that at least retention.bytes remain."""
    if log.config.retention_bytes < 0:
        return 0
    excess = log.size_bytes - log.config.retention_bytes
    count = 0
    for segment in log.segments:
        excess -= segment.size
        if excess < 0:
            break
        count += 1
    return count


def _count_by_time(log: Log, now_ms: int) -> int:
    """How many of the oldest segments have no record younger than retention.ms."""
    if log.config.retention_ms < 0:
        return 0
    count = 0
    for segment in log.segments:
        if not segment.size and segment is log.active:
            break
        largest = segment.largest_timestamp()
        if now_ms - (largest if largest >= 0 else segment.modified_ms) <= log.config.retention_ms:
            break
        count += 1
    return count


def mark_deleted(log: Log, segments: list[Segment]) -> list[str]:
    """Rename the files of segments that left the log; returns their new paths."""
    fs = log.pool.fs
    paths = []
    for segment in segments:
        segment.rename_suffix("", DELETED_SUFFIX)
        segment.file.close()
        for suffix in SEGMENT_SUFFIXES:
            path = segment_path(log.folder, segment.base_offset, suffix) + DELETED_SUFFIX
            if fs.exists(path):
                paths.append(path)
    return paths


def mark_snapshots_deleted(log: Log, first_offset: int, end_offset: int | None) -> list[str]:
    """Rename the producer snapshots in [first, end); returns their new paths."""
    paths = []
    with storage_errors(log.folder):
        for offset in log.snapshot_offsets():
            if first_offset <= offset and (end_offset is None or offset < end_offset):
                path = segment_path(log.folder, offset, SNAPSHOT_SUFFIX)
                log.pool.fs.rename(path, path + DELETED_SUFFIX)
                paths.append(path + DELETED_SUFFIX)
    return paths
