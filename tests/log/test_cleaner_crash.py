"""A kill, a power loss, a full disk or a changing log at every step of a round: nothing is lost, nothing comes back, nothing is left behind."""

from __future__ import annotations

import pytest

from kafkapy.errors import StorageError
from kafkapy.log.append_info import AppendOrigin
from kafkapy.log.cleaner import CompactionJob
from kafkapy.log.compaction import SourceGoneError
from kafkapy.log.compaction_task import CompactedGroup
from kafkapy.log.filesystem import DiskFullError
from kafkapy.log.log import Log
from kafkapy.log.memory_files import MemoryFilesystem
from kafkapy.wire.records import BatchBuilder, Record, encode_end_txn_marker
from tests.log.cleaning import clean, job_for, visible, work_on
from tests.log.support import FOLDER, NOW_MS, append, batch, config, killed_at, open_log

SETTINGS = config(cleanup_policy="compact", segment_bytes=900, index_interval_bytes=100)
LEFTOVERS = (".cleaned", ".swap", ".deleted")


def filled(disk: MemoryFilesystem) -> Log:
    """Several segments, with an aborted transaction and a producer's last batch among records that are superseded."""
    log = open_log(disk, settings=SETTINGS)
    for number in range(24):
        builder = BatchBuilder(producer_id=5, producer_epoch=0, base_sequence=2 * number)
        builder.append(NOW_MS + number, b"k%d" % (number % 5), b"%d" % number)
        builder.append(NOW_MS + number, b"only%d" % number, b"x" * 20)
        append(log, builder.build())
    for number in range(6):
        aborted = BatchBuilder(producer_id=8, producer_epoch=0, base_sequence=number, transactional=True)
        aborted.append(NOW_MS, b"k%d" % (number % 3), b"never")
        append(log, aborted.build())
        marker = encode_end_txn_marker(number % 2 == 0, 0, 8, 0, NOW_MS)
        log.append_as_leader(marker, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
        log.producers.high_watermark_reached(log.log_end_offset)
    log.roll(NOW_MS)
    append(log, batch())
    log.flush(NOW_MS)
    return log


def last_values(log: Log) -> dict[bytes | None, Record]:
    """What a table made from the topic holds."""
    return {record.key: record for record in visible(log, True)}


def whole_round(log: Log) -> None:
    """What the worker does and what the loop does with it; the old files stay."""
    job = job_for(log, NOW_MS)
    assert job is not None
    for group in work_on(log, job).groups():
        assert job.install(group) is not None


@pytest.mark.parametrize("how", ["after_kill", "after_power_loss"])
def test_crash_at_every_step_of_a_round(how: str) -> None:
    """Whatever a crash leaves, the next start serves the same last values, knows the same producers, and tidies up."""
    expected = last_values(filled(MemoryFilesystem()))
    sizes = set()
    for stop_at in range(1, 400):
        disk = MemoryFilesystem()
        log = filled(disk)
        producers = {state.producer_id: state.next_sequence for state in log.producers.states.values()}
        disk.fault = killed_at(stop_at)
        finished = True
        try:
            whole_round(log)
        except StorageError:
            finished = False
        found = getattr(disk, how)()
        again = open_log(found, settings=SETTINGS, clean=False, recovery_point=log.log_end_offset)
        assert last_values(again) == expected, stop_at
        assert {s.producer_id: s.next_sequence for s in again.producers.states.values()} == producers
        assert not [path for path in found.files if path.endswith(LEFTOVERS)]
        for _ in range(2):  # The first may only be able to note when a marker may go.
            clean(again, NOW_MS)
        assert last_values(again) == expected
        sizes.add(again.size_bytes)
        if finished:
            break
    assert finished
    assert len(sizes) == 1, "however often it was interrupted, the result is the same"


def test_full_disk_leaves_the_log_as_it_was() -> None:
    """The worker says so, and the log goes on."""
    disk = MemoryFilesystem()
    log = filled(disk)
    expected = last_values(log)
    disk.capacity_bytes = sum(len(file.data) for file in disk.files.values()) + 300
    job = job_for(log, NOW_MS)
    assert job is not None
    with pytest.raises(DiskFullError):
        list(work_on(log, job).groups())
    job.discard_unfinished()
    assert not [path for path in disk.files if path.endswith(LEFTOVERS)]
    assert last_values(log) == expected
    disk.capacity_bytes = 2**63
    assert clean(log, NOW_MS) is not None


def started(log: Log) -> tuple[CompactionJob, CompactedGroup]:
    """A round whose first group is on disk and not swapped in."""
    job = job_for(log, NOW_MS)
    assert job is not None
    return job, next(work_on(log, job).groups())


@pytest.mark.parametrize("offset", [3, 20, 50, 59])
def test_result_is_thrown_away_when_the_log_was_truncated(offset: int) -> None:
    """Even when the log has grown again to what it was: the segments are others."""
    disk = MemoryFilesystem()
    log = filled(disk)
    job, group = started(log)
    assert offset < log.segments[-1].base_offset
    end = log.log_end_offset
    for path in log.truncate_to(offset, NOW_MS):
        disk.unlink(path)
    while log.log_end_offset < end:
        append(log, batch())
    log.roll(NOW_MS)
    kept = visible(log, True)
    assert not job.is_current()
    assert job.install(group) is None
    assert visible(log, True) == kept
    assert not [path for path in disk.files if path.endswith(LEFTOVERS)]


def test_result_is_thrown_away_when_its_segments_were_trimmed() -> None:
    """Retention took the first segment; what else the round brings is still good."""
    disk = MemoryFilesystem()
    log = filled(disk)
    job = job_for(log, NOW_MS)
    assert job is not None
    groups = list(work_on(log, job).groups())
    assert len(groups) > 1
    log.maybe_increment_log_start_offset(log.segments[1].base_offset)
    assert log.delete_old_segments(NOW_MS)
    assert job.is_current()
    assert job.install(groups[0]) is None
    assert job.install(groups[1]) is not None


def test_work_ends_when_the_folder_is_renamed() -> None:
    """The topic was deleted."""
    disk = MemoryFilesystem()
    log = filled(disk)
    job = job_for(log, NOW_MS)
    assert job is not None
    log.close_files()
    disk.rename(FOLDER, FOLDER + ".0-delete")
    with pytest.raises(SourceGoneError):
        list(work_on(log, job).groups())
    assert not [path for path in disk.files if path.startswith(FOLDER + "/") and path.endswith(".log")]


def test_rubbish_of_an_earlier_attempt_is_removed_first() -> None:
    """A `.cleaned` file tells a restart that no swap had begun, so none may be left over when one does."""
    disk = MemoryFilesystem()
    log = filled(disk)
    disk.open(f"{FOLDER}/{7:020d}.log.cleaned")
    started(log)
    assert [path for path in disk.files if path.endswith(".log.cleaned")] == [f"{FOLDER}/{0:020d}.log.cleaned"]
