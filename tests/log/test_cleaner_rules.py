"""Each rule of compaction by itself: what goes, when, and what a batch looks like afterwards."""

from __future__ import annotations

import pytest

from kafkapy.log.append_info import AppendOrigin
from kafkapy.log.compaction import DamagedSourceError, MeasuredSegment, SourceGoneError, group_segments
from kafkapy.log.compaction_task import SegmentSource
from kafkapy.log.log import Log
from kafkapy.log.memory_files import MemoryFilesystem
from kafkapy.wire.record_batch import BatchHeader, crc_is_valid, iterate_batches
from kafkapy.wire.records import BatchBuilder, encode_end_txn_marker, read_records
from tests.log.cleaning import clean, job_for, visible, work_on
from tests.log.support import FOLDER, NOW_MS, append, config, headers, open_log, read_all

RETENTION_MS = 1000
COMPACT = config(cleanup_policy="compact", delete_retention_ms=RETENTION_MS)


def put(log: Log, *records: tuple[bytes, bytes | None], timestamp: int = NOW_MS, **options: object) -> int:
    """One batch; the first offset."""
    builder = BatchBuilder(**options)  # type: ignore[arg-type]
    for index, (key, value) in enumerate(records):
        builder.append(timestamp + index, key, value)
    return append(log, builder.build())


def mark(log: Log, producer_id: int, committed: bool, epoch: int = 0) -> None:
    """The end of a transaction."""
    marker = encode_end_txn_marker(committed, 0, producer_id, epoch, NOW_MS)
    log.append_as_leader(marker, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.producers.high_watermark_reached(log.log_end_offset)


def content(log: Log) -> list[tuple[BatchHeader, list[bytes | None]]]:
    """Each batch with the values in it; every checksum is right."""
    data = read_all(log)
    found = []
    for position, header in iterate_batches(data):
        assert crc_is_valid(data, position, header)
        found.append((header, [record.value for record in read_records(data, position, header)]))
    return found


def forget_producers(log: Log) -> None:
    """The producers have expired: their last batches need not be kept."""
    log.expire_producers(NOW_MS + 10**12, 1)


def test_tombstone_gets_a_horizon_and_goes_when_it_has_passed() -> None:
    """The first round notes until when slow readers may see it, in the place of the base timestamp; times do not change by that."""
    log = open_log(settings=COMPACT)
    put(log, (b"a", b"1"), (b"b", b"2"))
    put(log, (b"a", None), (b"c", b"3"), timestamp=NOW_MS + 50)
    log.roll(NOW_MS)
    clean(log, NOW_MS + 100)
    first, second = content(log)
    assert first[0].delete_horizon_ms is None and first[1] == [b"2"]
    assert second[0].delete_horizon_ms == NOW_MS + 100 + RETENTION_MS and second[1] == [None, b"3"]
    assert [record.timestamp for record in visible(log, True)] == [NOW_MS + 1, NOW_MS + 50, NOW_MS + 51]
    clean(log, NOW_MS + 100 + RETENTION_MS - 1)
    assert content(log) == [first, second]
    clean(log, NOW_MS + 100 + RETENTION_MS)
    (_, (header, values)) = content(log)
    assert values == [b"3"] and header.delete_horizon_ms == NOW_MS + 100 + RETENTION_MS
    assert [record.timestamp for record in visible(log, True)] == [NOW_MS + 1, NOW_MS + 51]


def test_batch_keeps_its_offsets_sequence_epoch_and_codec() -> None:
    """Only the count, the times and the checksum tell that something is gone."""
    log = open_log(settings=COMPACT)
    for codec in range(5):
        log.append_as_leader(
            _batch_of(3, codec=codec, producer_id=codec + 1, producer_epoch=7, base_sequence=0),
            leader_epoch=4,
            now_ms=NOW_MS,
        )
    put(log, (b"k0", b"x"), (b"k2", b"x"))
    before = headers(read_all(log))
    log.roll(NOW_MS)
    clean(log, NOW_MS)
    after = content(log)
    changed = {"crc", "batch_length", "base_timestamp", "max_timestamp", "record_count"}
    assert len(after) == len(before)
    for (header, values), old in zip(after[:4], before, strict=False):
        assert values == [] and header.record_count == 0 and header.base_timestamp == -1
        assert header.max_timestamp == old.max_timestamp and header.size == 61
        fields = {name for name, one, other in zip(old._fields, old, header, strict=True) if one != other}
        assert fields <= {*changed, "attributes"}
    header, values = after[4]
    assert values == [b"v1"] and header.codec == 4 and header.base_timestamp == header.max_timestamp == NOW_MS + 1
    assert header.last_offset == before[4].last_offset and header.last_sequence == 2
    assert header.partition_leader_epoch == 4
    assert after[5][0] == before[5]


def _batch_of(count: int, **options: object) -> bytearray:
    builder = BatchBuilder(**options)  # type: ignore[arg-type]
    for index in range(count):
        builder.append(NOW_MS + index, b"k%d" % index, b"v%d" % index)
    return builder.build()


def test_log_append_time_stays() -> None:
    """All records of such a batch have the time in its header, also when the newest is gone."""
    log = open_log(settings=config(cleanup_policy="compact", message_timestamp_type="LogAppendTime"))
    put(log, (b"a", b"1"), (b"b", b"2"), (b"c", b"3"))
    log.append_as_leader(_keyed(b"c"), leader_epoch=0, now_ms=NOW_MS + 500)
    log.roll(NOW_MS)
    clean(log, NOW_MS)
    (header, values), _ = content(log)
    assert values == [b"1", b"2"] and header.is_log_append_time and header.max_timestamp == NOW_MS
    assert [record.timestamp for record in visible(log, True)] == [NOW_MS, NOW_MS, NOW_MS + 500]


def _keyed(key: bytes) -> bytearray:
    builder = BatchBuilder()
    builder.append(NOW_MS - 5, key, b"new")
    return builder.build()


@pytest.mark.parametrize("committed", [True, False])
def test_marker_outlives_its_records_by_the_delete_horizon(committed: bool) -> None:
    """Round by round: records, then a horizon for the marker, then the marker."""
    log = open_log(settings=COMPACT)
    put(log, (b"a", b"1"), producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    mark(log, 9, committed)
    put(log, (b"a", b"2"))
    log.roll(NOW_MS)
    forget_producers(log)
    clean(log, NOW_MS)
    # The batch was there when the round read it, so the marker is not touched yet.
    assert [(header.base_offset, header.delete_horizon_ms) for header, _ in content(log)] == [(1, None), (2, None)]
    assert len(log.aborted_transactions(0, 3)) == (0 if committed else 1)
    clean(log, NOW_MS)
    assert [(header.base_offset, header.delete_horizon_ms) for header, _ in content(log)] == [
        (1, NOW_MS + RETENTION_MS),
        (2, None),
    ]
    assert log.aborted_transactions(0, 3) == []
    clean(log, NOW_MS + RETENTION_MS - 1)
    assert len(content(log)) == 2
    clean(log, NOW_MS + RETENTION_MS)
    assert [header.base_offset for header, _ in content(log)] == [2]


def test_records_of_an_aborted_transaction_go_and_do_not_hide_older_ones() -> None:
    """An aborted value is none: the one before it stays the last of its key."""
    log = open_log(settings=COMPACT)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"), producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    mark(log, 9, committed=False)
    put(log, (b"b", b"3"))
    log.roll(NOW_MS)
    clean(log, NOW_MS)
    assert [values for header, values in content(log) if not header.is_control] == [[b"1"], [], [b"3"]]
    assert [record.value for record in visible(log, True)] == [b"1", b"3"]


def test_open_transaction_bounds_the_cleaning() -> None:
    """From the segment that holds the last stable offset on, nothing is touched."""
    log = open_log(settings=COMPACT)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.roll(NOW_MS)
    put(log, (b"a", b"3"))
    put(log, (b"a", b"4"), producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    log.roll(NOW_MS)
    put(log, (b"a", b"5"))
    log.roll(NOW_MS)
    stats = clean(log, NOW_MS)
    assert stats is not None and stats.end_offset == 2
    assert [values for _, values in content(log)] == [[b"2"], [b"3"], [b"4"], [b"5"]]


def test_last_batch_of_the_cleaned_part_keeps_the_last_offset() -> None:
    """Else a log whose last records were aborted would seem to end earlier than it does."""
    log = open_log(settings=COMPACT)
    put(log, (b"a", b"1"))
    put(log, (b"a", None))
    log.roll(NOW_MS)
    clean(log, NOW_MS)
    clean(log, NOW_MS + RETENTION_MS)
    ((header, values),) = content(log)
    assert values == [] and header.last_offset == 1


def test_records_without_a_key_go_and_those_beyond_the_table_stay() -> None:
    """A topic may have been compacted only later; its old records have no keys. What the table does not cover is not judged."""
    log = open_log(settings=config(segment_bytes=100_000))
    builder = BatchBuilder()
    builder.append(NOW_MS, None, b"1")
    append(log, builder.build())
    log.update_config(COMPACT)
    for number in range(30):
        put(log, (b"k%d" % number, b"x"))
    log.roll(NOW_MS)
    stats = clean(log, NOW_MS, map_bytes=24 * 12)
    assert stats is not None and stats.keys == 10 and stats.end_offset == 11
    assert len(content(log)) == 30
    log.update_config(config(segment_bytes=100_000))
    append(log, _unkeyed())
    log.update_config(COMPACT)
    log.roll(NOW_MS)
    stats = clean(log, NOW_MS, checkpoint=11, map_bytes=24 * 12)
    assert stats is not None and stats.end_offset == 21
    assert content(log)[-1][1] == [b"1"]


def _unkeyed() -> bytearray:
    builder = BatchBuilder()
    builder.append(NOW_MS, None, b"1")
    return builder.build()


def test_indexes_of_a_cleaned_segment_find_every_record() -> None:
    """Offsets, times and the time index's last entry, also after a restart that believes the files."""
    disk = MemoryFilesystem()
    settings = config(cleanup_policy="compact", segment_bytes=1500, index_interval_bytes=100)
    log = open_log(disk, settings=settings)
    for number in range(80):
        put(
            log,
            (b"k%d" % (number % 40), b"%d" % number * 5),
            (b"once%d" % number, b"x"),
            timestamp=NOW_MS + 10 * number,
        )
    log.roll(NOW_MS)
    clean(log, NOW_MS)
    log.close()
    again = open_log(disk.after_kill(), settings=settings)
    for number in range(80):
        found = again.offset_for_timestamp(NOW_MS + 10 * number + 1)
        assert found is not None and found.offset == 2 * number + 1
        piece = again.read(2 * number + 1, 1).read_bytes()
        assert [h.last_offset for h in headers(piece)] == [2 * number + 1]
    for segment in again.segments[:-1]:
        stored = [bytes(index_bytes(disk, segment.base_offset, suffix)) for suffix in (".index", ".timeindex")]
        segment.rebuild_indexes("a comparison")
        assert stored == [bytes(index_bytes(again.pool.fs, segment.base_offset, s)) for s in (".index", ".timeindex")]


def index_bytes(disk: object, base_offset: int, suffix: str) -> bytearray:
    """The content of an index file."""
    assert isinstance(disk, MemoryFilesystem)
    return disk.files[f"{FOLDER}/{base_offset:020d}{suffix}"].data


def measured(base: int, end: int, size: int, index: int = 8, time_index: int = 12) -> MeasuredSegment:
    """A segment for grouping."""
    return MeasuredSegment(SegmentSource(base, end, size), index, time_index)


def bases(groups: list[list[SegmentSource]]) -> list[list[int]]:
    """What is grouped with what."""
    return [[segment.base_offset for segment in group] for group in groups]


def test_groups_fit_into_one_segment_by_every_measure() -> None:
    """Bytes, both indexes, and offsets relative to the first segment's."""
    sources = [measured(10 * n, 10 * n + 10, 40) for n in range(5)]
    assert bases(group_segments(sources, 100, 1000)) == [[0, 10], [20, 30], [40]]
    assert bases(group_segments(sources, 10_000, 16)) == [[0], [10], [20], [30], [40]]
    assert bases(group_segments(sources, 10_000, 24)) == [[0, 10], [20, 30], [40]]
    assert bases(group_segments([measured(n, n + 1, 0) for n in range(40)], 100, 1000)) == [
        list(range(32)),
        list(range(32, 40)),
    ]
    far = [measured(0, 10, 40), measured(10, 2**31 + 1, 40), measured(2**31 + 1, 2**31 + 2, 40)]
    assert bases(group_segments(far, 1000, 1000)) == [[0], [10, 2**31 + 1]]


def test_damage_is_found_and_never_given_a_new_checksum() -> None:
    """A byte that the disk changed makes the log uncompactable; its files stay as they are."""
    disk = MemoryFilesystem()
    log = open_log(disk, settings=COMPACT)
    put(log, (b"a", b"1"), (b"b", b"2"))
    put(log, (b"a", b"3"))
    log.roll(NOW_MS)
    path = f"{FOLDER}/{0:020d}.log"
    disk.files[path].data[70] ^= 1
    kept = bytes(disk.files[path].data)
    job = job_for(log, NOW_MS)
    assert job is not None
    with pytest.raises(DamagedSourceError, match="position 0: the batch does not match its checksum"):
        list(work_on(log, job).groups())
    assert disk.files[path].data == kept


def test_records_that_make_no_sense_are_damage_too() -> None:
    """A checksum says nothing about what a broker without checks took in long ago."""
    disk = MemoryFilesystem()
    log = open_log(disk, settings=config())
    builder = BatchBuilder(codec=1)
    builder.append(NOW_MS, b"a", b"1")
    builder.count = 2
    append(log, builder.build(last_offset=1))
    log.update_config(COMPACT)
    log.roll(NOW_MS)
    job = job_for(log, NOW_MS)
    assert job is not None
    with pytest.raises(DamagedSourceError, match="the batch at offset 0: damaged records"):
        list(work_on(log, job).groups())


def test_segment_that_disappears_ends_the_work() -> None:
    """The log was trimmed while it was being read."""
    disk = MemoryFilesystem()
    log = open_log(disk, settings=COMPACT)
    put(log, (b"a", b"1"))
    log.roll(NOW_MS)
    job = job_for(log, NOW_MS)
    assert job is not None
    disk.unlink(f"{FOLDER}/{0:020d}.log")
    with pytest.raises(SourceGoneError):
        list(work_on(log, job).groups())
