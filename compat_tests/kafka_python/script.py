"""`script.py CHECK BOOTSTRAP TOPIC`: one check with kafka-python against a topic of two partitions. Runs in the client's own environment."""

from __future__ import annotations

import sys
import threading
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import TopicAlreadyExistsError

WAIT_S = 20


def reader(bootstrap: str, **config: object) -> KafkaConsumer:
    """A consumer from the beginning that gives up after a while."""
    settings = {
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "consumer_timeout_ms": WAIT_S * 1000,
        **config,
    }
    return KafkaConsumer(bootstrap_servers=bootstrap, **settings)


def take(consumer: KafkaConsumer, count: int) -> list:
    """So many records."""
    found = []
    for record in consumer:
        found.append(record)
        if len(found) == count:
            return found
    raise AssertionError(f"{len(found)} of {count} records")


def until(condition: object) -> None:
    """Wait for it, with a deadline."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


def round_trip(bootstrap: str, topic: str, codec: str | None) -> None:
    """A hundred records through one codec."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=20)
    sent = [b"record %d " % number * 10 for number in range(100)]
    futures = [producer.send(topic, value, partition=0) for value in sent]
    assert [future.get(WAIT_S).offset for future in futures] == list(range(100))
    producer.close()
    consumer = reader(bootstrap)
    consumer.assign([TopicPartition(topic, 0)])
    assert [record.value for record in take(consumer, 100)] == sent
    consumer.close()


def check_produce_and_consume(bootstrap: str, topic: str) -> None:
    round_trip(bootstrap, topic, None)


def check_gzip(bootstrap: str, topic: str) -> None:
    round_trip(bootstrap, topic, "gzip")


def check_snappy(bootstrap: str, topic: str) -> None:
    round_trip(bootstrap, topic, "snappy")


def check_lz4(bootstrap: str, topic: str) -> None:
    round_trip(bootstrap, topic, "lz4")


def check_zstd(bootstrap: str, topic: str) -> None:
    round_trip(bootstrap, topic, "zstd")


def check_headers_keys_and_timestamps(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    headers = [("a", b"1"), ("a", b"2"), ("empty", b"")]
    producer.send(topic, b"v", key=b"k", headers=headers, partition=1, timestamp_ms=1_700_000_000_000).get(WAIT_S)
    producer.close()
    consumer = reader(bootstrap)
    consumer.assign([TopicPartition(topic, 1)])
    (record,) = take(consumer, 1)
    assert (record.key, record.value, record.timestamp) == (b"k", b"v", 1_700_000_000_000)
    assert list(map(tuple, record.headers)) == headers
    consumer.close()


def check_acks(bootstrap: str, topic: str) -> None:
    for acks in (0, 1, "all"):
        producer = KafkaProducer(bootstrap_servers=bootstrap, acks=acks, enable_idempotence=False)
        producer.send(topic, str(acks).encode(), partition=0).get(WAIT_S)
        producer.close()
    consumer = reader(bootstrap)
    consumer.assign([TopicPartition(topic, 0)])
    assert [record.value for record in take(consumer, 3)] == [b"0", b"1", b"all"]
    consumer.close()


def check_idempotent_producer(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, acks="all", batch_size=100)
    futures = [producer.send(topic, b"%d" % number, partition=0) for number in range(300)]
    assert [future.get(WAIT_S).offset for future in futures] == list(range(300))
    producer.close()


def check_transactions(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"tx-{topic}")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"aborted", partition=0).get(WAIT_S)
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send(topic, b"committed", partition=0)
    producer.send_offsets_to_transaction({TopicPartition(topic, 1): offset(5)}, f"group-{topic}")
    producer.commit_transaction()
    producer.close()
    consumer = reader(bootstrap, isolation_level="read_committed", group_id=f"group-{topic}")
    consumer.assign([TopicPartition(topic, 0)])
    assert [record.value for record in take(consumer, 1)] == [b"committed"]
    until(
        lambda: consumer.committed(TopicPartition(topic, 1)) == 5
    )  # EndTxn is answered before all markers are written
    consumer.close()


def offset(number: int) -> object:
    """The client's offset with metadata, whose fields differ between its versions."""
    from kafka.structs import OffsetAndMetadata

    return OffsetAndMetadata(*(number, "", -1)[: len(OffsetAndMetadata._fields)])


def check_group_commits_and_resumes(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(10):
        producer.send(topic, b"%d" % number, partition=0)
    producer.flush()
    first = reader(bootstrap, group_id=f"group-{topic}")
    first.subscribe([topic])
    take(first, 10)
    first.commit()
    first.close()
    producer.send(topic, b"next", partition=0).get(WAIT_S)
    producer.close()
    second = reader(bootstrap, group_id=f"group-{topic}")
    second.subscribe([topic])
    assert [record.value for record in take(second, 1)] == [b"next"]
    second.close()


def check_group_of_two(bootstrap: str, topic: str) -> None:
    config = {"group_id": f"group-{topic}", "heartbeat_interval_ms": 300, "session_timeout_ms": 6000}
    sizes, leave = [0, 0], [threading.Event(), threading.Event()]

    def member(index: int) -> None:
        with_group = reader(bootstrap, **config)
        with_group.subscribe([topic])
        while not leave[index].is_set():
            with_group.poll(100)
            sizes[index] = len(with_group.assignment())
        with_group.close()

    threads = [threading.Thread(target=member, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: sizes == [1, 1])
        leave[0].set()
        until(lambda: sizes[1] == 2)
    finally:
        for index, thread in enumerate(threads):
            leave[index].set()
            thread.join()


def check_seek_and_offsets_for_times(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(5):
        producer.send(topic, b"%d" % number, partition=0, timestamp_ms=1_700_000_000_000 + number * 1000).get(WAIT_S)
    producer.close()
    consumer = reader(bootstrap)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    assert consumer.offsets_for_times({partition: 1_700_000_001_500})[partition].offset == 2
    assert consumer.beginning_offsets([partition]) == {partition: 0} and consumer.end_offsets([partition]) == {
        partition: 5
    }
    consumer.seek(partition, 3)
    assert [record.value for record in take(consumer, 2)] == [b"3", b"4"]
    consumer.close()


def check_admin_topics(bootstrap: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    name = topic + "-made"
    admin.create_topics([NewTopic(name, num_partitions=3, replication_factor=1)])
    until(lambda: name in admin.list_topics())
    try:
        admin.create_topics([NewTopic(name, num_partitions=3, replication_factor=1)])
    except TopicAlreadyExistsError:
        pass
    else:
        raise AssertionError("a topic was made twice")
    admin.delete_topics([name])
    until(lambda: name not in admin.list_topics())
    admin.close()


def check_admin_cluster(bootstrap: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    cluster = admin.describe_cluster()
    assert len(cluster["brokers"]) == 1 and cluster["controller_id"] == 1
    admin.close()


if __name__ == "__main__":
    globals()["check_" + sys.argv[1]](*sys.argv[2:])
