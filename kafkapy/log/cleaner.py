"""Which logs are worth compacting, what exactly is to be done, and swapping the result in. All of it belongs to the loop.

A log under cleanup.policy=compact has a clean part, up to where the last round ended (the cleaner's checkpoint), and a dirty part:

    | clean                 | dirty, cleanable       | dirty, not cleanable yet        |
    log start         first dirty offset     first uncleanable offset          log end

Not cleanable are: the active segment; whatever a transaction may still decide or the replicas may not have (from the segment that holds
the last stable offset on); segments with a record younger than min.compaction.lag.ms. A log is due when the cleanable bytes are more
than min.cleanable.dirty.ratio of clean and cleanable ones, or when a dirty segment began more than max.compaction.lag.ms ago.

The work itself (compaction.py) takes long and happens elsewhere, while the log lives on. So a `CompactionJob` remembers the segments it
began with, and installs a result only if these very segments still stand in the log as neighbours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkapy.log.compaction_task import CompactedGroup, CompactionTask, LastRecord, SegmentSource
from kafkapy.log.filesystem import storage_errors, unlink_if_exists
from kafkapy.log.replacement import cleaned_segment, replace_segments
from kafkapy.log.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
    segment_path,
)
from kafkapy.log.txn_index import TxnIndex

if TYPE_CHECKING:
    from kafkapy.log.log import Log

_NEVER_MS = 2**63 - 1


class CleanableRange(NamedTuple):
    """The dirty part of a log that may be compacted now."""

    first_dirty_offset: int
    first_uncleanable_offset: int  # where a segment begins
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        """The share of cleanable bytes; 0 where there are no bytes at all."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0


def cleanable_range(log: Log, last_stable_offset: int, checkpoint: int | None, now_ms: int) -> CleanableRange:
    """What of a log is dirty and cleanable. Raises StorageError where a segment's times cannot be read."""
    first_dirty = _first_dirty_offset(log, checkpoint)
    closed = log.segments[:-1]
    dirty = [segment for segment in closed if segment.next_offset > first_dirty]
    lag_ms = log.config.min_compaction_lag_ms
    uncleanable = min(last_stable_offset, log.active.base_offset)
    if lag_ms > 0:
        young = (segment.base_offset for segment in dirty if segment.largest_timestamp() > now_ms - lag_ms)
        uncleanable = min(uncleanable, next(young, uncleanable))
    uncleanable = max(uncleanable, first_dirty)
    # Whole segments only: from the one that holds the offset on, nothing is touched.
    boundary = next((s.base_offset for s in closed if s.next_offset > uncleanable), log.active.base_offset)
    return CleanableRange(
        first_dirty,
        boundary,
        sum(segment.size for segment in closed if segment.base_offset < min(first_dirty, boundary)),
        # A segment that is dirty only in part counts as both, as Kafka has it.
        sum(segment.size for segment in dirty if segment.base_offset < boundary),
        _is_overdue(log, dirty, now_ms),
    )


def is_due(log: Log, dirty: CleanableRange) -> bool:
    """Whether compacting now is worth its cost."""
    if not dirty.cleanable_bytes:
        return False
    return dirty.is_overdue or dirty.dirty_ratio > log.config.min_cleanable_dirty_ratio


def _first_dirty_offset(log: Log, checkpoint: int | None) -> int:
    """Where the dirty part begins. A checkpoint outside of the log says nothing."""
    if checkpoint is None or not log.log_start_offset <= checkpoint <= log.log_end_offset:
        return log.log_start_offset
    return checkpoint


def _is_overdue(log: Log, dirty: list[Segment], now_ms: int) -> bool:
    """Whether a dirty record has waited for longer than max.compaction.lag.ms."""
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms == _NEVER_MS:
        return False
    return any(0 < segment.first_batch_timestamp() < now_ms - lag_ms for segment in dirty)


class CompactionJob:
    """One round of compaction: the task for the worker, and what is needed to judge its results."""

    __slots__ = ("_by_base", "_following", "log", "task")

    def __init__(
        self,
        log: Log,
        dirty: CleanableRange,
        now_ms: int,
        *,
        map_bytes: int,
        map_load_factor: float,
    ) -> None:
        segments = [segment for segment in log.segments[:-1] if segment.base_offset < dirty.first_uncleanable_offset]
        end = dirty.first_uncleanable_offset
        self.log = log
        self._by_base = {segment.base_offset: segment for segment in segments}
        # A truncation that reaches the last of the segments takes the one behind it away first, so seeing that one is seeing that
        # there was none.
        self._following = log.segments[len(segments)]
        config = log.config
        self.task = CompactionTask(
            folder=log.folder,
            segments=[
                SegmentSource(segment.base_offset, following.base_offset, segment.size)
                for segment, following in zip(segments, log.segments[1:], strict=False)
            ],
            first_dirty_offset=dirty.first_dirty_offset,
            first_uncleanable_offset=end,
            now_ms=now_ms,
            delete_retention_ms=config.delete_retention_ms,
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            map_bytes=map_bytes,
            map_load_factor=map_load_factor,
            aborted=log.aborted_transactions(segments[0].base_offset, end),
            producers=[
                LastRecord(state.producer_id, state.epoch, state.last_offset)
                for state in log.producers.states.values()
                if state.last_offset < end
            ],
        )

    def is_current(self) -> bool:
        """Whether no truncation has reached what is being compacted."""
        return self._following in self.log.segments

    def install(self, group: CompactedGroup) -> list[str] | None:
        """Put a compacted group in the place of its segments; returns the old files, to be unlinked after file.delete.delay.ms.

        None: they are not in the log any more, and the result is thrown away. Nothing is flushed here: let the folder be synced in
        a thread before the old files go. Raises StorageError.
        """
        log = self.log
        old = [self._by_base[base_offset] for base_offset in group.base_offsets]
        if not self._is_in_log(old):
            self.discard(group.base_offsets[0])
            return None
        new = cleaned_segment(
            log.pool,
            log.folder,
            group.base_offsets[0],
            log.config.index_interval_bytes,
            log.config.segment_index_bytes,
            active=False,
            size=group.size,
        )
        new.modified_ms = old[-1].modified_ms
        if group.has_aborted:
            path = segment_path(log.folder, new.base_offset, TXN_INDEX_SUFFIX + CLEANED_SUFFIX)
            new.txn_index = TxnIndex(log.pool.fs, path)
        paths = replace_segments(log, [new], old)
        with storage_errors(log.folder):
            for segment in old[1:]:
                # Nothing begins here any more, so no replay will.
                path = segment_path(log.folder, segment.base_offset, SNAPSHOT_SUFFIX)
                if log.pool.fs.exists(path):
                    log.pool.fs.rename(path, path + DELETED_SUFFIX)
                    paths.append(path + DELETED_SUFFIX)
        return paths

    def _is_in_log(self, old: list[Segment]) -> bool:
        segments = self.log.segments
        if self.log.failure is not None or not self.is_current() or old[0] not in segments:
            return False
        first = segments.index(old[0])
        return segments[first : first + len(old)] == old

    def discard(self, base_offset: int) -> None:
        """Remove the files of a result that is not wanted, or that was not finished."""
        with storage_errors(self.log.folder):
            for suffix in SEGMENT_SUFFIXES:
                unlink_if_exists(self.log.pool.fs, segment_path(self.log.folder, base_offset, suffix + CLEANED_SUFFIX))

    def discard_unfinished(self) -> None:
        """Remove the files of whatever result was being written when the work ended."""
        for base_offset in self._by_base:
            self.discard(base_offset)
