"""A batching, idempotent producer without threads: `append` collects, full batches leave, `flush` waits for all answers.

    with Producer(client, acks=-1) as producer:
        producer.append("orders", record)      # sends when a batch is full
        producer.flush()                       # everything is acknowledged, or KafkaError

Each leader has at most one request on its way. While it is, the next batches are filled, so reading the input and the broker's
work overlap; and because nothing overtakes anything, a batch may be sent again without harm: the broker knows it by its sequence.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Self

from kafkapy.client.client import BACKOFF_FIRST_S, BACKOFF_MAX_S, NO_LEADER_YET, Client, error_of
from kafkapy.client.connection import BrokerConnection, Pending, Unreachable
from kafkapy.client.partitioner import Partitioner
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.types import TopicPartition
from kafkapy.wire.messages.init_producer_id import InitProducerIdRequest
from kafkapy.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from kafkapy.wire.record_batch import BatchHeader, read_header
from kafkapy.wire.records import BatchBuilder, Header, Record, encode_batch, read_records

INIT_PRODUCER_ID_KEY = 22

# Below the broker's message.max.bytes default of 1,048,588, with room for the largest batch header and one varint more a record.
BATCH_BYTES_DEFAULT = 512 * 1024
REQUEST_BYTES_MAX = 8 * 1024 * 1024

_BASE_OFFSET = struct.Struct(">q")


class OutgoingRecord(NamedTuple):
    """What a caller gives; the partition is chosen by the key, and the time is now, unless they are given."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class Delivered(NamedTuple):
    """A batch that the broker has acknowledged. With acks=0 nobody knows the base offset: -1."""

    partition: TopicPartition
    base_offset: int
    log_append_time_ms: int
    batch: bytearray

    @property
    def record_count(self) -> int:
        """How many records it has."""
        return read_header(self.batch).record_count

    def records(self) -> list[Record]:
        """The records with the offsets that they got."""
        if self.base_offset >= 0:
            _BASE_OFFSET.pack_into(self.batch, 0, self.base_offset)
        return list(read_records(self.batch))


class Producer:
    """Writes records. `on_delivery` is told of each acknowledged batch; a batch that is refused for good raises KafkaError."""

    def __init__(
        self,
        client: Client,
        *,
        acks: int = -1,
        codec: int = 0,
        level: int | None = None,
        batch_bytes: int = BATCH_BYTES_DEFAULT,
        timeout_s: float | None = None,
        idempotent: bool = True,
        create_topics: bool = False,
        on_delivery: Callable[[Delivered], None] | None = None,
    ) -> None:
        self.acknowledged = 0
        self._client = client
        self._acks = acks
        self._codec = codec
        self._level = level
        self._batch_bytes = batch_bytes
        self._timeout_s = client.timeout_s if timeout_s is None else timeout_s
        self._wants_id = idempotent and acks == -1
        self._producer: tuple[int, int] | None = None
        self._create_topics = create_topics
        self._on_delivery = on_delivery
        self._partitioners: dict[str, Partitioner] = {}
        self._open: dict[TopicPartition, BatchBuilder] = {}
        self._ready: dict[TopicPartition, deque[bytearray]] = {}
        self._ready_bytes = 0
        self._sequences: dict[TopicPartition, int] = {}
        self._in_flight: dict[int, tuple[BrokerConnection, Pending, dict[TopicPartition, bytearray]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None:
            self.flush()

    def append(self, topic: str, record: OutgoingRecord) -> None:
        """Add a record to its partition's batch."""
        partitioner = self._partitioners.get(topic)
        if partitioner is None:
            partitioner = self._begin(topic)
        index = record.partition if record.partition is not None else partitioner.partition_for(record.key)
        partition = TopicPartition(topic, index)
        builder = self._open.get(partition)
        if builder is None:
            builder = self._open[partition] = self._new_batch(partition)
        timestamp_ms = time.time_ns() // 1_000_000 if record.timestamp_ms is None else record.timestamp_ms
        builder.append(timestamp_ms, record.key, record.value, record.headers)
        if builder.size >= self._batch_bytes:
            self._close_batch(partition)
            partitioner.next_batch()
            if self._ready_bytes >= min(self._batch_bytes, REQUEST_BYTES_MAX):
                self._exchange()

    def flush(self) -> None:
        """Send what is collected and wait until everything is acknowledged."""
        for partition in list(self._open):
            self._close_batch(partition)
        while self._ready or self._in_flight:
            self._exchange()
        for partitioner in self._partitioners.values():
            partitioner.next_batch()

    def _begin(self, topic: str) -> Partitioner:
        found = self._client.topic(topic, create=self._create_topics)
        if self._wants_id and self._producer is None:
            self._producer = self._init_producer_id()
        partitioner = self._partitioners[topic] = Partitioner(len(found.partitions))
        return partitioner

    def _init_producer_id(self) -> tuple[int, int] | None:
        """An id that lets the broker know a repeated batch; without one, where it gives none, a repetition may be stored twice."""
        broker = self._client.any_broker()
        if not broker.serves(INIT_PRODUCER_ID_KEY):
            return None
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        for is_last in self._client.attempts():
            answer = broker.request(request)
            if not answer.error_code:
                return answer.producer_id, answer.producer_epoch
            error = error_of(answer.error_code, "no producer id")
            if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                return None
            if is_last or not error.code.retriable:
                raise error
        raise AssertionError("the last attempt returns or raises")

    def _new_batch(self, partition: TopicPartition) -> BatchBuilder:
        if self._producer is None:
            return BatchBuilder(codec=self._codec, level=self._level)
        producer_id, producer_epoch = self._producer
        return BatchBuilder(
            codec=self._codec,
            level=self._level,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=self._sequences.setdefault(partition, 0),
        )

    def _close_batch(self, partition: TopicPartition) -> None:
        builder = self._open.pop(partition)
        if self._producer is not None:
            self._sequences[partition] = _sequence_after(self._sequences[partition], builder.count)
        batch = builder.build()
        self._ready.setdefault(partition, deque()).append(batch)
        self._ready_bytes += len(batch)

    # Sending

    def _exchange(self) -> None:
        """Collect the answers that are due and send the first ready batch of each partition, until that works or time is over."""
        deadline = time.monotonic() + self._timeout_s
        pause = BACKOFF_FIRST_S
        while True:
            try:
                failure: Exception | None = self._receive_answers()
                if failure is None:
                    self._send_ready()
                    return
            except Unreachable as error:
                failure = error
            except KafkaError as error:
                if error.code not in NO_LEADER_YET:
                    raise
                failure = error
            if time.monotonic() + pause > deadline:
                raise failure
            self._client.forget_leaders()
            time.sleep(pause)
            pause = min(pause * 2, BACKOFF_MAX_S)

    def _send_ready(self) -> None:
        by_leader: dict[int, dict[TopicPartition, bytearray]] = {}
        sizes: dict[int, int] = {}
        for partition, batches in self._ready.items():
            leader = self._client.leader(*partition)
            size = sizes.get(leader, 0) + len(batches[0])
            if size <= REQUEST_BYTES_MAX or leader not in by_leader:
                sizes[leader] = size
                by_leader.setdefault(leader, {})[partition] = batches[0]
        for leader, batches_of in by_leader.items():
            connection = self._client.node(leader)
            pending = connection.send(self._request(batches_of))
            for partition in batches_of:
                self._take_ready(partition)
            if self._acks:
                self._in_flight[leader] = (connection, pending, batches_of)
            else:
                for partition, batch in batches_of.items():
                    self._deliver(Delivered(partition, -1, -1, batch))

    def _take_ready(self, partition: TopicPartition) -> None:
        batches = self._ready[partition]
        self._ready_bytes -= len(batches.popleft())
        if not batches:
            del self._ready[partition]

    def _put_back(self, batches_of: dict[TopicPartition, bytearray]) -> None:
        for partition, batch in batches_of.items():
            self._ready.setdefault(partition, deque()).appendleft(batch)
            self._ready_bytes += len(batch)

    def _request(self, batches_of: dict[TopicPartition, bytearray]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for (topic, index), batch in batches_of.items():
            data = topics.get(topic)
            if data is None:
                data = topics[topic] = TopicProduceData(name=topic, topic_id=self._client.topic_id(topic))
            data.partition_data.append(PartitionProduceData(index=index, records=batch))
        timeout_ms = int(self._timeout_s * 1000)
        return ProduceRequest(acks=self._acks, timeout_ms=timeout_ms, topic_data=list(topics.values()))

    # Answers

    def _receive_answers(self) -> Exception | None:
        """Take every answer that is due. What may succeed later is put back; returns the reason why one must wait, if any."""
        failure: Exception | None = None
        for leader in list(self._in_flight):
            connection, pending, batches_of = self._in_flight.pop(leader)
            try:
                answer = connection.receive(pending)
            except Unreachable as error:
                self._put_back(batches_of)
                failure = error
                continue
            for topic in answer.responses:
                name = topic.name or self._client.topic_name(topic.topic_id)
                for result in topic.partition_responses:
                    partition = TopicPartition(name, result.index)
                    failure = self._take_answer(partition, batches_of[partition], result) or failure
        return failure

    def _take_answer(
        self, partition: TopicPartition, batch: bytearray, result: PartitionProduceResponse
    ) -> KafkaError | None:
        """Deliver, split, put back or raise."""
        code = result.error_code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._deliver(Delivered(partition, result.base_offset, result.log_append_time_ms, batch))
            return None
        error = _produce_error(partition, result)
        header = read_header(batch)
        if error.code is ErrorCode.MESSAGE_TOO_LARGE and header.record_count > 1:
            # Last half first, since both are put at the front.
            for half in reversed(_halves(batch, header)):
                self._put_back({partition: half})
            return None
        # A producer's batch whose checksum is wrong was damaged on the way; one that is refused as such stays refused.
        if error.code.retriable and error.code is not ErrorCode.CORRUPT_MESSAGE:
            self._put_back({partition: batch})
            return error
        raise error

    def _deliver(self, delivered: Delivered) -> None:
        self.acknowledged += delivered.record_count
        if self._on_delivery is not None:
            self._on_delivery(delivered)


def _sequence_after(sequence: int, count: int) -> int:
    """Sequences wrap from 2^31-1 to 0."""
    return (sequence + count) & 0x7FFFFFFF


def _halves(batch: bytearray, header: BatchHeader) -> tuple[bytearray, bytearray]:
    """The same records in two batches, numbered as they were in one."""
    records = list(read_records(batch, 0, header))
    middle = len(records) // 2
    halves = []
    for first, part in ((0, records[:middle]), (middle, records[middle:])):
        halves.append(
            encode_batch(
                [record._replace(offset=offset) for offset, record in enumerate(part)],
                codec=header.codec,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=_sequence_after(header.base_sequence, first) if header.has_producer_id else -1,
            )
        )
    return halves[0], halves[1]


def _produce_error(partition: TopicPartition, result: PartitionProduceResponse) -> KafkaError:
    """The error with what the broker says about single records of the batch."""
    message = result.error_message
    if result.record_errors:
        worst = result.record_errors[0]
        message = f"record {worst.batch_index} of the batch: {worst.batch_index_error_message or message}"
    return error_of(result.error_code, str(partition), message)
