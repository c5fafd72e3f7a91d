"""What a log is after a crash: the table of crash cases, exhaustive where it is small enough."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from kafkapy.errors import KafkaError, StorageError
from kafkapy.log.append_info import AppendOrigin
from kafkapy.log.filesystem import DamagedLogError
from kafkapy.log.log import Log
from kafkapy.log.memory_files import MemoryFilesystem
from kafkapy.wire.records import encode_end_txn_marker
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

SMALL = config(segment_bytes=600, index_interval_bytes=100)


def content(disk: MemoryFilesystem, name: str) -> bytearray:
    """The bytes of a file in the partition's folder, to be changed in place."""
    return disk.files[f"{FOLDER}/{name}"].data


def filled(disk: MemoryFilesystem, batches: int = 12, settings: object = SMALL) -> Log:
    """A log of several segments with an idempotent producer's batches among others."""
    log = open_log(disk, settings=settings)  # type: ignore[arg-type]
    sequence = 0
    for number in range(batches):
        if number % 3 == 2:
            append(log, batch(2, timestamp=NOW_MS + number, producer=(9, 0, sequence)), epoch=number // 5)
            sequence += 2
        else:
            append(log, batch(2, timestamp=NOW_MS + number), epoch=number // 5)
    return log


def indexes(log: Log) -> list[tuple[int, bytes, bytes]]:
    """The entries of all indexes."""
    found = []
    for segment in log.segments:
        segment.offset_index.load()
        segment.time_index.load()
        found.append((segment.base_offset, bytes(segment.offset_index.entries), bytes(segment.time_index.entries)))  # type: ignore[arg-type]
    return found


def producers(log: Log) -> list[tuple[int, int, int, int, int]]:
    """What is remembered of each producer, but for the older of its batches."""
    return sorted(
        (s.producer_id, s.epoch, s.next_sequence, s.last_offset, s.txn_first_offset)
        for s in log.producers.states.values()
    )


def test_log_without_a_crash_is_the_same_after_kill_and_after_a_clean_stop() -> None:
    """Recovery finds the end, the epochs, the producers; the indexes are those that appending made."""
    disk = MemoryFilesystem()
    log = filled(disk)
    data, states, epochs = read_all(log), producers(log), list(log.epochs.entries)
    killed = open_log(disk.after_kill(), settings=SMALL, clean=False)
    log.close()
    stopped = open_log(disk.after_kill(), settings=SMALL, clean=True)
    for again in (killed, stopped):
        assert again.log_end_offset == 24 and again.log_start_offset == 0
        assert read_all(again) == data
        assert producers(again) == states
        assert again.epochs.entries == epochs
        assert append(again, batch(2, producer=(9, 0, 8))) == 24
    for closed in killed.segments[:-1]:
        closed.time_index.load()
        assert closed.time_index.last_entry()[0] == closed.largest_timestamp()


def test_cut_at_every_byte_of_the_last_batches() -> None:
    """A torn write leaves any prefix: the log is cut at the last whole batch, and goes on from there."""
    disk = MemoryFilesystem()
    log = filled(disk)
    last = f"{log.active.base_offset:020d}.log"
    ends = [header.size for header in headers(log.read(log.active.base_offset, 1 << 20).read_bytes())]
    boundaries = [sum(ends[:count]) for count in range(len(ends) + 1)]
    for size in range(log.active.size):
        torn = disk.after_kill()
        del content(torn, last)[size:]
        again = open_log(torn, settings=SMALL, clean=False)
        whole = max(index for index, end in enumerate(boundaries) if end <= size)
        assert again.log_end_offset == log.active.base_offset + 2 * whole, size
        assert again.active.size == boundaries[whole] == len(content(torn, last))
        assert offsets_of(read_all(again)) == list(range(again.log_end_offset))
        assert append(again, batch()) == log.active.base_offset + 2 * whole


@pytest.mark.parametrize(
    "tail", [b"\0" * 700, b"\xff" * 100, b"garbage" * 20, b"x"], ids=["zeros", "ones", "garbage", "one byte"]
)
def test_garbage_after_the_last_batch_is_cut_off(tail: bytes) -> None:
    """Preallocated or unwritten space is never mistaken for data."""
    disk = MemoryFilesystem()
    log = filled(disk)
    content(disk, f"{log.active.base_offset:020d}.log").extend(tail)
    again = open_log(disk.after_kill(), settings=SMALL, clean=False)
    assert read_all(again) == read_all(log)


def test_duplicated_tail_is_cut_off() -> None:
    """A batch whose offset was there already is no continuation."""
    disk = MemoryFilesystem()
    log = filled(disk)
    data = content(disk, f"{log.active.base_offset:020d}.log")
    data.extend(data[-100:])
    data = content(disk, f"{log.active.base_offset:020d}.log")
    again = open_log(disk.after_kill(), settings=SMALL, clean=False)
    assert again.log_end_offset == 24
    assert offsets_of(read_all(again)) == list(range(24))


def test_every_flipped_byte_in_the_unflushed_part_cuts_at_its_batch() -> None:
    """Recovery never serves a damaged batch nor anything after it."""
    disk = MemoryFilesystem()
    log = open_log(disk)
    for _ in range(4):
        append(log, batch(2))
    size = log.active.size
    one = size // 4
    for position in range(size):
        if position % one in range(8) or position % one in range(12, 16):
            continue  # Base offset and leader epoch lie outside of the checksum.
        damaged = disk.after_kill()
        content(damaged, f"{0:020d}.log")[position] ^= 0x40
        again = open_log(damaged, clean=False)
        assert again.log_end_offset == 2 * (position // one), position


@pytest.mark.parametrize("recovery_point,expected", [(0, 6), (4, 6), (6, 6), (7, None), (24, None)])
def test_damage_before_the_recovery_point_is_reported_and_not_cut(recovery_point: int, expected: int | None) -> None:
    """What was flushed once is never guessed away: the error names the file and the position."""
    disk = MemoryFilesystem()
    log = open_log(disk)
    for _ in range(12):
        append(log, batch(2))
    one = log.active.size // 12
    name = f"{0:020d}.log"
    content(disk, name)[3 * one + 70] ^= 1
    before = bytes(content(disk, name))
    if expected is None:
        with pytest.raises(DamagedLogError) as reported:
            open_log(disk, clean=False, recovery_point=recovery_point)
        assert reported.value.path.endswith(name) and f"position {3 * one}" in reported.value.message
        assert content(disk, name) == before
    else:
        assert open_log(disk, clean=False, recovery_point=recovery_point).log_end_offset == expected


def test_log_shorter_than_its_recovery_point_is_reported() -> None:
    """A file that lost flushed batches without leaving a torn one is damage too."""
    disk = MemoryFilesystem()
    log = filled(disk)
    name = f"{log.active.base_offset:020d}.log"
    del content(disk, name)[:]
    with pytest.raises(StorageError, match="before 24"):
        open_log(disk, settings=SMALL, clean=False, recovery_point=24)


def test_segments_after_a_torn_one_are_removed() -> None:
    """Nothing may follow a cut: the log has no gaps."""
    disk = MemoryFilesystem()
    log = filled(disk)
    second = log.segments[1]
    content(disk, f"{second.base_offset:020d}.log")[-1] ^= 1
    again = open_log(disk, settings=SMALL, clean=False)
    assert len(again.segments) == 2 and again.log_end_offset == second.next_offset - 2
    assert offsets_of(read_all(again)) == list(range(again.log_end_offset))
    left = [name for name in disk.files if name.endswith((".log", ".index", ".snapshot"))]
    assert all(int(name.rpartition("/")[2][:20]) <= again.log_end_offset for name in left)


def test_torn_segment_behind_the_recovery_point_without_its_index_is_cut_as_well() -> None:
    """A power loss takes the tail of a closed segment and its index, which nobody had flushed, together."""
    disk = MemoryFilesystem()
    log = filled(disk)
    torn = log.segments[1]
    recovery_point = log.segments[0].next_offset
    disk = disk.after_kill()
    del content(disk, f"{torn.base_offset:020d}.log")[-10:]
    del disk.files[f"{FOLDER}/{torn.base_offset:020d}.index"]
    again = open_log(disk, settings=SMALL, clean=False, recovery_point=recovery_point)
    assert recovery_point <= again.log_end_offset < torn.next_offset


def test_hole_between_two_unflushed_segments_ends_the_log() -> None:
    """A power loss may take the tail of one file, at the border of two batches even, and leave a later file whole."""
    disk = MemoryFilesystem()
    log = filled(disk)
    torn = log.segments[1]
    last = headers(log.read(torn.base_offset, 10_000).read_bytes())[-1]
    recovery_point = torn.base_offset
    disk = disk.after_kill()
    del content(disk, f"{torn.base_offset:020d}.log")[-last.size :]
    again = open_log(disk, settings=SMALL, clean=False, recovery_point=recovery_point)
    assert again.log_end_offset == torn.next_offset - 2
    assert offsets_of(read_all(again)) == list(range(again.log_end_offset))


def delete(name: str) -> Callable[[MemoryFilesystem], None]:
    def damage(disk: MemoryFilesystem) -> None:
        for path in [path for path in disk.files if path.endswith(name)]:
            del disk.files[path]

    return damage


def zero(name: str) -> Callable[[MemoryFilesystem], None]:
    def damage(disk: MemoryFilesystem) -> None:
        for path in [path for path in disk.files if path.endswith(name)]:
            disk.files[path].data[:] = bytes(len(disk.files[path].data))

    return damage


def truncate(name: str, size: int) -> Callable[[MemoryFilesystem], None]:
    def damage(disk: MemoryFilesystem) -> None:
        for path in [path for path in disk.files if path.endswith(name)]:
            del disk.files[path].data[size:]

    return damage


def shift(name: str) -> Callable[[MemoryFilesystem], None]:
    """Entries that look fine and point elsewhere: a stale index."""

    def damage(disk: MemoryFilesystem) -> None:
        for path in [path for path in disk.files if path.endswith(name)]:
            data = disk.files[path].data
            for position in range(7, len(data), 8):
                data[position] ^= 3

    return damage


DAMAGES = {
    f"{verb.__name__} {name} {size or ''}".strip(): verb(name, size) if size else verb(name)  # type: ignore[operator]
    for verb, name, size in [
        *[(delete, name, 0) for name in (".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint")],
        *[(zero, name, 0) for name in (".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint")],
        *[(truncate, name, 5) for name in (".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint")],
        *[(truncate, name, 12) for name in (".index", ".timeindex", ".snapshot")],
        (shift, ".index", 0),
    ]
}


@pytest.mark.parametrize("clean", [True, False], ids=["after a clean stop", "after a kill"])
@pytest.mark.parametrize("name", DAMAGES)
def test_lost_and_damaged_helper_files_change_nothing(name: str, clean: bool) -> None:
    """Indexes are rebuilt, snapshots replaced by a longer replay: the same bytes and times are served."""
    disk = MemoryFilesystem()
    log = filled(disk)
    data, states = read_all(log), producers(log)
    log.close()
    DAMAGES[name](disk)
    again = open_log(disk, settings=SMALL, clean=clean)
    assert again.log_end_offset == 24
    assert read_all(again) == data
    for offset in range(24):
        assert headers(again.read(offset, 150).read_bytes())[0].base_offset == offset - offset % 2
    for number in range(12):
        found = again.offset_for_timestamp(NOW_MS + number)
        assert found is not None and found.offset == max(0, 2 * number - 1), number
    if not name.startswith("delete .snapshot") or not clean:
        assert producers(again) == states
    if not clean:
        assert again.epochs.entries == log.epochs.entries


def test_index_files_without_a_log_are_removed() -> None:
    """An orphan would be taken for the index of a later segment of that offset."""
    disk = MemoryFilesystem()
    filled(disk).close()
    for suffix in (".index", ".timeindex", ".txnindex"):
        disk.open(f"{FOLDER}/{999:020d}{suffix}")
    open_log(disk, settings=SMALL)
    assert not [path for path in disk.files if "999." in path]


def test_kill_between_any_two_steps_of_a_roll() -> None:
    """Whatever step of a roll is the last one done, everything acknowledged is there afterwards."""
    steps = 0
    for stop_at in range(1, 100):
        disk = MemoryFilesystem()
        log = open_log(disk, settings=SMALL)
        for _ in range(3):
            append(log, batch(2, producer=(1, 0, log.log_end_offset)))
        disk.fault = killed_at(stop_at)
        acknowledged = 6
        try:
            while len(log.segments) < 2:
                append(log, batch(2, producer=(1, 0, log.log_end_offset)))
                acknowledged += 2
        except StorageError:
            steps += 1
        else:
            break
        again = open_log(disk.after_kill(), settings=SMALL, clean=False)
        assert again.log_end_offset >= acknowledged
        assert offsets_of(read_all(again)) == list(range(again.log_end_offset))
        assert producers(again)[0][2] == again.log_end_offset
    assert steps > 5, "a roll has that many steps"


def test_failed_step_of_a_roll_on_a_full_disk_is_repeated() -> None:
    """A disk without room refuses the append; once there is room the same log goes on."""
    for stop_at in range(1, 100):
        disk = MemoryFilesystem()
        log = open_log(disk, settings=SMALL)
        for _ in range(3):
            append(log, batch(2))
        done = 0

        def full(operation: str, path: str) -> OSError | None:
            nonlocal done
            if operation not in ("pwrite", "open"):
                return None
            done += 1
            return OSError(errno.ENOSPC, "No space left") if done == stop_at else None  # noqa: B023

        disk.fault = full
        refused = 0
        while len(log.segments) < 2:
            try:
                append(log, batch(2))
            except StorageError:
                refused += 1
        disk.fault = None
        append(log, batch(2))
        assert offsets_of(read_all(log)) == list(range(log.log_end_offset))
        again = open_log(disk.after_kill(), settings=SMALL, clean=False)
        assert read_all(again) == read_all(log)
        if not refused:
            return
    raise AssertionError("the fault was always met")


def test_short_write_on_a_full_disk_leaves_nothing_behind() -> None:
    """A part of a batch is cut off again, so that what is read later is whole, and the offset is free for the next."""
    disk = MemoryFilesystem()
    log = open_log(disk)
    append(log, batch(2))
    size = log.active.size
    disk.capacity_bytes = sum(len(file.data) for file in disk.files.values()) + 30
    with pytest.raises(StorageError, match="full"):
        append(log, batch(2))
    assert len(content(disk, f"{0:020d}.log")) == size and log.failure is None
    disk.capacity_bytes = 1 << 30
    assert append(log, batch(2)) == 2


def test_log_whose_disk_failed_acknowledges_nothing_more() -> None:
    """After EIO nobody knows what the disk holds: the log is poisoned until it is opened anew."""
    disk = MemoryFilesystem()
    log = open_log(disk)
    append(log, batch(2))
    disk.fault = lambda operation, path: OSError(errno.EIO, "Input/output error") if operation == "pwrite" else None
    with pytest.raises(StorageError):
        append(log, batch(2))
    disk.fault = None
    with pytest.raises(StorageError):
        append(log, batch(2))
    assert read_all(open_log(disk.after_kill(), clean=False)) == read_all(log)


def test_failed_fsync_is_never_tried_again() -> None:
    """The kernel may report success the second time for pages that it dropped."""
    disk = MemoryFilesystem()
    log = open_log(disk)
    append(log, batch(2))
    disk.fault = lambda operation, path: OSError(errno.EIO, "Input/output error") if operation == "fsync" else None
    with pytest.raises(StorageError):
        log.flush(NOW_MS)
    disk.fault = None
    assert log.recovery_point == 0
    with pytest.raises(StorageError):
        log.flush(NOW_MS)
    with pytest.raises(StorageError):
        append(log, batch(2))


def test_power_loss_keeps_what_was_flushed() -> None:
    """After a flush the machine may die: every flushed batch is there, and the recovery point was honest."""
    disk = MemoryFilesystem()
    log = open_log(disk, settings=SMALL)
    sequence = 0
    for number in range(20):
        append(log, batch(2, producer=(4, 0, sequence)))
        sequence += 2
        if number % 4 == 3:
            log.flush(NOW_MS)
            assert log.recovery_point == log.log_end_offset
        again = open_log(disk.after_power_loss(), settings=SMALL, clean=False, recovery_point=log.recovery_point)
        assert again.log_end_offset >= log.recovery_point
        data = read_all(again)
        assert read_all(log)[: len(data)] == data


def test_flush_beside_appends_covers_what_was_there_when_it_began() -> None:
    """The worker syncs pinned descriptors while the loop appends; the recovery point moves only to the prepared offset."""
    log = open_log(settings=SMALL)
    append(log, batch(2))
    work = log.prepare_flush()
    for _ in range(10):
        append(log, batch(2))
    work.run()
    work.finish(NOW_MS)
    assert log.recovery_point == 2
    log.flush(NOW_MS, up_to=8)
    assert log.recovery_point == 8
    assert log.prepare_flush(8).is_empty


def test_aborted_transactions_are_found_again_after_a_kill() -> None:
    """The index of aborted transactions is rebuilt with the rest, and a transaction that is open stays open."""
    disk = MemoryFilesystem()
    log = open_log(disk, settings=SMALL)
    for number in range(6):
        append(log, batch(2, producer=(number, 0, 0), transactional=True))
        if number < 5:
            marker = encode_end_txn_marker(number % 2 == 0, 0, number, 0, NOW_MS)
            log.append_as_leader(marker, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    expected = log.aborted_transactions(0, 100)
    assert [entry.producer_id for entry in expected] == [1, 3]
    for again in (
        open_log(disk.after_kill(), settings=SMALL, clean=False),
        open_log(disk.after_kill(), settings=SMALL, clean=False, recovery_point=10),
    ):
        assert again.aborted_transactions(0, 100) == expected
        again.producers.high_watermark_reached(again.log_end_offset)
        assert again.first_unstable_offset == log.log_end_offset - 2
    log.close()
    damaged = disk.after_kill()
    for path in [path for path in damaged.files if path.endswith(".txnindex")]:
        damaged.files[path].data[:2] = b"\x09\x09"
    assert open_log(damaged, settings=SMALL).aborted_transactions(0, 100) == expected


def test_folder_of_another_topic_of_the_same_name_is_refused() -> None:
    """A topic that was deleted and made again has another id; its old records must not come back."""
    disk = MemoryFilesystem()
    filled(disk).close()
    with pytest.raises(KafkaError, match="another topic"):
        open_log(disk, settings=SMALL, topic_id=b"x" * 16)
    assert open_log(disk, settings=SMALL, topic_id=bytes(16)).topic_id == bytes(range(16))


def test_log_that_ends_before_its_start_begins_anew() -> None:
    """The checkpoint says that all of it was deleted; a log is never shorter than its start."""
    disk = MemoryFilesystem()
    filled(disk).close()
    log = open_log(disk, settings=SMALL, log_start_offset=100)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (100, 100, 0)
    assert append(log, batch()) == 100


def test_preallocated_segments_are_trimmed_when_they_close() -> None:
    """preallocate=true makes files of full size; their zeros are not data, not in use and not after a kill."""
    disk = MemoryFilesystem()
    settings = config(segment_bytes=1000, preallocate="true")
    log = open_log(disk, settings=settings)
    for _ in range(10):
        append(log, batch(3))
    assert len(content(disk, f"{log.active.base_offset:020d}.log")) == 1000
    assert all(len(content(disk, f"{s.base_offset:020d}.log")) == s.size for s in log.segments[:-1])
    assert offsets_of(read_all(open_log(disk.after_kill(), settings=settings, clean=False))) == list(range(30))
    log.close()
    assert offsets_of(read_all(open_log(disk.after_kill(), settings=settings))) == list(range(30))


def test_recovered_indexes_are_those_that_the_appends_made() -> None:
    """Rebuilding is the same as building, entry by entry."""
    disk = MemoryFilesystem()
    settings = config(index_interval_bytes=100)
    log = filled(disk, 30, settings)
    log.close()
    before = indexes(log)
    again = open_log(disk.after_kill(), settings=settings, clean=False)
    again.close()
    assert indexes(again) == before


def test_read_of_a_damaged_segment_says_where_it_is_and_other_segments_are_served() -> None:
    """Bit rot in a header that was on disk long ago: the error names file and position; no wrong batch is returned."""
    disk = MemoryFilesystem()
    log = filled(disk)
    log.close()
    second = log.segments[1]
    name = f"{second.base_offset:020d}.log"
    content(disk, name)[8:12] = b"\x7f\xff\xff\xff"
    again = open_log(disk.after_kill(), settings=SMALL)
    with pytest.raises(DamagedLogError, match="position 0"):
        again.read(second.base_offset, 10)
    assert again.read(0, 10).size and again.read(second.next_offset, 10).size


def test_snapshot_lost_at_a_segments_base_does_not_lose_producers_that_a_later_one_has() -> None:
    """Recovery replays from the base of a segment; a producer whose batch is older is known to a later snapshot only."""
    disk = MemoryFilesystem()
    settings = config(segment_bytes=600, retention_bytes=600, retention_ms=-1)
    log = open_log(disk, settings=settings)
    append(log, batch(2, producer=(9, 0, 0)))
    while len(log.segments) < 4:
        append(log, batch(2))
    log.flush(NOW_MS)
    log.delete_old_segments(NOW_MS)
    first = log.segments[0].base_offset
    assert first > 2
    content(disk, f"{first:020d}.snapshot").clear()
    again = open_log(disk.after_kill(), settings=settings, clean=False, recovery_point=first, log_start_offset=first)
    assert again.append_as_leader(batch(2, producer=(9, 0, 0)), leader_epoch=0, now_ms=NOW_MS).duplicate


def test_epochs_of_records_that_were_cut_are_forgotten_after_a_crash() -> None:
    """Their checkpoint is older than the cut: a follower that still has them must be told that it has diverged, not that all is well."""
    disk = MemoryFilesystem()
    log = open_log(disk)
    append(log, batch(4), epoch=0)
    append(log, batch(4), epoch=3)
    log.flush(NOW_MS)
    log.truncate_to(4, NOW_MS)
    append(log, batch(8), epoch=2)
    append(log, batch(2), epoch=4)
    told = log.epochs.entries
    reopened = open_log(disk, clean=False, recovery_point=log.recovery_point)
    assert reopened.epochs.entries == told
    assert reopened.end_offset_for_epoch(3) == log.end_offset_for_epoch(3) == (2, 12)
