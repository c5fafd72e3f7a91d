"""Transactions: what is committed is seen, what is aborted is not, offsets go with them, zombies are fenced."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from compat_tests.confluent.support import WAIT_S, consumer, produce, read, take, values
from compat_tests.target import Target


def transactional(bootstrap: str, transactional_id: str, **config: object) -> Producer:
    """A producer that has its id."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0, **config}
    )
    producer.init_transactions(WAIT_S)
    return producer


def test_commit(bootstrap: str, topic: str, unique) -> None:
    """Records of a committed transaction, over both partitions."""
    producer = transactional(bootstrap, unique("tx"))
    producer.begin_transaction()
    for number in range(10):
        producer.produce(topic, b"%d" % number, partition=number % 2)
    producer.commit_transaction(WAIT_S)
    found = read(bootstrap, topic, 10, **{"isolation.level": "read_committed"})
    assert sorted(values(found)) == [b"%d" % number for number in range(10)]


def test_abort(bootstrap: str, topic: str, unique) -> None:
    """read_committed never shows what read_uncommitted does."""
    producer = transactional(bootstrap, unique("tx"))
    producer.begin_transaction()
    producer.produce(topic, b"aborted", partition=0)
    producer.flush(WAIT_S)
    producer.abort_transaction(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"committed", partition=0)
    producer.commit_transaction(WAIT_S)
    assert values(read(bootstrap, topic, 1, **{"isolation.level": "read_committed"})) == [b"committed"]
    assert values(read(bootstrap, topic, 2, **{"isolation.level": "read_uncommitted"})) == [b"aborted", b"committed"]


def test_many_mixed_transactions(bootstrap: str, topic: str, unique) -> None:
    """Thirty transactions, every third one aborted, beside a producer without any."""
    producer = transactional(bootstrap, unique("tx"))
    expected = []
    for number in range(30):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=0)
        producer.flush(WAIT_S)
        produce(bootstrap, topic, [b"plain-%d" % number], partition=0)
        if number % 3 == 0:
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)
            expected.append(b"%d" % number)
        expected.append(b"plain-%d" % number)
    assert values(read(bootstrap, topic, len(expected), **{"isolation.level": "read_committed"})) == expected


def test_open_transaction_holds_readers_back(bootstrap: str, topic: str, unique) -> None:
    """The last stable offset stops read_committed until the transaction ends."""
    producer = transactional(bootstrap, unique("tx"))
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(WAIT_S)
    produce(bootstrap, topic, [b"behind"], partition=0)
    source = consumer(bootstrap, unique("g"), **{"isolation.level": "read_committed"})
    source.assign([TopicPartition(topic, 0, 0)])
    assert source.poll(1.0) is None
    assert source.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)[1] == 0
    producer.commit_transaction(WAIT_S)
    assert values(take(source, 2)) == [b"open", b"behind"]
    source.close()


def test_consume_transform_produce(target: Target, topic: str, unique) -> None:
    """send_offsets_to_transaction: offsets come with the records, or not at all."""
    output, group = unique("output"), unique("g")
    target.create_topic(output, 1)
    produce(target.bootstrap, topic, [b"%d" % number for number in range(6)], partition=0)
    source = consumer(target.bootstrap, group, **{"isolation.level": "read_committed"})
    source.subscribe([topic])
    producer = transactional(target.bootstrap, unique("tx"))
    for attempt in ("abort", "commit"):
        producer.begin_transaction()
        for message in take(source, 6):
            producer.produce(output, attempt.encode() + b" " + (message.value() or b""))
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, 6)], source.consumer_group_metadata(), WAIT_S)
        if attempt == "abort":
            producer.abort_transaction(WAIT_S)
            assert source.committed([TopicPartition(topic, 0)], timeout=WAIT_S)[0].offset < 0
            source.seek(TopicPartition(topic, 0, 0))
        else:
            producer.commit_transaction(WAIT_S)
    assert source.committed([TopicPartition(topic, 0)], timeout=WAIT_S)[0].offset == 6
    expected = [b"commit %d" % number for number in range(6)]
    assert values(read(target.bootstrap, output, 6, **{"isolation.level": "read_committed"})) == expected
    source.close()


def test_zombie_is_fenced(bootstrap: str, topic: str, unique) -> None:
    """A second producer of the same id ends the first one's transaction, and its life."""
    name = unique("tx")
    zombie = transactional(bootstrap, name)
    zombie.begin_transaction()
    zombie.produce(topic, b"zombie", partition=0)
    zombie.flush(WAIT_S)
    heir = transactional(bootstrap, name)
    with pytest.raises(KafkaException) as failure:
        zombie.commit_transaction(WAIT_S)
    assert failure.value.args[0].fatal()
    assert failure.value.args[0].code() in (
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    )
    heir.begin_transaction()
    heir.produce(topic, b"heir", partition=0)
    heir.commit_transaction(WAIT_S)
    assert values(read(bootstrap, topic, 1, **{"isolation.level": "read_committed"})) == [b"heir"]


def test_transaction_timeout_aborts(bootstrap: str, topic: str, unique) -> None:
    """The coordinator ends a transaction that its producer forgot; readers go on."""
    producer = transactional(bootstrap, unique("tx"), **{"transaction.timeout.ms": 1_000})
    producer.begin_transaction()
    producer.produce(topic, b"forgotten", partition=0)
    producer.flush(WAIT_S)
    produce(bootstrap, topic, [b"behind"], partition=0)
    assert values(read(bootstrap, topic, 1, **{"isolation.level": "read_committed"})) == [b"behind"]


def test_timeout_above_the_maximum(bootstrap: str, unique) -> None:
    """transaction.max.timeout.ms (15 minutes) bounds what a producer may ask for."""
    with pytest.raises(KafkaException) as failure:
        transactional(bootstrap, unique("tx"), **{"transaction.timeout.ms": 3_600_000})
    assert failure.value.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_transaction(bootstrap: str, topic: str, unique, codec: str) -> None:
    """Transactional batches of every codec."""
    producer = transactional(bootstrap, unique("tx"), **{"compression.type": codec})
    producer.begin_transaction()
    sent = [b"record %d " % number * 10 for number in range(100)]
    for value in sent:
        producer.produce(topic, value, partition=0)
    producer.commit_transaction(WAIT_S)
    assert values(read(bootstrap, topic, 100, **{"isolation.level": "read_committed"})) == sent
