"""Segments that leave a log: by retention, by truncation, by being replaced."""

from __future__ import annotations

import pytest

from kafkapy.errors import StorageError
from kafkapy.log.filesystem import unlink_if_exists
from kafkapy.log.log import Log
from kafkapy.log.memory_files import MemoryFilesystem
from kafkapy.log.replacement import cleaned_segment, replace_segments
from kafkapy.log.segment import Segment
from kafkapy.wire.record_batch import iterate_batches, read_header
from tests.log.support import (
    FOLDER,
    NOW_MS,
    append,
    batch,
    config,
    headers,
    killed_at,
    offsets_of,
    open_log,
    read_all,
)

DAY_MS = 86_400_000


def rolled(disk: MemoryFilesystem | None = None, count: int = 20, **settings: object) -> Log:
    """A log of many segments, each with two batches of two records; times rise by one minute a batch."""
    log = open_log(disk, settings=config(**{"segment_bytes": 250, **settings}))
    for number in range(count):
        append(log, batch(2, timestamp=NOW_MS + number * 60_000), now_ms=NOW_MS + number * 60_000)
    return log


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_retention_by_time_deletes_from_the_oldest_on() -> None:
    """A segment goes once its latest record is older than retention.ms; its files are only renamed."""
    disk = MemoryFilesystem()
    log = rolled(disk, retention_ms=600_000)
    newest = NOW_MS + 19 * 60_000 + 1
    before = bases(log)
    paths = log.delete_old_segments(newest)
    gone = [base for base in before if base not in bases(log)]
    assert gone == [base for base in before if NOW_MS + (base // 2 + 1) * 60_000 + 1 < newest - 600_000]
    assert log.log_start_offset == bases(log)[0] and offsets_of(read_all(log))[0] == log.log_start_offset
    assert {path for path in disk.files if path.endswith(".deleted")} == set(paths)
    assert len([path for path in paths if ".log" in path]) == len(gone)
    assert log.delete_old_segments(newest) == []


def test_retention_may_take_everything_but_an_empty_segment() -> None:
    """When even the active segment is old it is rolled first; the log's end stays where it was."""
    log = rolled(retention_ms=1000)
    assert log.delete_old_segments(NOW_MS + DAY_MS)
    assert bases(log) == [40] and (log.log_start_offset, log.log_end_offset) == (40, 40)
    assert log.delete_old_segments(NOW_MS + 9 * DAY_MS) == []
    assert append(log, batch()) == 40


def test_retention_by_size_leaves_at_least_that_much() -> None:
    """The oldest go as long as retention.bytes remain."""
    log = rolled(retention_bytes=1000, retention_ms=-1)
    log.delete_old_segments(NOW_MS)
    assert 1000 <= log.size_bytes < 1000 + log.segments[0].size


def test_unlimited_retention_keeps_everything() -> None:
    """-1 means no limit, for time and size."""
    log = rolled(retention_bytes=-1, retention_ms=-1)
    assert log.delete_old_segments(NOW_MS + 9999 * DAY_MS) == []


def test_nothing_above_the_high_watermark_is_deleted() -> None:
    """A follower may still need it."""
    log = rolled(retention_ms=1000)
    log.delete_old_segments(NOW_MS + DAY_MS, high_watermark=11)
    assert log.log_start_offset == 8


def test_segments_before_the_log_start_go_whatever_the_policy() -> None:
    """DeleteRecords works on compacted and unlimited logs too."""
    log = rolled(cleanup_policy="compact", retention_ms=1)
    assert log.delete_old_segments(NOW_MS + DAY_MS) == []
    log.maybe_increment_log_start_offset(13)
    assert log.delete_old_segments(NOW_MS + DAY_MS)
    assert bases(log)[0] == 12 and log.log_start_offset == 13


def test_deleted_files_are_removed_at_the_next_start() -> None:
    """A broker that dies before it has unlinked them leaves no rubbish."""
    disk = MemoryFilesystem()
    log = rolled(disk, retention_ms=600_000)
    log.delete_old_segments(NOW_MS + 19 * 60_000)
    again = open_log(disk.after_kill(), settings=log.config, clean=False, log_start_offset=log.log_start_offset)
    assert not [path for path in again.pool.fs.files if path.endswith(".deleted")]  # type: ignore[attr-defined]
    assert read_all(again) == read_all(log)


@pytest.mark.parametrize("offset", range(42))
def test_truncation_leaves_the_log_as_it_was_at_that_offset(offset: int) -> None:
    """Segments, indexes, epochs and producers go back; appending goes on from there, also after a kill."""
    disk = MemoryFilesystem()
    log = open_log(disk, settings=config(segment_bytes=250, index_interval_bytes=0))
    for number in range(20):
        append(log, batch(2, timestamp=NOW_MS + number, producer=(3, 0, 2 * number)), epoch=number // 4)
    log.flush(NOW_MS)
    paths = log.truncate_to(offset, NOW_MS)
    end = min(offset, 40)
    whole = end - end % 2
    assert log.log_end_offset == end and log.recovery_point == end
    assert offsets_of(read_all(log)) == list(range(whole))
    assert [entry for entry in log.epochs.entries if entry.start_offset >= max(end, 1)] == []
    states = log.producers.states
    assert (states[3].next_sequence if states else 0) == whole
    for path in paths:
        assert path.endswith(".deleted") and unlink_if_exists(disk, path)
    found = log.offset_for_timestamp(NOW_MS + 18)
    assert (found.offset if found else None) == (35 if end > 35 else None)
    append(log, batch(3), epoch=9)
    again = open_log(disk.after_kill(), settings=log.config, clean=False, recovery_point=end)
    assert read_all(again) == read_all(log) and again.log_end_offset == end + 3


def test_truncation_below_the_first_segment_begins_anew() -> None:
    """A follower whose leader has less than all of it starts over."""
    log = rolled(retention_ms=600_000)
    log.delete_old_segments(NOW_MS + 19 * 60_000)
    log.truncate_to(3, NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, bases(log)) == (3, 3, [3])
    log.truncate_fully_and_start_at(1000, NOW_MS)
    assert append(log, batch(2)) == 1000
    assert headers(log.read(1001, 1000).read_bytes())[0].base_offset == 1000


def new_cleaned_segment(log: Log, base_offset: int) -> Segment:
    """An empty segment to be filled and swapped in."""
    segment = cleaned_segment(log.pool, log.folder, base_offset, 100, 1000, active=True)
    segment.file.create()
    return segment


def compacted(log: Log, keep: int) -> tuple[list[Segment], list[Segment]]:
    """New segments in the place of the first three: only every `keep`-th batch survives."""
    old = log.segments[:3]
    segment = new_cleaned_segment(log, old[0].base_offset)
    for source in old:
        data = log.read(source.base_offset, 1 << 20).read_bytes()
        for position, header in iterate_batches(data):
            if header.base_offset % keep == 0:
                piece = data[position : position + header.size]
                segment.append(piece, len(piece), header.last_offset, header.max_timestamp)
    return [segment], old


def test_replaced_segments_serve_what_the_new_ones_hold() -> None:
    """Reads go on across the gaps; the old files wait for their unlinking."""
    log = rolled()
    end = log.segments[2].next_offset
    new, old = compacted(log, 8)
    paths = replace_segments(log, new, old)
    assert len([path for path in paths if path.endswith(".log.deleted")]) == 3
    expected = [offset for offset in range(end) if offset % 8 < 2] + list(range(end, 40))
    assert offsets_of(read_all(log)) == expected
    for offset in range(40):
        found = read_header(log.read(offset, 1).read_bytes())
        assert found.last_offset >= offset and found.base_offset <= min(o for o in expected if o >= offset)


def test_replacement_by_nothing_but_an_empty_segment() -> None:
    """When compaction keeps no record of a segment, its offsets are a gap."""
    log = rolled()
    segment = new_cleaned_segment(log, 0)
    replace_segments(log, [segment], log.segments[:2])
    assert offsets_of(read_all(log)) == list(range(8, 40))


def test_kill_between_any_two_steps_of_a_replacement() -> None:
    """Before the point of no return the old segments are served, after it the new ones; never both, never a mixture."""
    outcomes = set()
    for stop_at in range(1, 200):
        disk = MemoryFilesystem()
        log = rolled(disk)
        log.flush(NOW_MS)
        end = log.segments[2].next_offset
        old_offsets = list(range(40))
        new_offsets = [offset for offset in range(end) if offset % 8 < 2] + list(range(end, 40))
        new, old = compacted(log, 8)
        disk.fault = killed_at(stop_at)
        finished = True
        try:
            replace_segments(log, new, old)
        except StorageError:
            finished = False
        for clean in (True, False):
            killed = disk.after_kill()
            again = open_log(killed, settings=log.config, clean=clean, recovery_point=40)
            found = offsets_of(read_all(again))
            assert found in (old_offsets, new_offsets), stop_at
            outcomes.add(len(found))
            assert not [path for path in killed.files if path.endswith((".swap", ".cleaned", ".deleted"))]
            assert append(again, batch()) == 40
        if finished:
            assert found == new_offsets
            break
    assert len(outcomes) == 2


def test_swap_beside_a_cleaned_file_of_an_earlier_offset_is_rubbish() -> None:
    """While a .cleaned is left the renaming had not reached its end."""
    disk = MemoryFilesystem()
    log = rolled(disk)
    log.flush(NOW_MS)
    disk.open(f"{FOLDER}/{0:020d}.log.cleaned")
    disk.open(f"{FOLDER}/{4:020d}.log.swap")
    again = open_log(disk.after_kill(), settings=log.config, clean=False, recovery_point=40)
    assert offsets_of(read_all(again)) == list(range(40))
