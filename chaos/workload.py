"""The clients: stock confluent-kafka, in threads of this process. They log what they meant to do and what they were told, and know no faults.

`NumberedProducer` writes numbered records with idempotence at acks=all: PRODUCER:GENERATION:PARTITION:NUMBER. A generation ends when librdkafka
calls an error fatal; numbers never go back. `Committer` is a consumer group of one that commits what it has read.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from chaos.ledger import Ledger

# A client's own patience is not what is measured, so it is short: after a cut, requests that were on their way are given up soon.
CLIENT = {
    "socket.timeout.ms": 4000,
    "socket.connection.setup.timeout.ms": 1500,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 250,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 250,
    "topic.metadata.refresh.interval.ms": 5000,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "socket.keepalive.enable": True,
    "log_level": 0,
}
# How long a record is tried. Longer than any fault, so that giving up is an event of its own.
DELIVERY_TIMEOUT_MS = 90_000

PADDING = "." * 80


class Worker(threading.Thread):
    """A thread that can be told to stop, and whose failure is kept."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        # What the client's library has called fatal.
        self.fatal: list[str] = []

    def run(self) -> None:
        """Work until told to stop."""
        try:
            self.work()
        except BaseException as failure:  # noqa: BLE001 -- the run reports it
            self.failure = failure

    def work(self) -> None:
        """What a worker does."""

    def finish(self, timeout_s: float = 120.0) -> None:
        """Tell it to stop, and wait for that."""
        self.stopping.set()
        self.join(timeout_s)
        if self.failure is not None:
            raise self.failure
        if self.is_alive():
            frame = sys._current_frames().get(self.ident or 0)
            raise TimeoutError(f"{self.name} does not stop:\n" + "".join(traceback.format_stack(frame)))


class NumberedProducer(Worker):
    """Writes to all partitions of a topic in turn, `rate` records a second in all."""

    def __init__(
        self, name: str, bootstrap: str, topic: str, partitions: int, ledger: Ledger, *, rate: float, **config: Any
    ) -> None:
        super().__init__(name)
        self._servers = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._ledger = ledger
        self._rate = rate
        self._config = config
        self.generation = 0

    def work(self) -> None:
        """Write until told to stop, with a new producer after a fatal error."""
        numbers = [0] * self._partitions
        while not self.stopping.is_set():
            self._one_generation(numbers)
            self.generation += 1

    def _one_generation(self, numbers: list[int]) -> None:
        broken: list[str] = []

        def on_error(error: KafkaError) -> None:
            if error.fatal():
                broken.append(error.str())

        config = {
            **CLIENT,
            "bootstrap.servers": self._servers,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 2,
            "message.timeout.ms": DELIVERY_TIMEOUT_MS,
            "request.timeout.ms": 3000,
            "error_cb": on_error,
            **self._config,
        }
        producer = Producer(config)
        pause = 1.0 / self._rate
        due = time.monotonic()
        while not self.stopping.is_set() and not broken:
            for partition in range(self._partitions):
                value = f"{self.name}:{self.generation}:{partition}:{numbers[partition]}"
                try:
                    producer.produce(self._topic, PADDING.encode(), value, partition, on_delivery=self._on_delivery)
                    self._ledger.send()
                    numbers[partition] += 1
                    due += pause
                    # Poll always: it is what calls the delivery reports, and it returns after one of them.
                    producer.poll(0)
                    while (left := due - time.monotonic()) > 0:
                        producer.poll(left)
                except BufferError:
                    producer.flush(0.05)
                except KafkaException as error:
                    broken.append(str(error))
                    break
            due = max(due, time.monotonic() - 1.0)
        self.fatal += broken[:1]
        with suppress(KafkaException):
            producer.flush(DELIVERY_TIMEOUT_MS / 1000)

    def _on_delivery(self, error: KafkaError | None, message: Any) -> None:
        value = message.key().decode()
        if error is None:
            self._ledger.ack(message.topic(), message.partition(), value, message.offset())
        else:
            self._ledger.refuse(value, error.str())


class Committer(Worker):
    """A consumer group of one: reads, and commits twice a second. `committed` is what it was told is safe."""

    def __init__(self, group: str, bootstrap: str, topic: str) -> None:
        super().__init__(group)
        self._servers = bootstrap
        self._topic = topic
        self._lock = threading.Lock()
        self._committed: dict[int, int] = {}
        self.read = 0
        self.went_back: list[str] = []

    @property
    def committed(self) -> dict[int, int]:
        """The offsets whose commits were acknowledged."""
        with self._lock:
            return dict(self._committed)

    def work(self) -> None:
        """Read and commit until told to stop."""
        consumer = Consumer(
            {
                **CLIENT,
                "bootstrap.servers": self._servers,
                "group.id": self.name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 1000,
                "error_cb": lambda error: None,
            }
        )
        consumer.subscribe([self._topic], on_assign=self._assigned)
        try:
            commit_at = time.monotonic() + 0.5
            positions: dict[int, int] = {}
            while not self.stopping.is_set():
                for message in consumer.consume(500, 0.1):
                    if message.error() is None:
                        positions[message.partition() or 0] = (message.offset() or 0) + 1
                        self.read += 1
                if time.monotonic() >= commit_at and positions:
                    self._commit(consumer, positions)
                    commit_at = time.monotonic() + 0.5
        finally:
            consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Where the group goes on must not lie before what was committed."""
        try:
            found = consumer.committed(partitions, timeout=10)
        except KafkaException:
            return
        for item in found:
            known = self.committed.get(item.partition, -1)
            if item.error is None and known >= 0 and item.offset < known:
                self.went_back.append(
                    f"partition {item.partition}: committed {known}, but the group goes on at {item.offset}"
                )

    def _commit(self, consumer: Consumer, positions: dict[int, int]) -> None:
        asked = [TopicPartition(self._topic, partition, offset) for partition, offset in positions.items()]
        try:
            done = consumer.commit(offsets=asked, asynchronous=False)
        except KafkaException:
            # Not acknowledged, so nothing is promised; it comes again with the next one.
            return
        with self._lock:
            for item in done or ():
                if item.error is None:
                    self._committed[item.partition] = max(item.offset, self._committed.get(item.partition, -1))
        positions.clear()
