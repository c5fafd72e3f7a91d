"""Replacing closed segments by others with the same offsets, which is what compaction does, in Kafka's steps.

    1. The new segments are written as `*.cleaned`.         A crash leaves rubbish: removed at the next start.
    2. They are renamed to `*.swap`, the last one first.    While a `.cleaned` is left, every `.swap` at or after it is rubbish.
    3. The old segments are renamed to `*.deleted`.         From here on the new ones count: a crash leaves old files beside `.swap`.
    4. The `.swap` suffix is dropped.                       A restart removes the old files that a swap covers, and does this step.

The point of no return is the end of step 2: once no `.cleaned` is left, the swap will be completed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafkapy.log.batch_walk import UnreadableBatch
from kafkapy.log.filesystem import FileEntry, unlink_if_exists
from kafkapy.log.retention import mark_deleted
from kafkapy.log.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    Segment,
)

if TYPE_CHECKING:
    from kafkapy.log.files import FilePool
    from kafkapy.log.log import Log

logger = logging.getLogger(__name__)


def cleaned_segment(
    pool: FilePool,
    folder: str,
    base_offset: int,
    index_interval_bytes: int,
    index_bytes_max: int,
    *,
    active: bool,
    size: int = 0,
) -> Segment:
    """A segment in `*.cleaned` files: `active` for whoever writes it, not so for the log that takes it over."""
    return Segment(
        pool,
        folder,
        base_offset,
        size=size,
        index_interval_bytes=index_interval_bytes,
        index_bytes_max=index_bytes_max,
        created_ms=0,
        active=active,
        suffix=CLEANED_SUFFIX,
    )


def replace_segments(log: Log, new: list[Segment], old: list[Segment]) -> list[str]:
    """Put `new` (`cleaned_segment`s, flushed) in the place of `old`; returns the old files to unlink later.

    `old` are neighbours among the log's closed segments and `new` cover no other offsets. Both are in rising order. The loop does not
    wait for the disk here: the caller has the folder synced in a thread before it unlinks the old files.
    """
    first = log.segments.index(old[0])
    assert log.segments[first : first + len(old)] == old, "the segments to replace are not neighbours in the log"
    assert old[-1] is not log.active, "the active segment is never replaced"
    for segment in new:
        segment.save_indexes()
        segment.unload_indexes()
    for segment in reversed(new):
        segment.rename_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
    end_offset = log.segments[first + len(old)].base_offset
    log.segments[first : first + len(old)] = new
    for segment, following in zip(new, [*new[1:], None], strict=True):
        segment.next_offset = end_offset if following is None else following.base_offset
    paths = mark_deleted(log, old)
    for segment in new:
        segment.rename_suffix(SWAP_SUFFIX, "")
    return paths


def finish_replacements(log: Log, entries: list[FileEntry]) -> list[FileEntry]:
    """At load: remove leftovers and complete a swap that had reached its point of no return. Returns what is there now."""
    fs, folder = log.pool.fs, log.folder
    leftovers = [entry.name for entry in entries if entry.name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX))]
    if not leftovers:
        return entries
    cleaned = [int(name.partition(".")[0]) for name in leftovers if name.endswith(CLEANED_SUFFIX)]
    first_cleaned = min(cleaned, default=2**63)
    for name in leftovers:
        is_swap = name.endswith(SWAP_SUFFIX)
        if not is_swap or int(name.partition(".")[0]) >= first_cleaned:
            logger.info("removing %s/%s, which an interrupted step left behind", folder, name)
            unlink_if_exists(fs, f"{folder}/{name}")
    _complete_swap(log, fs.list(folder))
    return fs.list(folder)


def _complete_swap(log: Log, entries: list[FileEntry]) -> None:
    """Remove the old segments that `.swap` files cover, then drop that suffix."""
    fs, folder = log.pool.fs, log.folder
    swaps = [entry for entry in entries if entry.name.endswith(SWAP_SUFFIX)]
    ranges = []
    for entry in swaps:
        if entry.name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            base_offset = int(entry.name.partition(".")[0])
            ranges.append((base_offset, _end_of_swap(log, base_offset, entry.size)))
    if ranges:
        start, end = min(first for first, _ in ranges), max(last for _, last in ranges)
        for entry in entries:
            stem, dot, kind = entry.name.partition(".")
            if stem.isdecimal() and dot + kind in SEGMENT_SUFFIXES and start <= int(stem) < end:
                logger.info("removing %s/%s, which a completed compaction replaces", folder, entry.name)
                unlink_if_exists(fs, f"{folder}/{entry.name}")
    for entry in swaps:
        fs.rename(f"{folder}/{entry.name}", f"{folder}/{entry.name.removesuffix(SWAP_SUFFIX)}")


def _end_of_swap(log: Log, base_offset: int, size: int) -> int:
    """The offset after the last batch of a `.swap` file."""
    segment = Segment(
        log.pool,
        log.folder,
        base_offset,
        size=size,
        index_interval_bytes=0,
        index_bytes_max=0,
        created_ms=0,
        active=False,
        suffix=SWAP_SUFFIX,
    )
    end = base_offset + 1
    try:
        for batch in segment.batches_from(0):
            end = batch.last_offset + 1
    except UnreadableBatch as error:
        raise segment.damaged(error) from error
    finally:
        segment.file.close()
    return end
