"""The producer: batches, sequences, repetition without harm, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from kafkapy.client import producer as producer_module
from kafkapy.client.connection import Unreachable
from kafkapy.client.producer import INIT_PRODUCER_ID_KEY, Delivered, OutgoingRecord, Producer
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkapy.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkapy.wire.record_batch import BatchHeader, read_header
from kafkapy.wire.records import read_records
from tests.client.fakes import TOPIC_ID, FakeBroker, FakeCluster


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow each other at once."""
    monkeypatch.setattr(producer_module.time, "sleep", lambda seconds: None)


class Log:
    """A cluster whose leaders append, checking sequences as brokers do, and fail in the ways that were planned."""

    def __init__(self, *leaders: int) -> None:
        self.cluster = FakeCluster(*leaders)
        self.cluster.handlers[ProduceRequest] = self.append
        self.cluster.handlers[InitProducerIdRequest] = self.init
        self.values: dict[int, list[bytes]] = {}
        self.headers: list[BatchHeader] = []
        self.plans: list[Any] = []
        self.sequences: dict[tuple[int, int], int] = {}
        self.init_codes: list[int] = []
        self.batch_bytes_max = 10**9

    def init(self, broker: FakeBroker, request: InitProducerIdRequest) -> InitProducerIdResponse:
        code = self.init_codes.pop(0) if self.init_codes else 0
        return InitProducerIdResponse(error_code=code, producer_id=7, producer_epoch=0)

    def append(self, broker: FakeBroker, request: ProduceRequest) -> Any:
        plan = self.plans.pop(0) if self.plans else None
        if isinstance(plan, int):
            return self._answer(request, plan)
        rows = []
        for topic in request.topic_data:
            assert topic.topic_id == TOPIC_ID
            for data in topic.partition_data:
                rows.append(self._append(broker, data.index, bytes(data.records)))
        answer = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=rows)])
        return plan if isinstance(plan, Exception) else answer

    def _append(self, broker: FakeBroker, index: int, batch: bytes) -> PartitionProduceResponse:
        if self.cluster.leaders[index] != broker.node_id:
            return PartitionProduceResponse(index=index, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if len(batch) > self.batch_bytes_max:
            return PartitionProduceResponse(index=index, error_code=ErrorCode.MESSAGE_TOO_LARGE)
        header = read_header(batch)
        log = self.values.setdefault(index, [])
        if header.has_producer_id:
            expected = self.sequences.get((header.producer_id, index), 0)
            if header.base_sequence < expected:
                return PartitionProduceResponse(index=index, base_offset=header.base_sequence)
            assert header.base_sequence == expected
            self.sequences[header.producer_id, index] = expected + header.record_count
        self.headers.append(header)
        base_offset = len(log)
        log += [record.value or b"" for record in read_records(batch)]
        return PartitionProduceResponse(index=index, base_offset=base_offset)

    def _answer(self, request: ProduceRequest, code: int) -> ProduceResponse:
        rows = [
            PartitionProduceResponse(index=data.index, error_code=code)
            for topic in request.topic_data
            for data in topic.partition_data
        ]
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=rows)])


def values(count: int) -> list[bytes]:
    """Distinct values."""
    return [b"%d" % number for number in range(count)]


def produce(log: Log, count: int, partition: int | None = 0, timeout_s: float = 5.0, **options: Any) -> Producer:
    """Write that many records."""
    with log.cluster.client(timeout_s=timeout_s) as client, Producer(client, **options) as producer:
        for value in values(count):
            producer.append("t", OutgoingRecord(None, value, partition=partition, timestamp_ms=5))
    return producer


def test_records_are_collected_into_batches() -> None:
    """By size; the rest with flush. Each batch is numbered."""
    log = Log(1)
    producer = produce(log, 1000, batch_bytes=2000)
    assert log.values[0] == values(1000)
    assert producer.acknowledged == 1000
    assert 4 < len(log.headers) < 20
    assert [header.base_sequence for header in log.headers][:2] == [0, log.headers[0].record_count]
    assert log.cluster.nodes_asked(InitProducerIdRequest) == [1]


def test_each_leader_gets_one_request_for_all_its_partitions() -> None:
    """And records without a key move on with each batch."""
    log = Log(1, 2, 1)
    with log.cluster.client() as client, Producer(client) as producer:
        for index in (0, 1, 2):
            producer.append("t", OutgoingRecord(None, b"x", partition=index))
    assert sorted(log.cluster.nodes_asked(ProduceRequest)) == [1, 2]
    assert log.values == {0: [b"x"], 1: [b"x"], 2: [b"x"]}


@pytest.mark.parametrize(
    "plan",
    [
        Unreachable("broker1:9092", "reset"),
        int(ErrorCode.NOT_ENOUGH_REPLICAS),
        int(ErrorCode.REQUEST_TIMED_OUT),
        int(ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_what_failed_for_a_passing_reason_is_sent_again_and_stored_once(plan: Any) -> None:
    """Also when the broker had stored it before the connection was lost."""
    log = Log(1)
    log.plans = [None, plan, plan]
    producer = produce(log, 300, batch_bytes=1000)
    assert log.values[0] == values(300)
    assert producer.acknowledged == 300


def test_a_leader_that_moves_is_followed() -> None:
    """In order, nothing lost."""
    log = Log(1)
    with log.cluster.client() as client, Producer(client, batch_bytes=200) as producer:
        for number, value in enumerate(values(100)):
            if number == 50:
                log.cluster.leaders = [2]
            producer.append("t", OutgoingRecord(None, value))
    assert log.values[0] == values(100)
    assert set(log.cluster.nodes_asked(ProduceRequest)) == {1, 2}


def test_a_batch_that_is_too_large_is_halved_until_it_fits() -> None:
    """With its sequence numbers kept in order."""
    log = Log(1)
    log.batch_bytes_max = 150
    produce(log, 100, codec=1)
    assert log.values[0] == values(100)
    assert all(header.codec == 1 for header in log.headers)


def test_a_single_record_that_is_too_large_is_refused() -> None:
    """There is nothing to split."""
    log = Log(1)
    log.batch_bytes_max = 10
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        produce(log, 1)


def test_a_refusal_for_good_names_the_record() -> None:
    """With the broker's words."""
    log = Log(1)

    def refuse(broker: FakeBroker, request: ProduceRequest) -> ProduceResponse:
        wrong = BatchIndexAndErrorMessage(batch_index=3, batch_index_error_message="no key")
        row = PartitionProduceResponse(index=0, error_code=ErrorCode.INVALID_RECORD, record_errors=[wrong])
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[row])])

    log.cluster.handlers[ProduceRequest] = refuse
    with pytest.raises(KafkaError, match="INVALID_RECORD: t-0: record 3 of the batch: no key"):
        produce(log, 5)


def test_time_runs_out() -> None:
    """The last reason is the error: of a leader, of the metadata, or of the network."""
    log = Log(1)
    log.plans = [int(ErrorCode.NOT_ENOUGH_REPLICAS)] * 1000
    with pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS"):
        produce(log, 1, timeout_s=0.02)
    log = Log(-1)
    with pytest.raises(KafkaError, match="LEADER_NOT_AVAILABLE"):
        produce(log, 1, timeout_s=0.02, idempotent=False)
    log = Log(2)
    log.cluster.down = {2}
    with pytest.raises(Unreachable, match="broker2"):
        produce(log, 1, timeout_s=0.02, idempotent=False)


def test_without_producer_ids_it_works_all_the_same() -> None:
    """Old brokers, no rights, or not wanted: then batches have no numbers."""
    log = Log(1)
    log.cluster.unserved = {INIT_PRODUCER_ID_KEY}
    produce(log, 3)
    log.cluster.unserved = set()
    log.init_codes = [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    produce(log, 3)
    produce(log, 3, idempotent=False)
    produce(log, 3, acks=1)
    assert not any(header.has_producer_id for header in log.headers)
    assert len(log.values[0]) == 12


def test_a_producer_id_is_waited_for() -> None:
    """A coordinator that still loads; other refusals are errors."""
    log = Log(1)
    log.init_codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]
    produce(log, 1)
    assert log.headers[0].producer_id == 7
    log.init_codes = [ErrorCode.INVALID_REQUEST]
    with pytest.raises(KafkaError, match="INVALID_REQUEST: no producer id"):
        produce(log, 1)


def test_deliveries_tell_the_offsets() -> None:
    """With acks=0 nobody knows them."""
    log = Log(1)
    seen: list[Delivered] = []
    produce(log, 10, batch_bytes=300, on_delivery=seen.append)
    assert [record.offset for delivered in seen for record in delivered.records()] == list(range(10))
    seen.clear()
    producer = produce(log, 2, acks=0, on_delivery=seen.append)
    assert [delivered.base_offset for delivered in seen] == [-1]
    assert producer.acknowledged == 2


def test_nothing_is_flushed_after_a_failure() -> None:
    """The with block lets the exception through as it is."""
    log = Log(1)
    with pytest.raises(RuntimeError), log.cluster.client() as client, Producer(client) as producer:
        producer.append("t", OutgoingRecord(None, b"x"))
        raise RuntimeError
    assert log.values == {}
