"""Which logs are due, how far they may be compacted, and the small things that a choice rests on."""

from __future__ import annotations

import random

import pytest

from kafkapy.log.cleaner import CleanableRange, cleanable_range, is_due
from kafkapy.log.cleaner_checkpoint import CleanerCheckpoint
from kafkapy.log.compaction_keys import SLOT_BYTES, OffsetMap
from kafkapy.log.log import Log
from kafkapy.log.memory_files import MemoryFilesystem
from kafkapy.types import TopicPartition
from kafkapy.wire.records import BatchBuilder
from tests.log.support import NOW_MS, append, config, open_log

HOUR_MS = 3_600_000


def rolled(**settings: object) -> Log:
    """Four closed segments of ten batches, an hour apart, and an empty active one."""
    log = open_log(settings=config(cleanup_policy="compact", **settings))
    for hour in range(4):
        for number in range(10):
            builder = BatchBuilder()
            builder.append(NOW_MS + hour * HOUR_MS + number, b"k%d" % number, b"value")
            append(log, builder.build(), now_ms=NOW_MS + hour * HOUR_MS)
        log.roll(NOW_MS)
    return log


def chosen(log: Log, stable: int = 40, checkpoint: int | None = None, hours: float = 4) -> CleanableRange:
    """What may be compacted some hours later."""
    return cleanable_range(log, stable, checkpoint, NOW_MS + int(hours * HOUR_MS))


def test_everything_closed_is_cleanable_at_first() -> None:
    """Nothing was compacted yet, so all of it is dirty."""
    log = rolled()
    dirty = chosen(log)
    assert dirty[:2] == (0, 40) and dirty.clean_bytes == 0 and dirty.cleanable_bytes == log.size_bytes
    assert dirty.dirty_ratio == 1.0 and is_due(log, dirty)


@pytest.mark.parametrize(
    ("checkpoint", "first_dirty", "ratio"),
    [(None, 0, 1.0), (20, 20, 0.5), (40, 40, 0.0), (41, 0, 1.0), (-1, 0, 1.0), (25, 25, 2 / 5)],
)
def test_checkpoint_divides_clean_from_dirty(checkpoint: int | None, first_dirty: int, ratio: float) -> None:
    """One that lies outside of the log is not believed; a segment that is dirty in part counts on both sides."""
    dirty = chosen(rolled(), checkpoint=checkpoint)
    assert dirty.first_dirty_offset == first_dirty and dirty.dirty_ratio == pytest.approx(ratio)


@pytest.mark.parametrize(("stable", "boundary"), [(40, 40), (39, 30), (30, 30), (29, 20), (5, 0)])
def test_undecided_segments_are_not_touched(stable: int, boundary: int) -> None:
    """From the segment on that holds the last stable offset."""
    dirty = chosen(rolled(), stable)
    assert dirty.first_uncleanable_offset == boundary
    assert bool(dirty.cleanable_bytes) == bool(boundary)


@pytest.mark.parametrize(("lag_hours", "boundary"), [(0, 40), (0.5, 40), (1.5, 30), (3.5, 10), (9, 0)])
def test_young_segments_are_not_touched(lag_hours: float, boundary: int) -> None:
    """min.compaction.lag.ms counts from a segment's youngest record."""
    dirty = chosen(rolled(min_compaction_lag_ms=int(lag_hours * HOUR_MS)))
    assert dirty.first_uncleanable_offset == boundary


def test_ratio_must_be_passed_and_not_only_reached() -> None:
    """As Kafka compares it."""
    log = rolled(min_cleanable_dirty_ratio=0.5)
    assert not is_due(log, chosen(log, checkpoint=20))
    assert is_due(log, chosen(log, checkpoint=10))


def test_old_dirt_is_due_whatever_its_share() -> None:
    """max.compaction.lag.ms counts from the first batch of a dirty segment."""
    log = rolled(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=2 * HOUR_MS)
    assert not is_due(log, chosen(log, checkpoint=30, hours=4.9))
    assert is_due(log, chosen(log, checkpoint=30, hours=5.1))
    assert not is_due(log, chosen(log, stable=30, checkpoint=30, hours=5.1)), "overdue, but not to be touched"
    assert not is_due(log, chosen(log, checkpoint=40, hours=100))


def test_table_of_keys_is_a_dictionary_with_a_bound() -> None:
    """Against a dictionary, up to the last free slot that it may use."""
    dice = random.Random(1)
    table, expected = OffsetMap(SLOT_BYTES * 1000, 0.9, 10**6), dict[bytes, int]()
    offset = 0
    while True:
        key = dice.randbytes(dice.choice((0, 1, 2, 8, 40)))
        if not table.put(key, offset):
            break
        expected[key] = offset
        offset += dice.choice((1, 1, 5))
    assert table.count == len(expected) == table.capacity == 900 and key not in expected
    assert table.latest_offset == max(expected.values())
    for known, last in expected.items():
        assert table.get(known) == last
        assert table.put(known, last), "a key that is there already always has room"
    assert table.get(key) == -1


@pytest.mark.parametrize("memory_bytes", [0, 24, 100, 1000])
def test_table_takes_at_least_one_key(memory_bytes: int) -> None:
    """So that every round gets on."""
    table = OffsetMap(memory_bytes, 0.1, 100)
    assert table.put(b"a", 7) and table.get(b"a") == 7 and table.get(b"b") == -1


def test_checkpoint_file_is_kafkas_and_a_damaged_one_counts_as_missing() -> None:
    """What is written is read again; a topic that was made anew inherits nothing."""
    disk = MemoryFilesystem()
    disk.make_folder("/data")
    name, first_id, second_id = TopicPartition("orders", 3), bytes(16), bytes([1] * 16)
    checkpoint = CleanerCheckpoint(disk, "/data")
    assert checkpoint.get(name, first_id) is None
    checkpoint.set(name, first_id, 1042)
    checkpoint.write(checkpoint.offsets())
    assert bytes(disk.files["/data/cleaner-offset-checkpoint"].data) == b"0\n1\norders 3 1042\n"
    again = CleanerCheckpoint(disk, "/data")
    assert again.get(name, first_id) == 1042
    assert again.get(name, second_id) is None
    disk.files["/data/cleaner-offset-checkpoint"].data[:] = b"nonsense"
    assert CleanerCheckpoint(disk, "/data").offsets() == {}
