"""Produce: what is written, what is refused with which code, what is answered at all."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.testing import Broker
from kafkapy.wire.apis import API_BY_KEY
from kafkapy.wire.messages.produce import PartitionProduceResponse
from kafkapy.wire.record_batch import set_crc
from tests.support.records import fetched
from tests.support.requests import batch, fetch, fetch_partition, metadata, produce, produce_many
from tests.support.wire_client import WireClient, connected

UNKNOWN_ID = bytes(range(16))


def answer_of(
    wire: WireClient, topic: str, records: bytes | None, version: int = 9, **options: Any
) -> PartitionProduceResponse:
    """What the one partition of a Produce is answered."""
    answer: PartitionProduceResponse = (
        wire.request(produce(topic, records, **options), version).responses[0].partition_responses[0]
    )
    return answer


def patched(data: bytes, at: int, form: str, value: int, *, reseal: bool = True) -> bytes:
    """The batch with one field overwritten, and a checksum that fits unless `reseal` is false."""
    changed = bytearray(data)
    struct.pack_into(">" + form, changed, at, value)
    if reseal:
        set_crc(changed, 0, len(changed))
    return bytes(changed)


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_appends(broker: Broker, wire: WireClient, version: int) -> None:
    """Each version of Produce writes its batch and is told the batch's offset."""
    name = f"versions-{version}"
    broker.create_topic(name)
    topic_id = wire.request(metadata(name), 12).topics[0].topic_id
    for acks, offset in ((1, 0), (-1, 2)):
        answer = wire.request(produce(name, batch(b"a", b"b"), acks=acks, topic_id=topic_id), version)
        partition = answer.responses[0].partition_responses[0]
        assert (partition.error_code, partition.base_offset) == (0, offset)
    assert [value for _, value in fetched(wire, name)] == [b"a", b"b", b"a", b"b"]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_advertised_for_librdkafka_only_are_refused(wire: WireClient, version: int) -> None:
    """Produce 0 to 2 stand in ApiVersions for old clients to see, but a request in one closes the connection."""
    assert API_BY_KEY[0].advertised.first == 0
    wire.send_bytes(struct.pack(">ihhih", 10, 0, version, 1, -1))
    assert wire.is_closed()


def test_unknown_topics_and_partitions(broker: Broker, wire: WireClient) -> None:
    """A topic or partition that is not there has a code of its own, by name and by id, and the others are written."""
    broker.create_topic("known", 2)
    answers = wire.request(
        produce_many([("known", 0, batch(b"a")), ("known", 2, batch(b"a")), ("nope", 0, batch(b"a"))]), 9
    ).responses
    codes = {(topic.name, one.index): one.error_code for topic in answers for one in topic.partition_responses}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == {("known", 0): 0, ("known", 2): unknown, ("nope", 0): unknown}
    answer = wire.request(produce("", batch(b"a"), topic_id=UNKNOWN_ID), 13).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda good: patched(good, 17, "I", 1, reseal=False), ErrorCode.CORRUPT_MESSAGE),
        (lambda good: b"", ErrorCode.INVALID_RECORD),
        (lambda good: good + good, ErrorCode.INVALID_RECORD),
        (lambda good: good[:-1], ErrorCode.INVALID_RECORD),
        (lambda good: good[:40], ErrorCode.INVALID_RECORD),
        (lambda good: b"\x7f" * 100, ErrorCode.CORRUPT_MESSAGE),
        (lambda good: patched(good, 16, "b", 0, reseal=False), ErrorCode.INVALID_RECORD),
        (lambda good: patched(good, 16, "b", 1, reseal=False), ErrorCode.INVALID_RECORD),
        (lambda good: patched(good, 16, "b", 3, reseal=False), ErrorCode.CORRUPT_MESSAGE),
        (lambda good: patched(good, 57, "i", 3), ErrorCode.INVALID_RECORD),
        (lambda good: patched(good, 57, "i", -1), ErrorCode.INVALID_RECORD),
        (lambda good: patched(good, 23, "i", 7), ErrorCode.INVALID_RECORD),
        (lambda good: patched(good, 0, "q", 5), ErrorCode.INVALID_RECORD),
        (lambda good: patched(good, 21, "h", 0x20), ErrorCode.INVALID_RECORD),
        (lambda good: patched(good, 21, "h", 0x10), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (lambda good: patched(good, 21, "h", 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (lambda good: None, ErrorCode.INVALID_REQUEST),
    ],
    ids=[
        "bad crc", "empty", "two batches", "cut", "less than a header", "garbage", "magic 0", "magic 1", "magic 3", "too many counted",
        "a negative count", "a wrong last delta", "a base offset", "a control batch", "transactional without a transaction", "codec 5", "null",
    ],
)  # fmt: skip
def test_damaged_batches_are_refused(
    broker: Broker, wire: WireClient, damage: Callable[[bytes], bytes | None], code: ErrorCode
) -> None:
    """A damaged batch is refused with Kafka's code, nothing of it is stored, and the connection goes on."""
    if not broker.parts.replicas.topics.get("damaged"):
        broker.create_topic("damaged")
    end = broker.parts.replicas.find("damaged", 0).log.log_end_offset
    assert answer_of(wire, "damaged", damage(batch(b"one", b"two"))).error_code == code
    assert broker.parts.replicas.find("damaged", 0).log.log_end_offset == end
    assert answer_of(wire, "damaged", batch(b"fine")).base_offset == end


def test_acks_must_be_known(broker: Broker, wire: WireClient) -> None:
    """acks are 0, 1 or -1; a topic that is not there counts more."""
    broker.create_topic("acks")
    assert answer_of(wire, "acks", batch(b"a"), acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert answer_of(wire, "no-acks", batch(b"a"), acks=2).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_acks_0_is_answered_with_nothing(broker: Broker, wire: WireClient) -> None:
    """A Produce with acks=0 is written, and the next answer belongs to the next request."""
    broker.create_topic("silent")
    for _ in range(3):
        wire.send(produce("silent", batch(b"a"), acks=0), 9, answered=False)
    assert len(fetched(wire, "silent")) == 3
    assert wire.is_silent()


def test_acks_0_refused_closes_the_connection(wire: WireClient) -> None:
    """A producer that does not read answers learns of an error by losing its connection."""
    wire.send(produce("nowhere", batch(b"a"), acks=0), 9, answered=False)
    wire.send(metadata(), 9, answered=False)
    assert wire.is_closed()


def test_nothing_to_produce(wire: WireClient) -> None:
    """A Produce without topics is answered at once."""
    for version in (3, 9, 13):
        assert wire.request(produce_many([]), version).responses == []


def test_a_batch_that_is_too_large(broker: Broker, wire: WireClient) -> None:
    """max.message.bytes counts the batch as it is sent; clients split and try again when they see this code."""
    broker.create_topic("small", config={"max.message.bytes": "1000"})
    assert answer_of(wire, "small", batch(b"x" * 2000)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert answer_of(wire, "small", batch(b"x" * 2000, codec=1)).error_code == 0


def test_zstd_needs_version_7(broker: Broker, wire: WireClient) -> None:
    """A client too old to read zstd must not write it."""
    broker.create_topic("zstd")
    assert answer_of(wire, "zstd", batch(b"x" * 99, codec=4), 6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert answer_of(wire, "zstd", batch(b"x" * 99, codec=4), 7).error_code == 0


def test_a_compacted_topic_needs_keys(broker: Broker, wire: WireClient) -> None:
    """Records without a key are named one by one, and the whole batch is refused."""
    broker.create_topic("compacted", config={"cleanup.policy": "compact"})
    answer = answer_of(wire, "compacted", batch(b"a", b"b"))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [0, 1]
    assert answer_of(wire, "compacted", batch(b"a", key=b"k")).error_code == 0
    assert answer_of(wire, "compacted", batch(b"a"), 7).error_code == ErrorCode.INVALID_RECORD


def test_a_timestamp_far_ahead(broker: Broker, wire: WireClient) -> None:
    """A record from two hours ahead is refused, one without a time is not."""
    broker.create_topic("ahead")
    answer = answer_of(wire, "ahead", batch(b"a", timestamp=2**60))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert answer_of(wire, "ahead", batch(b"a", timestamp=-1)).error_code == 0


def test_log_append_time(broker: Broker, wire: WireClient) -> None:
    """The broker's time replaces the producer's, and the producer is told."""
    broker.create_topic("timed", config={"message.timestamp.type": "LogAppendTime"})
    for codec in (0, 3):
        answer = answer_of(wire, "timed", batch(b"a", b"b", timestamp=5, codec=codec))
        assert answer.error_code == 0 and answer.log_append_time_ms > 1_600_000_000_000
        stored = wire.request(fetch("timed", fetch_partition(offset=answer.base_offset)), 12).responses[0].partitions[0]
        assert struct.unpack_from(">q", stored.records, 35)[0] == answer.log_append_time_ms


def idempotent(sequence: int, *, epoch: int = 0, producer: int = 100, count: int = 1) -> bytes:
    return batch(*[b"v"] * count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def test_duplicates_are_answered_with_the_original_offset(broker: Broker, wire: WireClient) -> None:
    """Each of the last five batches may come again and is told its first offset; an older one is out of order."""
    broker.create_topic("idempotent")
    for sequence in range(7):
        assert answer_of(wire, "idempotent", idempotent(sequence)).base_offset == sequence
    for sequence in range(2, 7):
        answer = answer_of(wire, "idempotent", idempotent(sequence))
        assert (answer.error_code, answer.base_offset) == (0, sequence)
    assert answer_of(wire, "idempotent", idempotent(1)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert len(fetched(wire, "idempotent")) == 7


def test_sequences(broker: Broker, wire: WireClient) -> None:
    """A gap is refused, the wrap is not; a producer that nobody knows may begin anywhere; a new epoch begins at 0."""
    broker.create_topic("sequences", 2)
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert answer_of(wire, "sequences", idempotent(50)).error_code == 0
    assert answer_of(wire, "sequences", idempotent(52)).error_code == code
    assert answer_of(wire, "sequences", idempotent(51, epoch=1)).error_code == code
    assert answer_of(wire, "sequences", idempotent(0, epoch=1)).error_code == 0
    assert answer_of(wire, "sequences", idempotent(51)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert answer_of(wire, "sequences", idempotent(2**31 - 1, count=3), index=1).error_code == 0
    assert answer_of(wire, "sequences", idempotent(2), index=1).error_code == 0


def test_a_restart_keeps_records_and_producers() -> None:
    """After each clean restart everything is there, and the last batch is still known when it comes again."""
    with Broker(topics={"kept": 1}) as broker:
        for sequence in range(3):
            with connected(broker.bootstrap) as wire:
                for again in range(max(0, sequence - 1), sequence + 1):
                    answer = answer_of(wire, "kept", idempotent(again), acks=-1)
                    assert (answer.error_code, answer.base_offset) == (0, again)
                assert [offset for offset, _ in fetched(wire, "kept")] == list(range(sequence + 1))
            broker.restart()


def test_clients_may_not_write_internal_topics(broker: Broker, wire: WireClient) -> None:
    """Only the coordinators write what they keep."""
    from kafkapy.wire.messages.find_coordinator import FindCoordinatorRequest

    wire.request(FindCoordinatorRequest(key="g"), 0)
    code = answer_of(wire, "__consumer_offsets", batch(b"a", key=b"k")).error_code
    assert code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_flush_messages_1_answers_after_the_disk(broker: Broker, wire: WireClient) -> None:
    """With flush.messages=1 the recovery point has passed a batch before its producer is told."""
    broker.create_topic("flushed", config={"flush.messages": "1"})
    for number in range(3):
        assert answer_of(wire, "flushed", batch(b"a")).error_code == 0
        assert broker.parts.replicas.find("flushed", 0).log.recovery_point == number + 1
