"""Producing: compression, headers, timestamps, sizes, acknowledgements, idempotence."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaException, Producer

from compat_tests.confluent.support import produce, read, values
from compat_tests.target import Target


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compression(bootstrap: str, topic: str, codec: str) -> None:
    """A batch of every codec comes back as it was sent."""
    sent = [b"record %d " % number * 20 for number in range(200)]
    produce(bootstrap, topic, sent, {"compression.type": codec, "linger.ms": 20}, partition=0)
    assert values(read(bootstrap, topic, 200)) == sent


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_topic_recompresses_to(target: Target, unique, codec: str) -> None:
    """A topic with a compression.type of its own rewrites the batches and loses nothing."""
    name = unique("recompressed")
    target.create_topic(name, 1, {"compression.type": codec})
    sent = [b"record %d " % number * 20 for number in range(100)]
    produce(target.bootstrap, name, sent, {"compression.type": "lz4", "linger.ms": 20})
    assert values(read(target.bootstrap, name, 100)) == sent


def test_headers_keys_and_nulls(bootstrap: str, topic: str) -> None:
    """Headers keep their order and repetitions; null and empty differ."""
    headers = [("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None), ("ünï", b"\x00\xff")]
    produce(bootstrap, topic, [b"", b"x"], headers=headers, key=b"key", partition=1)
    produce(bootstrap, topic, [None], key=b"gone", partition=1)
    first, second, third = read(bootstrap, topic, 3)
    assert first.headers() == headers and first.key() == b"key" and first.value() == b""
    assert second.value() == b"x"
    assert third.value() is None and third.headers() is None and third.key() == b"gone"


def test_create_time(bootstrap: str, topic: str) -> None:
    """The producer's timestamp is kept."""
    stamp = int(time.time() * 1000) - 86_400_000
    produce(bootstrap, topic, [b"x"], timestamp=stamp)
    assert read(bootstrap, topic, 1)[0].timestamp() == (TIMESTAMP_CREATE_TIME, stamp)


def test_log_append_time(target: Target, unique) -> None:
    """With LogAppendTime the broker's clock counts, in the answer and in the record."""
    name = unique("append-time")
    target.create_topic(name, 1, {"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    (report,) = produce(target.bootstrap, name, [b"x"], timestamp=1_000)
    (record,) = read(target.bootstrap, name, 1)
    assert record.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME
    assert before <= record.timestamp()[1] <= int(time.time() * 1000)
    assert report.timestamp() == record.timestamp()


def test_large_messages(bootstrap: str, topic: str) -> None:
    """Records just below a topic's default limit of a megabyte."""
    sent = [bytes([65 + number]) * 1_000_000 for number in range(5)]
    produce(bootstrap, topic, sent, {"message.max.bytes": 1_100_000}, partition=0)
    assert values(read(bootstrap, topic, 5)) == sent


def test_ten_megabyte_messages(target: Target, unique) -> None:
    """A topic may raise its limit, and a small fetch size still makes progress."""
    name = unique("huge")
    target.create_topic(name, 1, {"max.message.bytes": "11000000"})
    sent = [b"A" * 10_000_000, b"B" * 10_000_000]
    produce(target.bootstrap, name, sent, {"message.max.bytes": 10_500_000})
    assert values(read(target.bootstrap, name, 2, **{"max.partition.fetch.bytes": 65_536})) == sent


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(bootstrap: str, topic: str, acks: str) -> None:
    """All three kinds of acknowledgement; only acks=0 does not learn its offset."""
    reports = produce(bootstrap, topic, [b"%d" % number for number in range(50)], {"acks": acks}, partition=0)
    assert len(read(bootstrap, topic, 50)) == 50
    if acks != "0":
        assert [report.offset() for report in reports] == list(range(50))


def test_idempotent_producer(bootstrap: str, topic: str) -> None:
    """Many small batches in flight arrive once and in order."""
    sent = [b"%d" % number for number in range(2_000)]
    config = {"enable.idempotence": True, "batch.num.messages": 10, "max.in.flight.requests.per.connection": 5}
    reports = produce(bootstrap, topic, sent, config, partition=0)
    assert [report.offset() for report in reports] == list(range(2_000))
    assert values(read(bootstrap, topic, 2_000)) == sent


def test_keys_choose_partitions(bootstrap: str, topic: str) -> None:
    """One key stays on one partition, many keys use both."""
    reports = [produce(bootstrap, topic, [b"x"] * 2, key=b"key-%d" % number) for number in range(8)]
    assert all(first.partition() == second.partition() for first, second in reports)
    assert {first.partition() for first, _ in reports} == {0, 1}


def test_auto_creation(bootstrap: str, unique) -> None:
    """Producing to a topic that is not there creates it, with the broker's num.partitions."""
    name = unique("auto")
    produce(bootstrap, name, [b"x"])
    producer = Producer({"bootstrap.servers": bootstrap})
    assert len(producer.list_topics(name, timeout=10).topics[name].partitions) == 2


def test_oversized_message(target: Target, unique) -> None:
    """The broker refuses what is larger than the topic allows, with MESSAGE_TOO_LARGE."""
    name = unique("small")
    target.create_topic(name, 1, {"max.message.bytes": "1000"})
    errors = []
    producer = Producer({"bootstrap.servers": target.bootstrap})
    producer.produce(name, b"x" * 5_000, on_delivery=lambda error, _: errors.append(error.name() if error else None))
    producer.flush(20)
    assert errors == ["MSG_SIZE_TOO_LARGE"]


def test_null_key_on_compacted_topic(target: Target, unique) -> None:
    """A compacted topic takes no record without a key."""
    name = unique("compacted")
    target.create_topic(name, 1, {"cleanup.policy": "compact"})
    errors = []
    producer = Producer({"bootstrap.servers": target.bootstrap})
    producer.produce(name, b"x", on_delivery=lambda error, _: errors.append(error.name() if error else None))
    producer.flush(20)
    assert errors == ["INVALID_RECORD"]


def test_timestamp_too_far_ahead(target: Target, unique) -> None:
    """message.timestamp.after.max.ms holds."""
    name = unique("ahead")
    target.create_topic(name, 1, {"message.timestamp.after.max.ms": "1000"})
    errors = []
    producer = Producer({"bootstrap.servers": target.bootstrap})
    ahead = int(time.time() * 1000) + 3_600_000
    producer.produce(
        name, b"x", timestamp=ahead, on_delivery=lambda error, _: errors.append(error.name() if error else None)
    )
    producer.flush(20)
    assert errors == ["INVALID_TIMESTAMP"]


def test_unknown_partition(bootstrap: str, topic: str) -> None:
    """A partition that the topic does not have is an error of the record."""
    errors = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.list_topics(topic, timeout=10)
    try:
        producer.produce(
            topic, b"x", partition=99, on_delivery=lambda error, _: errors.append(error.name() if error else None)
        )
        producer.flush(20)
    except KafkaException as failure:
        errors.append(failure.args[0].name())
    assert errors == ["_UNKNOWN_PARTITION"]
