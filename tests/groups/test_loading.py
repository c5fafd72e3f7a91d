"""Loading a partition of `__consumer_offsets`: what is good is taken, what nobody can read is left."""

from __future__ import annotations

import logging

import pytest

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.groups.coordinator import GroupCoordinator
from kafkapy.groups.offsets import CommittedOffset
from kafkapy.groups.records import offset_key, offset_record
from kafkapy.wire.group_records import OffsetCommitValue
from kafkapy.wire.record_framing import encode_value
from kafkapy.wire.records import BatchBuilder
from tests.groups.fakes import World, topic_id


def record(partition: int, offset: int) -> tuple[bytes, bytes | None]:
    """A committed offset of group g and topic t."""
    return offset_record(
        "g", "t", partition, offset=offset, leader_epoch=2, metadata="", commit_timestamp_ms=3, topic_id=topic_id("t")
    )


def load(*records: tuple[bytes | None, bytes | None], codec: int = 0) -> GroupCoordinator:
    """A coordinator that has loaded these records, all in one batch."""
    builder = BatchBuilder(codec=codec)
    for key, value in records:
        builder.append(0, key, value)
    groups = World(partitions=0).groups
    groups.elected(0)
    groups.load(0, builder.build())
    groups.loaded(0, 5)
    return groups


def test_the_newest_value_counts() -> None:
    """And a tombstone is the end of all before it."""
    groups = load(record(0, 1), record(0, 2), record(1, 1), (record(1, 0)[0], None), record(2, 7))
    committed = groups.shards[0].offsets.by_group["g"]["t"]
    assert committed == {
        0: CommittedOffset(2, 2, "", 3, -1, topic_id("t"), 1),
        2: CommittedOffset(7, 2, "", 3, -1, topic_id("t"), 4),
    }


def test_a_topic_whose_last_offset_went_can_come_back() -> None:
    """What was remembered of it while loading is forgotten with it."""
    groups = load(record(0, 1), (record(0, 0)[0], None), record(0, 9))
    assert groups.shards[0].offsets.by_group["g"]["t"][0].offset == 9


@pytest.mark.parametrize("codec", range(5))
def test_batches_may_be_compressed(codec: int) -> None:
    """offsets.topic.compression.codec of the broker that wrote them."""
    groups = load(*(record(partition, partition) for partition in range(20)), codec=codec)
    assert len(groups.shards[0].offsets.by_group["g"]["t"]) == 20


def test_records_of_newer_and_older_brokers(caplog: pytest.LogCaptureFixture) -> None:
    """Unknown types are skipped with a warning; the oldest kind of offsets is understood."""
    old = OffsetCommitValue(offset=4, metadata="m", commit_timestamp=1)
    with caplog.at_level(logging.WARNING):
        groups = load(
            (b"\x7f\xff" + b"from the future", b"\0\0"),
            (b"\0\0" + offset_key("g", "t", 0)[2:], encode_value(old, 0)),
        )
    assert groups.shards[0].offsets.by_group["g"]["t"][0].offset == 4
    assert "32767" in caplog.text


DAMAGED = [
    (b"", b""),
    (b"\0", b""),
    (b"\0\1", b"\0\3"),
    (b"\0\1\0\1g\0\1t\0\0", b"\0\3"),
    (b"\0\1\0\1\xff\0\1t\0\0\0\0", encode_value(OffsetCommitValue(), 3)),
    (offset_key("h", "t", 0), b""),
    (offset_key("h", "t", 0), b"\0\3\0"),
    (offset_key("g", "t", 1), b"\0\x09" + bytes(30)),
    (b"\0\2\0\1x", b"\0\3\0"),
    (b"\0\5\0\1x\0\1m", b"\0\0\1"),
    (None, b"without a key"),
]


def test_damaged_records_do_not_take_the_others_with_them(caplog: pytest.LogCaptureFixture) -> None:
    """They are reported, one by one, and leave no trace."""
    with caplog.at_level(logging.ERROR):
        groups = load(record(0, 1), *DAMAGED, record(0, 2))
    assert [one.group_id for one in groups.list_groups()] == ["g"]
    assert groups.shards[0].offsets.by_group["g"]["t"].keys() == {0}
    assert len(caplog.records) == len(DAMAGED) - 1
    assert not groups.shards[0].stored_groups
    assert not groups.shards[0].consumer_groups


def test_a_damaged_batch_is_the_logs_matter() -> None:
    """It has passed its checksum when it was read, so this is no place to guess."""
    builder = BatchBuilder()
    builder.append(0, *record(0, 1))
    batch = builder.build()
    batch[65:75] = bytes(10)
    groups = World(partitions=0).groups
    groups.elected(0)
    with pytest.raises(KafkaError) as caught:
        groups.load(0, batch)
    assert caught.value.code == ErrorCode.INVALID_RECORD
