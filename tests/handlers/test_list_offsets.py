"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords: where a log begins, ends, and has its times."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.handlers.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from kafkapy.testing import Broker
from kafkapy.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkapy.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkapy.wire.records import BatchBuilder
from tests.support.requests import batch, fetch, fetch_partition, list_offsets, produce
from tests.support.wire_client import WireClient

UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION


def look_up(wire: WireClient, topic: str, timestamp: int, version: int = 11, **options: int) -> tuple[int, int, int]:
    """(error, timestamp, offset)."""
    answer = wire.request(list_offsets(topic, timestamp, **options), version).topics[0].partitions[0]
    return answer.error_code, answer.timestamp, answer.offset


@pytest.fixture(scope="module")
def times(broker: Broker) -> str:
    """A topic with four batches of two records, at 10, 30, 20 and 40 seconds; partition 1 is empty."""
    broker.create_topic("times", 2)
    with WireClient("127.0.0.1", broker.port) as wire:
        for timestamp in (10_000, 30_000, 20_000, 40_000):
            wire.request(produce("times", batch(b"a", b"b", timestamp=timestamp)), 9)
    return "times"


@pytest.mark.parametrize(
    ("timestamp", "first_version", "found"),
    [
        (LATEST, 1, (0, -1, 8)),
        (EARLIEST, 1, (0, -1, 0)),
        (MAX_TIMESTAMP, 7, (0, 40_000, 6)),
        (EARLIEST_LOCAL, 8, (0, -1, 0)),
        (LATEST_TIERED, 9, (0, -1, -1)),
        (EARLIEST_PENDING_UPLOAD, 11, (0, -1, -1)),
        (-7, 99, (UNSUPPORTED, -1, -1)),
        (0, 1, (0, 10_000, 0)),
        (10_000, 1, (0, 10_000, 0)),
        (10_001, 1, (0, 30_000, 2)),
        (30_001, 1, (0, 40_000, 6)),
        (40_001, 1, (0, -1, -1)),
    ],
)
def test_timestamps(
    wire: WireClient, times: str, timestamp: int, first_version: int, found: tuple[int, int, int]
) -> None:
    """Each question is answered from its version on; before it the partition says that it is not supported."""
    for version in range(1, 12):
        assert look_up(wire, times, timestamp, version) == (
            found if version >= first_version else (UNSUPPORTED, -1, -1)
        )


def test_an_empty_partition(wire: WireClient, times: str) -> None:
    """It begins and ends at 0 and has no times; none of that is an error."""
    for timestamp in (LATEST, EARLIEST):
        assert look_up(wire, times, timestamp, index=1) == (0, -1, 0)
    for timestamp in (MAX_TIMESTAMP, 0, 10_000):
        assert look_up(wire, times, timestamp, index=1) == (0, -1, -1)


@pytest.mark.parametrize("codec", range(5))
def test_timestamps_within_a_batch(broker: Broker, wire: WireClient, codec: int) -> None:
    """The record is found, not only its batch, also where the batch is compressed and its times are not in order."""
    name = f"inside-{codec}"
    broker.create_topic(name)
    builder = BatchBuilder(codec=codec)
    for timestamp in (1010, 1040, 1020, 1030):
        builder.append(timestamp, None, b"v")
    wire.request(produce(name, bytes(builder.build())), 9)
    assert look_up(wire, name, 1011) == (0, 1040, 1)
    assert look_up(wire, name, 1000) == (0, 1010, 0)
    assert look_up(wire, name, MAX_TIMESTAMP) == (0, 1040, 1)
    assert look_up(wire, name, 1041) == (0, -1, -1)


def test_errors(wire: WireClient, times: str) -> None:
    """What is unknown, and what is asked twice."""
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert look_up(wire, "nope", LATEST)[0] == unknown
    assert look_up(wire, times, LATEST, index=2)[0] == unknown
    assert look_up(wire, times, LATEST, epoch=3)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    asked = [ListOffsetsPartition(partition_index=0, timestamp=LATEST)] * 2
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=times, partitions=asked)])
    assert {one.error_code for one in wire.request(request, 5).topics[0].partitions} == {ErrorCode.INVALID_REQUEST}


def delete_records(wire: WireClient, topic: str, offset: int) -> tuple[int, int]:
    """(error, low watermark)."""
    part = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[part])], timeout_ms=1000)
    answer = wire.request(request, 2).topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


def test_delete_records(broker: Broker, wire: WireClient) -> None:
    """The start moves forward only, at most to the high watermark; what lies below it is out of range."""
    broker.create_topic("cut")
    for _ in range(3):
        wire.request(produce("cut", batch(b"a", b"b")), 9)
    assert delete_records(wire, "cut", 3) == (0, 3)
    assert delete_records(wire, "cut", 1) == (0, 3)
    assert delete_records(wire, "cut", 7) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert look_up(wire, "cut", EARLIEST) == (0, -1, 3)
    answer = wire.request(fetch("cut", fetch_partition(offset=2)), 12).responses[0].partitions[0]
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete_records(wire, "cut", -1) == (0, 6)
    assert look_up(wire, "cut", LATEST) == look_up(wire, "cut", EARLIEST) == (0, -1, 6)


def test_delete_records_of_a_compacted_topic(broker: Broker, wire: WireClient) -> None:
    """Compaction alone decides what goes, unless deletion is a policy of the topic too."""
    broker.create_topic("compact", config={"cleanup.policy": "compact"})
    broker.create_topic("both", config={"cleanup.policy": "compact,delete"})
    assert delete_records(wire, "compact", 0) == (ErrorCode.POLICY_VIOLATION, -1)
    assert delete_records(wire, "both", 0) == (0, 0)


def test_where_an_epoch_ended(wire: WireClient, times: str) -> None:
    """The current epoch ends at the log's end; one from the future is not known."""

    def ask(epoch: int, version: int) -> tuple[int, int, int]:
        part = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=times, partitions=[part])])
        answer = wire.request(request, version).topics[0].partitions[0]
        return answer.error_code, answer.leader_epoch, answer.end_offset

    for version in (2, 3, 4):
        assert ask(0, version) == (0, 0, 8)
        assert ask(5, version) == (0, -1, -1)
