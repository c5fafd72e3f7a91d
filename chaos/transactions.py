"""Transactions: one client writes a record to each of several partitions and commits, another one copies a topic exactly once.

The copier reads, writes what it has read, and commits the offsets within the same transaction. Whatever it is interrupted by, each record of the
source up to the committed offsets is in the copy once, in the order of its partition.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from chaos.ledger import Transaction
from chaos.workload import CLIENT, PADDING, Worker

PAUSE_S = 0.05
TIMEOUT_S = 30.0
TRANSACTION_TIMEOUT_MS = 20_000
# Every call to the transactional producer has its timeout, so this long nothing is waited for.
HANG_S = 40.0

COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"

# Every so many transactions one is aborted on purpose.
ABORT_EVERY = 7


def transactional_producer(bootstrap: str, transactional_id: str, fatal: list[str]) -> Producer:
    """A producer whose transactions are given up by the coordinator in seconds; what it calls fatal is added to the list."""

    def on_error(error: KafkaError) -> None:
        if error.fatal():
            fatal.append(error.str())

    return Producer(
        {
            **CLIENT,
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "message.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "request.timeout.ms": 3000,
            "linger.ms": 2,
            "error_cb": on_error,
        }
    )


class TransactionalWriter(Worker):
    """Records ID:NUMBER:PARTITION, the same number in all partitions of one transaction."""

    def __init__(self, name: str, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(name)
        self._servers = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._lock = threading.Lock()
        self._done: list[Transaction] = []

    @property
    def done(self) -> list[Transaction]:
        """The transactions that have ended."""
        with self._lock:
            return list(self._done)

    def work(self) -> None:
        """One transaction after another; a new producer after whatever ends the old one."""
        number = 0
        producer: Producer | None = None
        while not self.stopping.is_set():
            if producer is None:
                producer = self._begin()
                continue
            values = {
                (self._topic, partition): f"{self.name}:{number}:{partition}" for partition in range(self._partitions)
            }
            end, sound = self._one(producer, values, abort=number % ABORT_EVERY == ABORT_EVERY - 1)
            with self._lock:
                self._done.append(Transaction(values, end))
            number += 1
            if not sound:
                producer = None
            time.sleep(PAUSE_S)

    def _begin(self) -> Producer | None:
        producer = transactional_producer(self._servers, self.name, self.fatal)
        try:
            producer.init_transactions(TIMEOUT_S)
        except KafkaException:
            return None
        return producer

    def _one(self, producer: Producer, values: dict[tuple[str, int], str], *, abort: bool) -> tuple[str, bool]:
        """How the transaction has ended, and whether the producer can go on."""
        try:
            producer.begin_transaction()
            for (topic, partition), value in values.items():
                producer.produce(topic, PADDING.encode(), value, partition)
            producer.flush(TIMEOUT_S)
            if not abort:
                producer.commit_transaction(TIMEOUT_S)
                return COMMITTED, True
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                # Fatal, or a commit that nobody answered: both ends are possible.
                return UNKNOWN, False
        except BufferError:
            return UNKNOWN, False
        try:
            producer.abort_transaction(TIMEOUT_S)
            return ABORTED, True
        except KafkaException:
            # Whoever comes next with this id aborts it; it was never told to commit.
            return ABORTED, False


class Copier(Worker):
    """Copies a topic to another with as many partitions, each batch in a transaction with the offsets that it covers.

    librdkafka 2.16 can wait for ever in send_offsets_to_transaction: when the group's coordinator was away from the metadata for a moment it keeps
    asking a broker handle that it has given up. So each incarnation is a thread of its own, which is left behind when it hangs; the next one has the
    same transactional id and fences it.
    """

    def __init__(self, name: str, bootstrap: str, source: str, target: str) -> None:
        super().__init__(name)
        self._servers = bootstrap
        self._source = source
        self._target = target
        self._beat = 0.0
        self.copied = 0
        self.restarts = 0
        self.hangs = 0

    def work(self) -> None:
        """Copy until told to stop, from where the last transaction ended after each failure."""
        while not self.stopping.is_set():
            consumer = Consumer(
                {
                    **CLIENT,
                    "bootstrap.servers": self._servers,
                    "group.id": self.name,
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                    "isolation.level": "read_committed",
                    "session.timeout.ms": 10_000,
                    "heartbeat.interval.ms": 1000,
                    "error_cb": lambda error: None,
                }
            )
            self._beat = time.monotonic()
            incarnation = threading.Thread(target=self._incarnation, args=(consumer,), daemon=True)
            incarnation.start()
            while incarnation.is_alive() and time.monotonic() - self._beat < HANG_S:
                incarnation.join(0.1)
            if incarnation.is_alive():
                self.hangs += 1
            consumer.close()

    def _incarnation(self, consumer: Consumer) -> None:
        try:
            self._copy(consumer)
        except (KafkaException, RuntimeError):
            # A RuntimeError says that the consumer was closed by whoever thought that this thread hangs.
            self.restarts += 1

    def _copy(self, consumer: Consumer) -> None:
        producer = transactional_producer(self._servers, self.name, self.fatal)
        producer.init_transactions(TIMEOUT_S)
        consumer.subscribe([self._source])
        while not self.stopping.is_set():
            self._beat = time.monotonic()
            messages = [one for one in consumer.consume(200, 0.2) if one.error() is None]
            if messages:
                self._commit(consumer, producer, messages)

    def _commit(self, consumer: Consumer, producer: Producer, messages: list[Any]) -> None:
        try:
            producer.begin_transaction()
            for message in messages:
                producer.produce(self._target, message.value(), message.key(), message.partition())
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), TIMEOUT_S
            )
            producer.commit_transaction(TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                producer.abort_transaction(TIMEOUT_S)
            # The consumer's position is ahead of what was committed: begin anew from the commit.
            raise
        self.copied += len(messages)
