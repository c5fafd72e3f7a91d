"""Consuming without a group's help: positions, times, watermarks, ends, errors."""

from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, TopicPartition

from compat_tests.confluent.support import WAIT_S, consumer, first_failure, produce, take, until, values
from compat_tests.target import Target

BASE_MS = 1_700_000_000_000


@pytest.fixture
def filled(bootstrap: str, topic: str) -> str:
    """Ten records on partition 0, ten seconds apart."""
    for number in range(10):
        produce(bootstrap, topic, [b"%d" % number], partition=0, timestamp=BASE_MS + number * 10_000)
    return topic


@pytest.mark.parametrize("offset", [0, 4, OFFSET_BEGINNING, OFFSET_END])
def test_assign_at(bootstrap: str, filled: str, unique, offset: int) -> None:
    """Reading starts where it was told to."""
    source = consumer(bootstrap, unique("g"))
    source.assign([TopicPartition(filled, 0, offset)])
    if offset == OFFSET_END:
        until(lambda: source.get_watermark_offsets(TopicPartition(filled, 0), cached=True)[1] == 10, [source])
        produce(bootstrap, filled, [b"new"], partition=0)
    first = values(take(source, 1))[0]
    assert first == {0: b"0", 4: b"4", OFFSET_BEGINNING: b"0", OFFSET_END: b"new"}[offset]
    source.close()


def test_seek(bootstrap: str, filled: str, unique) -> None:
    """Forwards and backwards, within a running assignment."""
    source = consumer(bootstrap, unique("g"))
    source.assign([TopicPartition(filled, 0, 0)])
    take(source, 2)
    for offset in (7, 1):
        source.seek(TopicPartition(filled, 0, offset))
        assert take(source, 1)[0].offset() == offset
    source.close()


def test_offsets_for_times(bootstrap: str, filled: str, unique) -> None:
    """The first record not older than a time; the end when there is none; and the record with the highest timestamp."""
    source = consumer(bootstrap, unique("g"))
    asked = {0: 0, BASE_MS: 0, BASE_MS + 1: 1, BASE_MS + 45_000: 5, BASE_MS + 90_000: 9}
    for timestamp, offset in asked.items():
        (found,) = source.offsets_for_times([TopicPartition(filled, 0, timestamp)], timeout=WAIT_S)
        assert (found.error, found.offset) == (None, offset)
    (none,) = source.offsets_for_times([TopicPartition(filled, 0, BASE_MS + 90_001)], timeout=WAIT_S)
    assert none.offset == OFFSET_END
    source.close()


def test_watermarks(bootstrap: str, filled: str, unique) -> None:
    """The first offset and the one after the last."""
    source = consumer(bootstrap, unique("g"))
    assert source.get_watermark_offsets(TopicPartition(filled, 0), timeout=WAIT_S) == (0, 10)
    assert source.get_watermark_offsets(TopicPartition(filled, 1), timeout=WAIT_S) == (0, 0)
    source.close()


def test_partition_eof(bootstrap: str, filled: str, unique) -> None:
    """enable.partition.eof reports the end of each partition."""
    source = consumer(bootstrap, unique("g"), **{"enable.partition.eof": True})
    source.assign([TopicPartition(filled, 0, 8), TopicPartition(filled, 1, 0)])
    ends = {}

    def ended() -> bool:
        message = source.poll(0.1)
        if message is not None and message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF
            ends[message.partition()] = message.offset()
        return len(ends) == 2

    until(ended)
    assert ends == {0: 10, 1: 0}
    source.close()


def test_offset_out_of_range_resets(bootstrap: str, filled: str, unique) -> None:
    """auto.offset.reset decides what happens beyond the end."""
    source = consumer(bootstrap, unique("g"))
    source.assign([TopicPartition(filled, 0, 1_000)])
    assert take(source, 1)[0].offset() == 0
    source.close()


def test_offset_out_of_range_error(bootstrap: str, filled: str, unique) -> None:
    """auto.offset.reset=error hands it to the application."""
    source = consumer(bootstrap, unique("g"), **{"auto.offset.reset": "error"})
    source.assign([TopicPartition(filled, 0, 1_000)])
    assert first_failure(source) == KafkaError._AUTO_OFFSET_RESET
    source.close()


def test_pause_and_resume(bootstrap: str, filled: str, unique) -> None:
    """A paused partition is quiet, and goes on where it stood."""
    source = consumer(bootstrap, unique("g"))
    partition = TopicPartition(filled, 0, 0)
    source.assign([partition])
    assert take(source, 1)[0].offset() == 0
    source.pause([partition])
    assert source.poll(0.5) is None
    source.resume([partition])
    assert take(source, 1)[0].offset() == 1
    source.close()


def test_long_poll_answers_on_append(bootstrap: str, topic: str, unique) -> None:
    """A consumer that waits with a large fetch.wait.max.ms gets a record at once."""
    source = consumer(bootstrap, unique("g"), **{"fetch.wait.max.ms": 4_000, "enable.partition.eof": True})
    source.assign([TopicPartition(topic, 0, 0)])
    until(lambda: (message := source.poll(0.1)) is not None and message.error().code() == KafkaError._PARTITION_EOF)
    produce(bootstrap, topic, [b"now"], partition=0)
    assert values(take(source, 1, wait_s=2)) == [b"now"]
    source.close()


def test_many_partitions(target: Target, unique) -> None:
    """One consumer reads fifty partitions, each in its order."""
    name = unique("many")
    target.create_topic(name, 50)
    for partition in range(50):
        produce(target.bootstrap, name, [b"%d" % number for number in range(4)], partition=partition)
    source = consumer(target.bootstrap, unique("g"))
    source.assign([TopicPartition(name, partition, 0) for partition in range(50)])
    found = take(source, 200)
    for partition in range(50):
        assert values(m for m in found if m.partition() == partition) == [b"0", b"1", b"2", b"3"]
    source.close()


def test_unknown_topic(bootstrap: str, unique) -> None:
    """Subscribing to a topic that is not there reports UNKNOWN_TOPIC_OR_PART."""
    source = consumer(bootstrap, unique("g"), **{"allow.auto.create.topics": False})
    source.subscribe([unique("nowhere")])
    assert first_failure(source) == KafkaError.UNKNOWN_TOPIC_OR_PART
    source.close()


def test_invalid_topic_name(bootstrap: str, unique) -> None:
    """A name with characters that Kafka does not allow."""
    source: Consumer = consumer(bootstrap, unique("g"))
    metadata = source.list_topics("not a topic!", timeout=WAIT_S)
    error = metadata.topics["not a topic!"].error
    assert error is not None and error.code() == KafkaError.TOPIC_EXCEPTION
    source.close()


def test_metadata(bootstrap: str, topic: str, unique) -> None:
    """Brokers, controller, cluster id, leaders, replicas."""
    source = consumer(bootstrap, unique("g"))
    metadata = source.list_topics(topic, timeout=WAIT_S)
    assert list(metadata.brokers) == [1] and metadata.controller_id == 1
    assert len(metadata.cluster_id) == 22
    for partition in metadata.topics[topic].partitions.values():
        assert (partition.leader, partition.replicas, partition.isrs) == (1, [1], [1])
    source.close()
