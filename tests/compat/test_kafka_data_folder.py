"""A data folder that Apache Kafka 4.3.1 wrote is served by kafkapy: records, topics, configuration, offsets of groups, transactions.

Apache Kafka runs once for all of it, and only where java and its jars are.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests import kafka_broker
from compat_tests.confluent.support import consumer, produce, take
from compat_tests.kafka_broker import KafkaBroker
from kafkapy.testing import Broker
from tests.cli.runner import run

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

pytestmark = [
    pytest.mark.skipif(kafka_broker.missing() is not None, reason=f"{kafka_broker.missing()}"),
    pytest.mark.slow,
]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FEW_SHARDS = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}


def values(count: int, prefix: str) -> list[bytes]:
    return [f"{prefix}-{number}".encode() for number in range(count)]


def write_everything(bootstrap: str) -> None:
    """What the tests look for afterwards: records by every codec, a group's offsets, a committed and an aborted transaction."""
    settings = {"segment.bytes": "1048576", "retention.ms": "-1"}
    topics = [admin.NewTopic("orders", 2, 1, config=settings), admin.NewTopic("paid", 1, 1)]
    client = admin.AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in client.create_topics(topics).values():
        future.result(20)
    for codec in CODECS:
        produce(bootstrap, "orders", values(40, codec), {"compression.type": codec}, partition=0, key=b"k")
    reader = consumer(bootstrap, "readers")
    reader.subscribe(["orders"])
    reader.commit(message=take(reader, 120)[-1], asynchronous=False)
    reader.close()
    transactional = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "till", "log_level": 0}
    )
    transactional.init_transactions(20)
    for value, end in ((b"kept", "commit"), (b"given up", "abort"), (b"kept too", "commit")):
        transactional.begin_transaction()
        transactional.produce("paid", value)
        transactional.flush(20)
        (transactional.commit_transaction if end == "commit" else transactional.abort_transaction)(20)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder as Apache Kafka left it, never touched again."""
    folder = tmp_path_factory.mktemp("kafka") / "data"
    with KafkaBroker({**FEW_SHARDS, "log.dirs": str(folder)}) as kafka:
        write_everything(kafka.bootstrap)
    return folder


@pytest.fixture
def broker(written: Path, tmp_path: Path) -> Iterator[Broker]:
    """kafkapy on a copy of it."""
    folder = tmp_path / "data"
    shutil.copytree(written, folder)
    with Broker(data_dir=folder, config={**FEW_SHARDS, "node.id": "1"}) as running:
        yield running


def read_all(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """The first `count` committed records of partition 0, by offset."""
    reader = consumer(bootstrap, "another", **{"isolation.level": "read_committed"})
    reader.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found = [message.value() for message in take(reader, count)]
    reader.close()
    return found


def test_records_and_topics_go_on(broker: Broker) -> None:
    """Every codec is read, ids and configuration are kept, new records follow the old ones, and all files are sound afterwards."""
    expected = [value for codec in CODECS for value in values(40, codec)]
    assert read_all(broker.bootstrap, "orders", 200) == expected
    (delivered,) = produce(broker.bootstrap, "orders", [b"new"], {"enable.idempotence": True}, partition=0)
    assert delivered.offset() == 200
    shown = run("topic", "config", "get", "orders", "-b", broker.bootstrap, "--format", "json").json
    overrides = {row["key"]: row["value"] for row in shown if row["source"] == "topic"}
    assert overrides == {"segment.bytes": "1048576", "retention.ms": "-1"}
    broker.restart()
    assert read_all(broker.bootstrap, "orders", 201) == [*expected, b"new"]
    broker.stop()
    verified = run("log", "verify", str(broker.data_dir / "orders-0"))
    assert verified.code == 0, verified.out


def test_a_group_reads_on_where_it_was(broker: Broker) -> None:
    """Offsets that were committed to Apache Kafka are where its members begin."""
    reader = consumer(broker.bootstrap, "readers")
    reader.subscribe(["orders"])
    assert [message.offset() for message in take(reader, 80)] == list(range(120, 200))
    reader.close()


def test_transactions_are_known(broker: Broker) -> None:
    """What was aborted stays unread, and the transactional id goes on in a new epoch under the same producer id."""
    assert read_all(broker.bootstrap, "paid", 2) == [b"kept", b"kept too"]
    till = run("txn", "describe", "till", "-b", broker.bootstrap, "--format", "json").json[0]
    transactional = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": "till", "log_level": 0}
    )
    transactional.init_transactions(20)
    transactional.begin_transaction()
    transactional.produce("paid", b"paid to us")
    transactional.commit_transaction(20)
    assert read_all(broker.bootstrap, "paid", 3) == [b"kept", b"kept too", b"paid to us"]
    after = run("txn", "describe", "till", "-b", broker.bootstrap, "--format", "json").json[0]
    assert after["producer_id"] == till["producer_id"]
    assert after["epoch"] > till["epoch"]


def test_a_folder_that_was_not_closed(written: Path, tmp_path: Path) -> None:
    """Without the clean-shutdown mark everything is checked batch by batch, and is there."""
    folder = tmp_path / "data"
    shutil.copytree(written, folder)
    (folder / ".kafka_cleanshutdown").unlink()
    for stale in folder.glob("orders-*/*index"):
        stale.unlink()
    with Broker(data_dir=folder, config={**FEW_SHARDS, "node.id": "1"}) as running:
        assert len(read_all(running.bootstrap, "orders", 200)) == 200
