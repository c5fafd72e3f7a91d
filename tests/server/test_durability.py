"""Killed in the middle of whatever it does, the broker loses no record that it has acknowledged, and doubles none."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kafkapy.testing import Broker
from tests.support.records import fetched
from tests.support.requests import batch, produce
from tests.support.wire_client import Closed, connected

confluent_kafka = pytest.importorskip("confluent_kafka")

ROUNDS = 3
RECORDS_BEFORE_KILL = 4000
PARTITIONS = 2


class NumberedProducer:
    """Produces 0, 1, 2 ... with idempotence until it is told to stop, across as many deaths of the broker as there are."""

    def __init__(self, bootstrap: str, topic: str, acks: str) -> None:
        self.acknowledged: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}
        self.count = 0
        self.failures: list[str] = []
        self._topic = topic
        self._stop = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": acks,
                "enable.idempotence": acks == "all",
                "linger.ms": 1,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 50,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 50,
                "message.timeout.ms": 60_000,
                "max.in.flight.requests.per.connection": 5 if acks == "all" else 1,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            try:
                self._producer.produce(
                    self._topic, str(number).encode(), partition=number % PARTITIONS, on_delivery=self._delivered
                )
            except BufferError:
                self._producer.poll(0.01)
                continue
            number += 1
            self._producer.poll(0)
            if number - self.count > 2000:
                self._producer.poll(0.01)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            self.acknowledged[message.partition()].append(int(message.value()))
            self.count += 1

    def wait_for(self, count: int) -> None:
        """Until so many have been acknowledged in all."""
        limit = threading.Event()
        for _ in range(6000):
            if self.count >= count:
                return
            limit.wait(0.005)
        raise AssertionError(f"{self.count} of {count} records were acknowledged: {self.failures[:3]}")

    def stop(self) -> None:
        """Produce no more, and wait for what is on its way."""
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(30) == 0


def stored(broker: Broker, topic: str) -> dict[int, list[int]]:
    """The numbers in each partition, in the order of their offsets."""
    found = {}
    with connected(broker.bootstrap) as wire:
        for index in range(PARTITIONS):
            records = fetched(wire, topic, index)
            assert [offset for offset, _ in records] == list(range(len(records)))
            found[index] = [int(value) for _, value in records if value is not None]
    return found


@pytest.mark.slow
def test_idempotent_records_survive_kills_once_and_in_order() -> None:
    """With acks=all and idempotence every record is there exactly once and in order, however often the broker was killed."""
    with Broker(topics={"numbers": PARTITIONS}, process=True) as broker:
        producer = NumberedProducer(broker.bootstrap, "numbers", "all")
        producer.start()
        for _ in range(ROUNDS):
            producer.wait_for(producer.count + RECORDS_BEFORE_KILL)
            broker.kill()
            broker.start()
        producer.wait_for(producer.count + 1)
        producer.stop()
        assert not producer.failures
        assert stored(broker, "numbers") == producer.acknowledged


@pytest.mark.slow
def test_acknowledged_records_survive_a_kill() -> None:
    """acks=1 is kept too: what the leader has acknowledged is in the page cache, which outlives the process."""
    with Broker(topics={"plain": PARTITIONS}, process=True) as broker:
        producer = NumberedProducer(broker.bootstrap, "plain", "1")
        producer.start()
        producer.wait_for(RECORDS_BEFORE_KILL)
        broker.kill()
        broker.start()
        producer.wait_for(producer.count + 1000)
        producer.stop()
        found = stored(broker, "plain")
        for index, numbers in producer.acknowledged.items():
            assert set(numbers) <= set(found[index])


def test_a_kill_between_requests(tmp_path: Any) -> None:
    """One record at a time, killed after any of them: what was answered is there, and nothing else but perhaps the one under way."""
    with Broker(topics={"single": 1}, process=True, data_dir=tmp_path) as broker:
        acknowledged = 0
        for _ in range(2):
            with connected(broker.bootstrap) as wire:
                for _ in range(50):
                    answer = wire.request(produce("single", batch(str(acknowledged).encode())), 9)
                    assert answer.responses[0].partition_responses[0].base_offset == acknowledged
                    acknowledged += 1
                broker.kill()
                with pytest.raises(Closed):
                    wire.request(produce("single", batch(b"x")), 9)
            broker.start()
            with connected(broker.bootstrap) as wire:
                assert fetched(wire, "single") == [(n, str(n).encode()) for n in range(acknowledged)]
