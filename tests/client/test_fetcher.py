"""The fetcher: positions, several leaders, transactions, deleted and future offsets."""

from __future__ import annotations

from typing import Any

import pytest

from kafkapy.client import fetcher as fetcher_module
from kafkapy.client.connection import Unreachable
from kafkapy.client.fetcher import Fetcher
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.types import TopicPartition
from kafkapy.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kafkapy.wire.records import Record, encode_batch, encode_end_txn_marker
from tests.client.fakes import TOPIC_ID, FakeBroker, FakeCluster

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow each other at once."""
    monkeypatch.setattr(fetcher_module.time, "sleep", lambda seconds: None)


def batch(first: int, *values: bytes, **options: Any) -> bytes:
    """A batch of records from an offset on."""
    records = [Record(first + number, 5, None, value) for number, value in enumerate(values)]
    return bytes(encode_batch(records, **options))


def marker(offset: int, producer_id: int, committed: bool) -> bytes:
    """The end of a transaction at an offset."""
    found = encode_end_txn_marker(committed, 0, producer_id, 0, 5)
    found[:8] = offset.to_bytes(8, "big")
    return bytes(found)


class Logs:
    """Partitions as lists of (next offset, batch), served by their leaders."""

    def __init__(self, *leaders: int) -> None:
        self.cluster = FakeCluster(*leaders)
        self.cluster.handlers[FetchRequest] = self.fetch
        self.batches: dict[int, list[tuple[int, bytes]]] = {}
        self.starts: dict[int, int] = {}
        self.aborted: list[AbortedTransaction] = []
        self.plans: list[Any] = []

    def add(self, partition: int, next_offset: int, data: bytes) -> None:
        """Append a batch."""
        self.batches.setdefault(partition, []).append((next_offset, data))

    def fetch(self, broker: FakeBroker, request: FetchRequest) -> Any:
        plan = self.plans.pop(0) if self.plans else None
        if plan is not None:
            return plan
        rows = []
        for topic in request.topics:
            assert topic.topic_id == TOPIC_ID
            rows += [self._partition(broker, row.partition, row.fetch_offset) for row in topic.partitions]
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=rows)])

    def _partition(self, broker: FakeBroker, index: int, offset: int) -> PartitionData:
        row = PartitionData(partition_index=index, aborted_transactions=self.aborted, records=b"")
        batches = self.batches.get(index, [])
        end = batches[-1][0] if batches else 0
        if self.cluster.leaders[index] != broker.node_id:
            row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not self.starts.get(index, 0) <= offset <= end:
            row.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            row.high_watermark = end
            # One batch, and the beginning of the next, as a broker that counts bytes may send it.
            wanted = [data for next_offset, data in batches if next_offset > offset][:2]
            row.records = wanted[0] + wanted[1][:20] if len(wanted) == 2 else b"".join(wanted)
        return row


def read(fetcher: Fetcher, polls: int = 4) -> list[tuple[int, bytes | None]]:
    """(partition, value) of what arrives."""
    found = []
    for _ in range(polls):
        for fetched in fetcher.poll(0):
            found += [(item.partition.partition, item.record.value) for item in fetched.records()]
    return found


def test_partitions_are_read_from_their_positions_on() -> None:
    """The first batch may begin before; an incomplete one at the end is asked for again."""
    logs = Logs(1, 2)
    logs.add(0, 3, batch(0, b"a", b"b", b"c"))
    logs.add(0, 5, batch(3, b"d", b"e"))
    logs.add(1, 1, batch(0, b"x"))
    with logs.cluster.client() as client:
        fetcher = Fetcher(client, {P0: 1, P1: 0})
        assert sorted(read(fetcher)) == [(0, b"b"), (0, b"c"), (0, b"d"), (0, b"e"), (1, b"x")]
        assert fetcher.positions == {P0: 5, P1: 1}
        logs.add(1, 2, batch(1, b"y"))
        assert read(fetcher) == [(1, b"y")]
        fetcher.stop(P1)
        logs.add(1, 3, batch(2, b"z"))
        assert read(fetcher) == []


def test_markers_move_the_position_but_are_no_records() -> None:
    """Read uncommitted sees all records of transactions."""
    logs = Logs(1)
    logs.add(0, 1, batch(0, b"aborted", producer_id=7, producer_epoch=0, transactional=True))
    logs.add(0, 2, marker(1, 7, committed=False))
    with logs.cluster.client() as client:
        fetcher = Fetcher(client, {P0: 0})
        assert read(fetcher) == [(0, b"aborted")]
        assert fetcher.positions == {P0: 2}


def test_read_committed_leaves_out_what_was_aborted() -> None:
    """Of the producer that aborted, up to its marker, and nothing else."""
    logs = Logs(1)
    transactional = {"producer_epoch": 0, "transactional": True}
    data = [
        batch(0, b"plain"),
        batch(1, b"aborted", producer_id=7, **transactional),
        batch(2, b"other", producer_id=8, **transactional),
        marker(3, 7, committed=False),
        batch(4, b"later", producer_id=7, **transactional),
        marker(5, 8, committed=True),
    ]
    logs.add(0, 6, b"".join(data))
    logs.aborted = [AbortedTransaction(producer_id=7, first_offset=1)]
    with logs.cluster.client() as client:
        fetcher = Fetcher(client, {P0: 0}, read_committed=True)
        assert read(fetcher, 1) == [(0, b"plain"), (0, b"other"), (0, b"later")]
        (_, request) = logs.cluster.asked[-1]
        assert isinstance(request, FetchRequest) and request.isolation_level == 1


def test_a_leader_that_moves_or_fails_is_followed() -> None:
    """The position stays."""
    logs = Logs(1)
    logs.add(0, 1, batch(0, b"a"))
    with logs.cluster.client() as client:
        fetcher = Fetcher(client, {P0: 0})
        assert read(fetcher, 1) == [(0, b"a")]
        logs.cluster.leaders = [2]
        logs.add(0, 2, batch(1, b"b"))
        assert read(fetcher, 3) == [(0, b"b")]
        logs.plans = [Unreachable("broker2:9092", "reset")]
        logs.add(0, 3, batch(2, b"c"))
        assert read(fetcher, 3) == [(0, b"c")]
        logs.plans = [FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)]
        logs.add(0, 4, batch(3, b"d"))
        assert read(fetcher, 3) == [(0, b"d")]


def test_a_leader_that_stays_away_is_an_error_in_the_end() -> None:
    """After as long as a request may take."""
    logs = Logs(1)
    row = PartitionData(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    logs.plans = [FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[row])])] * 1000
    with logs.cluster.client(timeout_s=0.001) as client:
        fetcher = Fetcher(client, {P0: 0})
        with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
            fetcher.poll(5.0)


def test_errors_that_stay_are_raised() -> None:
    """Nothing is to be waited for."""
    logs = Logs(1)
    row = PartitionData(partition_index=0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    logs.plans = [FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[row])])]
    with logs.cluster.client() as client, pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        Fetcher(client, {P0: 0}).poll(0)


def test_offsets_that_are_not_there_are_for_the_caller_to_decide() -> None:
    """Without a decision they are an error."""
    logs = Logs(1)
    logs.add(0, 6, batch(5, b"f"))
    logs.starts[0] = 5
    with logs.cluster.client() as client:
        with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
            Fetcher(client, {P0: 0}).poll(0)
        fetcher = Fetcher(client, {P0: 0}, on_out_of_range=lambda partition, position, error: 5)
        assert read(fetcher) == [(0, b"f")]


def test_a_damaged_batch_is_never_handed_out() -> None:
    """Its checksum is looked at first."""
    logs = Logs(1)
    damaged = bytearray(batch(0, b"abc"))
    damaged[-2] ^= 1
    logs.add(0, 1, bytes(damaged))
    with logs.cluster.client() as client, pytest.raises(KafkaError, match="does not match its checksum"):
        read(Fetcher(client, {P0: 0}), 1)
