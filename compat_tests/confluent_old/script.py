"""`script.py CHECK BOOTSTRAP TOPIC`: one check against a topic of two partitions. Runs in the old client's own environment."""

from __future__ import annotations

import sys
import time

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

WAIT_S = 20


def produce(bootstrap: str, topic: str, values: list[bytes], **config: object) -> list[int]:
    """The offsets at which they were stored on partition 0."""
    offsets: list[int] = []
    errors: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            **{key.replace("_", "."): value for key, value in config.items()},
        }
    )
    for value in values:
        producer.produce(
            topic,
            value,
            partition=0,
            on_delivery=lambda error, m: errors.append(error) if error else offsets.append(m.offset()),
        )
    assert producer.flush(WAIT_S) == 0 and errors == [], errors
    return offsets


def consumer(bootstrap: str, topic: str, **config: object) -> Consumer:
    """From the beginning, without commits of its own."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"group-{topic}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    return Consumer({**settings, **{key.replace("_", "."): value for key, value in config.items()}})


def take(source: Consumer, count: int) -> list[bytes]:
    """So many values."""
    found: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records"
        message = source.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            found.append(message.value())
    return found


def round_trip(bootstrap: str, topic: str, codec: str) -> None:
    """Through one codec."""
    sent = [b"the same text again and again %d" % (number % 10) * 10 for number in range(500)]
    assert produce(bootstrap, topic, sent, compression_type=codec) == list(range(500))
    source = consumer(bootstrap, topic)
    source.assign([TopicPartition(topic, 0, 0)])
    assert take(source, 500) == sent
    source.close()


def check_uncompressed(bootstrap: str, topic: str) -> None:
    round_trip(bootstrap, topic, "none")


def check_gzip(bootstrap: str, topic: str) -> None:
    round_trip(bootstrap, topic, "gzip")


def check_snappy(bootstrap: str, topic: str) -> None:
    round_trip(bootstrap, topic, "snappy")


def check_lz4(bootstrap: str, topic: str) -> None:
    round_trip(bootstrap, topic, "lz4")


def check_zstd(bootstrap: str, topic: str) -> None:
    round_trip(bootstrap, topic, "zstd")


def check_idempotent_producer(bootstrap: str, topic: str) -> None:
    values = [b"%d" % number for number in range(500)]
    assert produce(bootstrap, topic, values, enable_idempotence=True, batch_num_messages=10) == list(range(500))


def check_group_commits_and_resumes(bootstrap: str, topic: str) -> None:
    for strategy, values in (("range", [b"a", b"b"]), ("roundrobin", [b"c"]), ("cooperative-sticky", [b"d"])):
        produce(bootstrap, topic, values)
        source = consumer(bootstrap, topic, partition_assignment_strategy=strategy)
        source.subscribe([topic])
        assert take(source, len(values)) == values
        source.commit(asynchronous=False)
        source.close()


def check_offsets_for_times(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [b"a", b"b"])
    source = consumer(bootstrap, topic)
    assert source.offsets_for_times([TopicPartition(topic, 0, 1_000)], timeout=WAIT_S)[0].offset == 0
    assert source.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S) == (0, 2)
    source.close()


def check_transactions(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"tx-{topic}"})
    producer.init_transactions(WAIT_S)
    source = consumer(bootstrap, topic, isolation_level="read_committed")
    source.subscribe([topic])
    source.poll(1.0)
    for commit in (False, True):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % commit, partition=0)
        producer.send_offsets_to_transaction([TopicPartition(topic, 1, 7)], source.consumer_group_metadata(), WAIT_S)
        (producer.commit_transaction if commit else producer.abort_transaction)(WAIT_S)
    assert take(source, 1) == [b"1"]
    assert source.committed([TopicPartition(topic, 1)], timeout=WAIT_S)[0].offset == 7
    source.close()


def check_admin(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    name = f"{topic}-made"
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(WAIT_S)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    assert admin.describe_configs([resource])[resource].result(WAIT_S)["cleanup.policy"].value == "delete"
    assert len(admin.describe_cluster().result(WAIT_S).nodes) == 1
    admin.delete_topics([name])[name].result(WAIT_S)


if __name__ == "__main__":
    globals()["check_" + sys.argv[1]](*sys.argv[2:])
