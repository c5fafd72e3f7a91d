"""Appending and reading: what goes in comes out, in whole batches, at the right offsets."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.log.append_info import AppendOrigin
from kafkapy.log.memory_files import MemoryFilesystem
from kafkapy.wire.record_batch import RecordsRefused, iterate_batches
from kafkapy.wire.records import BatchBuilder
from tests.log.support import (
    NOW_MS,
    append,
    batch,
    config,
    headers,
    offsets_of,
    open_log,
    read_all,
    records_of,
)


def test_append_patches_offset_and_epoch_and_nothing_else() -> None:
    """The stored bytes are the producer's but for the two fields outside of the checksum."""
    log = open_log()
    append(log, batch(3))
    sent = batch(2)
    info = log.append_as_leader(bytes(sent), leader_epoch=7, now_ms=NOW_MS)
    stored = log.read(3, 10_000).read_bytes()
    assert (info.first_offset, info.last_offset, info.log_append_time_ms, info.duplicate) == (3, 4, -1, False)
    assert stored[:8] == (3).to_bytes(8, "big") and stored[12:16] == (7).to_bytes(4, "big")
    assert stored[8:12] == sent[8:12] and stored[16:] == sent[16:]


def test_writable_memory_is_patched_in_place_and_bytes_are_copied() -> None:
    """A receive buffer is written as it is; memory that cannot be written is copied once."""
    log = open_log()
    buffer = batch()
    append(log, batch())
    log.append_as_leader(memoryview(buffer), leader_epoch=2, now_ms=NOW_MS)
    assert buffer[:8] == (1).to_bytes(8, "big")
    constant = bytes(batch())
    append(log, constant)
    assert constant == bytes(batch())


@pytest.mark.parametrize("max_bytes", [0, 1, 90, 200, 300, 1000, 10_000])
@pytest.mark.parametrize("offset", range(0, 30, 4))
def test_read_returns_whole_batches_from_the_one_with_the_offset(offset: int, max_bytes: int) -> None:
    """A slice begins with the batch that holds the offset, ends with a batch, and keeps to the limit but for its first."""
    log = open_log(settings=config(index_interval_bytes=100))
    for _ in range(10):
        append(log, batch(3))
    found = log.read(offset, max_bytes)
    batches = headers(found.read_bytes())
    assert batches[0].base_offset <= offset <= batches[0].last_offset
    assert found.end_offset == batches[-1].next_offset
    assert found.size <= max_bytes or len(batches) == 1
    one_more = sum(header.size for header in batches) + batches[0].size
    assert one_more > max_bytes or found.end_offset == log.log_end_offset


def test_without_the_rule_of_one_batch_a_small_limit_returns_nothing() -> None:
    """Later partitions of a Fetch are bound by its limit."""
    log = open_log()
    append(log, batch())
    assert log.read(0, 0, min_one_batch=False).size == 0
    assert log.read(0, 10, min_one_batch=False).size == 0
    assert log.read(0, 10_000, min_one_batch=False).size > 0


@pytest.mark.parametrize("upper", range(31))
def test_read_stops_before_the_upper_offset(upper: int) -> None:
    """Nothing at or above the high watermark is returned, and no part of a batch that reaches it."""
    log = open_log(settings=config(index_interval_bytes=150))
    for _ in range(10):
        append(log, batch(3))
    found = log.read(0, 1 << 20, upper_offset=upper)
    assert found.size == 0 if upper < 3 else found.end_offset == upper - upper % 3


def test_offsets_outside_of_the_log_are_refused_and_its_end_is_empty() -> None:
    """At the end there is nothing yet; beyond it, or before the start, the offset is out of range."""
    log = open_log()
    append(log, batch(5))
    assert log.read(5, 1000).size == 0
    for offset in (-1, 6):
        with pytest.raises(KafkaError) as refused:
            log.read(offset, 1000)
        assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_tail_reads_follow_appends_without_reading_the_disk() -> None:
    """A consumer at the end of the log costs no read of the file, however much it holds."""
    disk = MemoryFilesystem()
    log = open_log(disk)
    append(log, batch(5))
    end = log.log_end_offset
    log.read(end, 1000)
    reads = []
    disk.fault = lambda operation, path: reads.append(operation) if operation == "pread" else None
    for _ in range(50):
        append(log, batch(2))
        found = log.read(end, 1 << 20)
        assert found.size
        end = found.end_offset
        assert log.read(end, 1 << 20).size == 0
    assert reads == []


def test_log_rolls_by_size_and_reads_across_segments() -> None:
    """A full segment is followed by another; readers do not notice."""
    log = open_log(settings=config(segment_bytes=1000, index_interval_bytes=200))
    for _ in range(40):
        append(log, batch(3))
    assert len(log.segments) > 4
    assert all(segment.size <= 1000 for segment in log.segments)
    assert offsets_of(read_all(log, max_bytes=250)) == list(range(120))
    for offset in range(120):
        assert headers(log.read(offset, 1).read_bytes())[0].base_offset == offset - offset % 3


def test_log_rolls_by_the_time_of_its_first_batch() -> None:
    """A batch more than segment.ms younger than the segment's first begins a new one."""
    log = open_log(settings=config(segment_ms=1000))
    append(log, batch(timestamp=NOW_MS))
    append(log, batch(timestamp=NOW_MS + 1000))
    assert len(log.segments) == 1
    append(log, batch(timestamp=NOW_MS + 1001))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_records_without_time_roll_by_the_age_of_the_segment() -> None:
    """Where no record has a timestamp the clock decides."""
    log = open_log(settings=config(segment_ms=1000))
    append(log, batch(timestamp=-1))
    append(log, batch(timestamp=-1), now_ms=NOW_MS + 900)
    append(log, batch(timestamp=-1), now_ms=NOW_MS + 1100)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_log_rolls_when_an_index_is_full() -> None:
    """segment.index.bytes bounds the entries, with a place kept for the last time entry."""
    log = open_log(settings=config(segment_index_bytes=60, index_interval_bytes=0))
    for number in range(30):
        append(log, batch(timestamp=NOW_MS + number))
    assert len(log.segments) > 2
    for segment in log.segments[:-1]:
        segment.time_index.load()
        assert len(segment.time_index.entries or b"") <= 60


def test_batch_larger_than_a_segment_is_refused() -> None:
    """RECORD_LIST_TOO_LARGE, as Kafka names it."""
    log = open_log(settings=config(segment_bytes=500))
    with pytest.raises(KafkaError) as refused:
        append(log, batch(30))
    assert refused.value.code == ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.log_end_offset == 0


def test_log_append_time_is_the_time_of_all_records() -> None:
    """With message.timestamp.type=LogAppendTime the broker's clock stands in every record, and in the answer."""
    log = open_log(settings=config(message_timestamp_type="LogAppendTime"))
    info = log.append_as_leader(batch(3, timestamp=5), leader_epoch=0, now_ms=NOW_MS)
    assert info.log_append_time_ms == info.max_timestamp == NOW_MS
    assert {record.timestamp for record in records_of(read_all(log))} == {NOW_MS}


@pytest.mark.parametrize("name,codec", [("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4), ("uncompressed", 0)])
def test_topic_compression_recompresses_what_differs(name: str, codec: int) -> None:
    """A topic's own compression.type makes a new batch; the records stay the same."""
    log = open_log(settings=config(compression_type=name))
    for source in (0, 1, 4):
        append(log, batch(10, size=200, codec=source))
    data = read_all(log)
    assert {header.codec for header in headers(data)} == {codec}
    assert [record.value for record in records_of(data)] == [b"%d" % (n % 10) * 200 for n in range(30)]
    assert offsets_of(data) == list(range(30))


def test_compression_of_the_producer_is_kept_by_default() -> None:
    """The bytes of a compressed batch are stored as they came."""
    log = open_log()
    sent = batch(10, size=500, codec=4)
    append(log, bytes(sent))
    assert read_all(log)[16:] == sent[16:]


def test_compacted_topic_refuses_records_without_key() -> None:
    """The answer names each of them."""
    log = open_log(settings=config(cleanup_policy="compact"))
    with pytest.raises(RecordsRefused) as refused:
        append(log, batch(2, key=None))
    assert refused.value.code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in refused.value.record_errors] == [0, 1]
    append(log, batch(2))
    assert log.log_end_offset == 2


def test_trailing_garbage_of_an_incomplete_second_batch_is_not_stored() -> None:
    """Only the whole batch is appended, so that a reader never meets a part of one."""
    log = open_log()
    append(log, bytes(batch(2)) + bytes(batch())[:30])
    append(log, batch())
    assert offsets_of(read_all(log)) == [0, 1, 2]


def test_follower_keeps_the_offsets_and_epochs_it_fetched() -> None:
    """Replicated batches are stored as they are, gaps included; one that does not continue the log is refused."""
    leader, follower = open_log(), open_log()
    for epoch in (0, 0, 3):
        append(leader, batch(4), epoch=epoch)
    data = read_all(leader)
    info = follower.append_as_follower(data + data[:20], now_ms=NOW_MS)
    assert (info.first_offset, info.last_offset, follower.log_end_offset) == (0, 11, 12)
    assert read_all(follower) == data
    assert follower.epochs.entries == leader.epochs.entries
    with pytest.raises(KafkaError) as refused:
        follower.append_as_follower(data, now_ms=NOW_MS)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_follower_refuses_a_damaged_batch_and_keeps_those_before_it() -> None:
    """The checksum is verified before a byte is written."""
    leader, follower = open_log(), open_log()
    for _ in range(3):
        append(leader, batch(2))
    data = bytearray(read_all(leader))
    (_, _), (second, _), _ = iterate_batches(bytes(data))
    data[second + 70] ^= 1
    with pytest.raises(KafkaError) as refused:
        follower.append_as_follower(data, now_ms=NOW_MS)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
    assert offsets_of(read_all(follower)) == [0, 1]


def test_follower_may_begin_far_beyond_a_segment_in_which_offsets_are_relative() -> None:
    """A gap of more than 2^31 offsets needs a segment of its own, based at the batch."""
    follower = open_log()
    for base in (0, 2**31 + 5):
        builder = BatchBuilder(base_offset=base, leader_epoch=0)
        builder.append(NOW_MS, b"k", b"v")
        follower.append_as_follower(builder.build(), now_ms=NOW_MS)
    assert [segment.base_offset for segment in follower.segments] == [0, 2**31 + 5]
    assert headers(follower.read(1, 1000).read_bytes())[0].base_offset == 2**31 + 5


def test_offsets_are_found_by_time() -> None:
    """The first record at or after a time, wherever its segment; times may go back between batches."""
    log = open_log(settings=config(segment_bytes=700, index_interval_bytes=150))
    times = [100, 200, 150, 300, 300, 50, 400, 700, 600, 800]
    for time in times:
        append(log, batch(3, timestamp=time))
    stamps = [time + index for time in times for index in range(3)]
    for time in range(0, 900, 7):
        expected = next((offset for offset, stamp in enumerate(stamps) if stamp >= time), None)
        found = log.offset_for_timestamp(time)
        assert (None if found is None else found.offset) == expected, time
        assert found is None or found.timestamp == stamps[found.offset]
    largest = log.max_timestamp_offset()
    assert largest is not None and (largest.timestamp, largest.offset, largest.leader_epoch) == (802, 29, 0)


def test_log_start_moves_and_hides_what_is_before_it() -> None:
    """DeleteRecords moves the start inside a segment; time lookups and reads respect it."""
    log = open_log()
    append(log, batch(10, timestamp=100))
    assert log.maybe_increment_log_start_offset(4) and not log.maybe_increment_log_start_offset(3)
    with pytest.raises(KafkaError):
        log.read(3, 1000)
    assert headers(log.read(4, 1000).read_bytes())[0].base_offset == 0
    found = log.offset_for_timestamp(0)
    assert found is not None and found.offset == 4


def test_open_files_stay_within_the_bound() -> None:
    """However many segments are read, no more descriptors are held than allowed, and slices in flight keep theirs."""
    disk = MemoryFilesystem()
    log = open_log(disk, settings=config(segment_bytes=300), open_files=3)
    for _ in range(30):
        append(log, batch(3))
    assert len(log.segments) > 20
    slices = []
    for segment in log.segments[:6]:
        found = log.read(segment.base_offset, 100)
        found.pin()
        slices.append((found, found.fd))
    for offset in range(log.log_end_offset):
        log.read(offset, 100)
    assert all(found.fd == fd and found.read_bytes() for found, fd in slices)
    assert log.pool.open_count <= 3 + 6
    for found, _ in slices:
        found.release()
    for offset in range(log.log_end_offset):
        log.read(offset, 100)
    assert log.pool.open_count <= 3


def test_slice_in_flight_survives_the_deletion_of_its_segment() -> None:
    """Retention renames and closes; a pinned file is closed only when the last slice is sent."""
    log = open_log(settings=config(segment_bytes=300, retention_bytes=300))
    for _ in range(10):
        append(log, batch(3))
    found = log.read(0, 10_000)
    expected = found.read_bytes()
    fd = found.pin()
    assert log.delete_old_segments(NOW_MS)
    assert found.file.fd == fd and found.read_bytes() == expected
    found.release()
    assert found.file.fd == -1


def test_coordinators_append_what_no_client_may() -> None:
    """Our own side is trusted with what a batch says; the frame is still checked."""
    log = open_log()
    log.append_as_leader(batch(2), leader_epoch=4, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    with pytest.raises(KafkaError):
        log.append_as_leader(batch(2)[:-1], leader_epoch=4, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    assert log.log_end_offset == 2
