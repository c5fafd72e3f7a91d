"""Reads partitions from given positions on, without a group: one Fetch to every leader at a time, each answered when there is data.

    fetcher = Fetcher(client, {TopicPartition("orders", 0): 47})
    for fetched in fetcher.poll(timeout_s=1.0):
        for record in fetched.records(): ...

With `read_committed` the records of aborted and open transactions are left out; transaction markers are no records and never
come out.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kafkapy.client.client import BACKOFF_FIRST_S, BACKOFF_MAX_S, NO_LEADER_YET, Client, error_of
from kafkapy.client.connection import BrokerConnection, Pending, Unreachable
from kafkapy.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.types import TopicPartition
from kafkapy.wire.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kafkapy.wire.record_batch import BatchHeader, check_crc, iterate_batches
from kafkapy.wire.records import Record, read_end_txn_marker, read_records


class FetchedRecord(NamedTuple):
    """A record with the batch that carried it and the partition's state when it was read."""

    record: Record
    partition: TopicPartition
    header: BatchHeader
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


class Fetched(NamedTuple):
    """What one answer brought for one partition: whole batches, still encoded, of which the first may begin before `position`."""

    partition: TopicPartition
    position: int
    next_position: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    data: memoryview
    aborted: list[AbortedTransaction]
    read_committed: bool

    def batches(self) -> Iterator[tuple[int, BatchHeader]]:
        """Position in `data` and header of each batch, markers included."""
        return iterate_batches(self.data)

    def records(self) -> Iterator[FetchedRecord]:
        """The records from `position` on."""
        skipped = _AbortedProducers(self.aborted if self.read_committed else [])
        for at, header in self.batches():
            check_crc(self.data, at, header)
            if header.is_control:
                skipped.see_marker(header, read_records(self.data, at, header))
                continue
            if header.is_transactional and skipped.includes(header):
                continue
            for record in read_records(self.data, at, header):
                if record.offset >= self.position:
                    yield FetchedRecord(
                        record,
                        self.partition,
                        header,
                        self.high_watermark,
                        self.last_stable_offset,
                        self.log_start_offset,
                    )


class _AbortedProducers:
    """Which producers' records are to be skipped at this point of the log."""

    def __init__(self, transactions: list[AbortedTransaction]) -> None:
        self._coming = sorted(transactions, key=lambda transaction: transaction.first_offset, reverse=True)
        self._open: set[int] = set()

    def includes(self, header: BatchHeader) -> bool:
        """Whether the batch belongs to a transaction that was aborted."""
        while self._coming and self._coming[-1].first_offset <= header.last_offset:
            self._open.add(self._coming.pop().producer_id)
        return header.producer_id in self._open

    def see_marker(self, header: BatchHeader, records: Iterator[Record]) -> None:
        """An abort marker ends what is to be skipped."""
        for record in records:
            marker = read_end_txn_marker(record)
            if marker is not None and not marker.committed:
                self._open.discard(header.producer_id)


class Fetcher:
    """Positions in partitions, and requests on their way to the leaders."""

    def __init__(
        self,
        client: Client,
        positions: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
        min_bytes: int = 1,
        max_wait_ms: int = 500,
        max_bytes: int = 50 * 1024 * 1024,
        partition_max_bytes: int = 1024 * 1024,
        on_out_of_range: Callable[[TopicPartition, int, KafkaError], int] | None = None,
    ) -> None:
        self.positions = dict(positions)
        self._client = client
        self._read_committed = read_committed
        self._min_bytes = min_bytes
        self._max_wait_ms = max_wait_ms
        self._max_bytes = max_bytes
        self._partition_max_bytes = partition_max_bytes
        self._on_out_of_range = on_out_of_range
        self._in_flight: dict[int, tuple[BrokerConnection, Pending, dict[TopicPartition, int]]] = {}
        self._failing_since: float | None = None
        self._pause_s = BACKOFF_FIRST_S

    def stop(self, partition: TopicPartition) -> None:
        """Read no more of this partition."""
        self.positions.pop(partition, None)

    def poll(self, timeout_s: float) -> list[Fetched]:
        """What has arrived until then; as soon as anything has. An empty list is no end of anything."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self._send()
                fetched, failure = self._receive(max(deadline - time.monotonic(), 0))
            except Unreachable as error:
                fetched, failure = [], error
            except KafkaError as error:
                if error.code not in NO_LEADER_YET:
                    raise
                fetched, failure = [], error
            if failure is None:
                self._failing_since, self._pause_s = None, BACKOFF_FIRST_S
            else:
                self._wait_after(failure)
            if fetched or time.monotonic() >= deadline:
                return fetched

    def _wait_after(self, failure: Exception) -> None:
        """A leader may move or a broker restart: go on, unless it takes longer than any request may."""
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        if now - self._failing_since > self._client.timeout_s:
            raise failure
        self._client.forget_leaders()
        time.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, BACKOFF_MAX_S)

    def _send(self) -> None:
        """A Fetch to every leader that has none on its way."""
        asked = {partition for _, _, positions in self._in_flight.values() for partition in positions}
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in self.positions:
            if partition not in asked:
                by_leader.setdefault(self._client.leader(*partition), []).append(partition)
        for leader, partitions in by_leader.items():
            if leader not in self._in_flight:
                connection = self._client.node(leader)
                positions = {partition: self.positions[partition] for partition in partitions}
                self._in_flight[leader] = (connection, connection.send(self._request(partitions)), positions)

    def _request(self, partitions: list[TopicPartition]) -> FetchRequest:
        # The order of `positions` changes with each answer, so that every partition comes first at times; keep it.
        rows: dict[str, list[FetchPartition]] = {}
        for item in partitions:
            row = FetchPartition(
                partition=item.partition,
                fetch_offset=self.positions[item],
                partition_max_bytes=self._partition_max_bytes,
            )
            rows.setdefault(item.topic, []).append(row)
        topics = [
            FetchTopic(topic=name, topic_id=self._client.topic_id(name), partitions=items)
            for name, items in rows.items()
        ]
        return FetchRequest(
            max_wait_ms=self._max_wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            isolation_level=READ_COMMITTED if self._read_committed else READ_UNCOMMITTED,
            topics=topics,
        )

    def _receive(self, timeout_s: float) -> tuple[list[Fetched], Exception | None]:
        """Every answer that is there, after waiting for the first one."""
        fetched: list[Fetched] = []
        failure: Exception | None = None
        leaders = {connection.fileno(): leader for leader, (connection, _, _) in self._in_flight.items()}
        readable, _, _ = select.select(list(leaders), [], [], timeout_s)
        for descriptor in readable:
            connection, pending, positions = self._in_flight.pop(leaders[descriptor])
            try:
                answer = connection.receive(pending)
            except Unreachable as error:
                failure = error
                continue
            failure = self._take_answer(answer, positions, fetched) or failure
        return fetched, failure

    def _take_answer(
        self, answer: FetchResponse, positions: dict[TopicPartition, int], fetched: list[Fetched]
    ) -> KafkaError | None:
        failure = None
        if answer.error_code:
            return self._refuse(error_of(answer.error_code, "fetch"))
        for topic in answer.responses:
            name = topic.topic or self._client.topic_name(topic.topic_id)
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                if self.positions.get(partition) != positions[partition]:
                    continue
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and self._on_out_of_range is not None:
                    error = error_of(data.error_code, str(partition))
                    self.positions[partition] = self._on_out_of_range(partition, positions[partition], error)
                elif data.error_code:
                    failure = self._refuse(error_of(data.error_code, str(partition)))
                else:
                    fetched.append(self._advance(partition, data))
        return failure

    def _refuse(self, error: KafkaError) -> KafkaError:
        """Return what may pass, raise what stays."""
        if not error.code.retriable:
            raise error
        return error

    def _advance(self, partition: TopicPartition, data: PartitionData) -> Fetched:
        position = next_position = self.positions[partition]
        records = memoryview(data.records or b"")
        for _, header in iterate_batches(records):
            next_position = max(next_position, header.next_offset)
        if next_position > position:
            # At the end of the order, so that the others' turn comes.
            del self.positions[partition]
        self.positions[partition] = next_position
        return Fetched(
            partition,
            position,
            next_position,
            data.high_watermark,
            data.last_stable_offset,
            data.log_start_offset,
            records,
            data.aborted_transactions or [],
            self._read_committed,
        )
