"""What the store promises, asked of a whole broker with a stock client: retention, DeleteRecords, duplicates after a kill, Kafka's own dump tool."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkapy.testing import Broker
from tests.log.test_kafka_reads_it import LIBS, dump_log
from tests.server.support import wait_until
from tests.support.records import fetched
from tests.support.requests import batch, produce
from tests.support.wire_client import connected

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

SWEPT_OFTEN = {"log.retention.check.interval.ms": "20", "log.segment.delete.delay.ms": "0"}
WAIT_S = 10.0


def fill(broker: Broker, topic: str, count: int, **options: Any) -> None:
    """Produce `count` records of 1 kB, each a batch of its own."""
    with connected(broker.bootstrap) as wire:
        for number in range(count):
            wire.request(produce(topic, batch(number.to_bytes(4) + bytes(1000), **options)), 9)


def watermarks(broker: Broker, topic: str) -> tuple[int, int]:
    """Where partition 0 begins and ends, as a stock consumer sees it."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "log_level": 0})
    try:
        low, high = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), timeout=WAIT_S)
        return low, high
    finally:
        consumer.close()


def log_start(broker: Broker, topic: str) -> int:
    """The log start offset inside the broker."""
    return int(broker.parts.replicas.find(topic, 0).log.log_start_offset)


def test_retention_by_size() -> None:
    """Whole old segments go while more than retention.bytes remain, and their files with them."""
    with Broker(config=SWEPT_OFTEN) as broker:
        broker.create_topic("sized", 1, {"segment.bytes": "1048576", "retention.bytes": "1048576"})
        folder = broker.data_dir / "sized-0"
        with connected(broker.bootstrap) as wire:
            for _ in range(8):
                wire.request(produce("sized", batch(bytes(500_000))), 9)
        wait_until(lambda: log_start(broker, "sized") > 0)
        wait_until(lambda: min(int(path.stem) for path in folder.glob("*.log")) == log_start(broker, "sized"))
        low, high = watermarks(broker, "sized")
        assert 0 < low < high == 8
        assert sum(path.stat().st_size for path in folder.glob("*.log")) >= 1_048_576
        with connected(broker.bootstrap) as wire:
            assert [offset for offset, _ in fetched(wire, "sized", 0, low)] == list(range(low, high))


def test_retention_by_time() -> None:
    """Records older than retention.ms go, the active segment too; the next offset stays what it was."""
    with Broker(config=SWEPT_OFTEN) as broker:
        broker.create_topic("timed", 1, {"retention.ms": "3600000"})
        fill(broker, "timed", 5, timestamp=1_600_000_000_000)
        wait_until(lambda: log_start(broker, "timed") == 5)
        assert watermarks(broker, "timed") == (5, 5)
        fill(broker, "timed", 1, timestamp=broker.parts.clock_ms())
        assert watermarks(broker, "timed") == (5, 6)


def test_delete_records_with_a_stock_client(tmp_path: Path) -> None:
    """The log begins where it was told to, before and after a restart, and earlier offsets are out of range."""
    with Broker(topics={"trimmed": 1}, data_dir=tmp_path) as broker:
        fill(broker, "trimmed", 10)
        client = admin.AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        (future,) = client.delete_records([confluent_kafka.TopicPartition("trimmed", 0, 7)]).values()
        assert future.result(WAIT_S).low_watermark == 7
        assert watermarks(broker, "trimmed") == (7, 10)
        broker.restart()
        assert watermarks(broker, "trimmed") == (7, 10)


def test_duplicates_after_a_kill_have_their_original_offsets(tmp_path: Path) -> None:
    """A producer that did not see the answers sends its last five batches again, and is told where they are."""
    batches = [batch(b"n", producer_id=77, producer_epoch=0, base_sequence=number) for number in range(8)]
    with Broker(topics={"once": 1}, process=True, data_dir=tmp_path) as broker:
        with connected(broker.bootstrap) as wire:
            for one in batches:
                wire.request(produce("once", one, acks=-1), 9)
        broker.kill()
        broker.start()
        with connected(broker.bootstrap) as wire:
            for number in range(3, 8):
                answer = wire.request(produce("once", batches[number], acks=-1), 9).responses[0].partition_responses[0]
                assert (answer.error_code, answer.base_offset) == (0, number)
            assert len(fetched(wire, "once")) == 8


@pytest.mark.slow
@pytest.mark.skipif(not LIBS.is_dir() or shutil.which("java") is None, reason="needs java and Apache Kafka's jars")
def test_kafka_dump_log_reads_the_metadata() -> None:
    """`--cluster-metadata-decoder` shows the topics and configuration of a broker that was stopped."""
    with Broker(topics={"seen": 2}) as broker:
        broker.create_topic("configured", 1, {"retention.ms": "1234"})
        broker.stop()
        log = broker.data_dir / "__cluster_metadata-0" / f"{0:020}.log"
        said = dump_log([log], "--cluster-metadata-decoder")
    assert "isvalid: true" in said and "isvalid: false" not in said and "xception" not in said
    assert said.count('"type":"TOPIC_RECORD"') == 2 and said.count('"type":"PARTITION_RECORD"') == 3
    assert '"name":"retention.ms","value":"1234"' in said
