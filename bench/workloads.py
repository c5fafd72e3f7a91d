"""What an application does with a broker, done with confluent-kafka (librdkafka): bulk, single records, end to end, transactions."""

from __future__ import annotations

import os
import threading
import time
import uuid
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.peers import Peer
from bench.raw import BenchError, connect, create_topic, fan_in, percentile, send_batches
from bench.sizes import Sizes

MS = 1000.0
E2E_RATE = 1_000
BULK_PARTITIONS = 6
_CHUNK = 1_000
_TIMEOUT_S = 300.0

_BULK = {
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 200_000,
}


def new_topic(peer: Peer, name: str, partitions: int) -> str:
    """A topic of that name with something unique behind it, so that rounds do not meet."""
    topic = f"{name}-{uuid.uuid4().hex[:8]}"
    connection = connect(peer)
    create_topic(connection, topic, partitions)
    connection.close()
    return topic


def flush(producer: Producer) -> None:
    """Wait until everything is acknowledged."""
    left = producer.flush(_TIMEOUT_S)
    if left:
        raise BenchError(f"{left} records were not acknowledged in {_TIMEOUT_S:.0f} s")


class Failures:
    """A delivery callback that only counts what went wrong."""

    def __init__(self) -> None:
        self.count = 0
        self.last = ""

    def __call__(self, error: Any, message: Any) -> None:
        if error is not None:
            self.count += 1
            self.last = str(error)

    def check(self) -> None:
        """Raise if any record has failed."""
        if self.count:
            raise BenchError(f"{self.count} records failed, the last one with: {self.last}")


def produce_many(bootstrap: str, topic: str, count: int, size: int, **options: Any) -> float:
    """So many records of that size, as fast as they go; the seconds until all are acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, **_BULK, **options})
    failures = Failures()
    value = os.urandom(size)
    for partition in range(BULK_PARTITIONS):
        # Connections, and a producer id if one is wanted: librdkafka takes half a second over that, whatever the broker does.
        producer.produce(topic, value, partition=partition, on_delivery=failures)
    flush(producer)
    chunks = [[{"value": value, "partition": partition} for _ in range(_CHUNK)] for partition in range(BULK_PARTITIONS)]
    begun = time.monotonic()
    sent = 0
    while sent < count:
        wanted = min(_CHUNK, count - sent)
        # A full queue takes a part of a chunk; which one does not matter, since all records are alike.
        taken = producer.produce_batch(topic, chunks[sent // _CHUNK % BULK_PARTITIONS][:wanted], on_delivery=failures)
        sent += taken
        producer.poll(0 if taken == wanted else 0.001)
    flush(producer)
    seconds = time.monotonic() - begun
    failures.check()
    return seconds


def consume_many(peer: Peer, topic: str, count: int) -> float:
    """Read so many records from the start; the seconds from the first poll to the last record."""
    options = {"queued.min.messages": 200_000, "queued.max.messages.kbytes": 200_000, "fetch.wait.max.ms": 50}
    consumer = Consumer(
        {"bootstrap.servers": peer.bootstrap, "group.id": "bulk", "enable.auto.commit": False, **options}
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(BULK_PARTITIONS)])
    begun = time.monotonic()
    read = 0
    while read < count:
        messages = consumer.consume(10_000, 0.1)
        for message in messages[:1]:
            if message.error():
                raise BenchError(f"consume: {message.error()}")
        read += len(messages)
        if time.monotonic() - begun > _TIMEOUT_S:
            raise BenchError(f"only {read} of {count} records came back")
    seconds = time.monotonic() - begun
    consumer.close()
    return seconds


def bulk(peer: Peer, sizes: Sizes) -> dict[str, float]:
    """Records of 1 kB, there and back."""
    count = sizes.bulk_mb * 1000
    topic = new_topic(peer, "bulk", BULK_PARTITIONS)
    cpu = peer.cpu_s()
    produced_s = produce_many(peer.bootstrap, topic, count, 1000)
    produced_cpu = peer.cpu_s() - cpu
    consumed_s = consume_many(peer, topic, count)
    return {
        "bulk_produce_mb_s": sizes.bulk_mb / produced_s,
        "bulk_produce_cpu_s": produced_cpu,
        "bulk_consume_mb_s": sizes.bulk_mb / consumed_s,
        "bulk_consume_cpu_s": peer.cpu_s() - cpu - produced_cpu,
    }


def small(peer: Peer, sizes: Sizes) -> dict[str, float]:
    """Records of 100 bytes, there and back."""
    topic = new_topic(peer, "small", BULK_PARTITIONS)
    produced_s = produce_many(peer.bootstrap, topic, sizes.small_count, 100)
    consumed_s = consume_many(peer, topic, sizes.small_count)
    return {"small_produce_s": sizes.small_count / produced_s, "small_consume_s": sizes.small_count / consumed_s}


def sync(peer: Peer, sizes: Sizes) -> dict[str, float]:
    """One producer that waits for each record before it sends the next."""
    topic = new_topic(peer, "sync", 1)
    producer = Producer({"bootstrap.servers": peer.bootstrap, "linger.ms": 0})
    failures = Failures()
    value = os.urandom(1000)
    for _ in range(200):  # until both sides are warm
        producer.produce(topic, value, partition=0, on_delivery=failures)
        flush(producer)
    taken = []
    end = time.monotonic() + sizes.seconds
    while (begun := time.monotonic()) < end:
        producer.produce(topic, value, partition=0, on_delivery=failures)
        flush(producer)
        taken.append(time.monotonic() - begun)
    failures.check()
    return {
        "sync_s": len(taken) / sizes.seconds,
        "sync_p50_ms": percentile(taken, 0.5) * MS,
        "sync_p99_ms": percentile(taken, 0.99) * MS,
    }


def fan(peer: Peer, sizes: Sizes) -> dict[str, float]:
    """Fifty connections, each of which waits for its own record."""
    fan_in(peer, min(1.0, sizes.seconds))  # until both sides are warm
    return {"fan_in_s": fan_in(peer, sizes.seconds)}


def end_to_end(peer: Peer, sizes: Sizes) -> dict[str, float]:
    """A steady thousand records a second; how old each is when a consumer has it."""
    topic = new_topic(peer, "e2e", 1)
    taken: list[float] = []
    count = int(E2E_RATE * (sizes.seconds + 1))
    ready = threading.Event()

    def read() -> None:
        consumer = Consumer({"bootstrap.servers": peer.bootstrap, "group.id": "e2e", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + sizes.seconds + 60
        ready.set()
        while len(taken) < count and time.monotonic() < deadline:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                taken.append(time.monotonic() - float(message.value() or b"nan"))
        consumer.close()

    reader = threading.Thread(target=read)
    reader.start()
    ready.wait()
    producer = Producer({"bootstrap.servers": peer.bootstrap, "linger.ms": 0})
    due = time.monotonic() + 0.5
    for _ in range(count):
        time.sleep(max(0.0, due - time.monotonic()))
        producer.produce(topic, b"%.9f" % time.monotonic(), partition=0)
        producer.poll(0)
        due += 1 / E2E_RATE
    flush(producer)
    reader.join()
    if len(taken) < count:
        raise BenchError(f"only {len(taken)} of {count} records came through")
    steady = taken[E2E_RATE:]  # the first second warms up
    return {"e2e_p50_ms": percentile(steady, 0.5) * MS, "e2e_p99_ms": percentile(steady, 0.99) * MS}


def transactions(peer: Peer, sizes: Sizes) -> dict[str, float]:
    """Ten records over two partitions, then commit, one transaction after the other."""
    topic = new_topic(peer, "transactions", 2)
    producer = Producer({"bootstrap.servers": peer.bootstrap, "transactional.id": f"bench-{topic}", "linger.ms": 0})
    producer.init_transactions(60)
    value = os.urandom(100)

    def one() -> None:
        producer.begin_transaction()
        for index in range(10):
            producer.produce(topic, value, partition=index % 2)
        producer.commit_transaction(60)

    for _ in range(10):  # until both sides are warm
        one()
    done = 0
    begun = time.monotonic()
    while time.monotonic() < begun + sizes.seconds:
        one()
        done += 1
    return {"transactions_s": done / (time.monotonic() - begun)}


def idempotent(peer: Peer, sizes: Sizes) -> dict[str, float]:
    """The same bulk with and without idempotence, in turns: batches that are ready to be sent, so that only the broker's part is compared.

    librdkafka itself needs a third more processor time per record with idempotence, whatever the broker; that ratio stands beside.
    """
    count = sizes.bulk_mb // 2
    best = {False: float("inf"), True: float("inf")}
    best_client = {False: float("inf"), True: float("inf")}
    for turn in range(2 * sizes.idempotent_rounds):
        enabled = bool(turn % 2)
        best[enabled] = min(best[enabled], send_batches(peer, new_topic(peer, "ready", 1), count, idempotent=enabled))
        # As many requests in flight as idempotence allows, so that nothing else differs.
        options = {"enable.idempotence": enabled, "max.in.flight": 5}
        topic = new_topic(peer, "idempotent", BULK_PARTITIONS)
        seconds = produce_many(peer.bootstrap, topic, count * 1000, 1000, **options)
        best_client[enabled] = min(best_client[enabled], seconds)
    return {
        "idempotent_ratio": best[False] / best[True],
        "idempotent_client_ratio": best_client[False] / best_client[True],
    }


def partitions(peer: Peer, sizes: Sizes) -> dict[str, float]:
    """Create a topic of very many partitions and write one record to each; and what the broker weighs then."""
    producer = Producer({"bootstrap.servers": peer.bootstrap, "linger.ms": 0})
    failures = Failures()
    begun = time.monotonic()
    topic = new_topic(peer, "partitions", sizes.partitions)
    for partition in range(sizes.partitions):
        producer.produce(topic, b"x", partition=partition, on_delivery=failures)
    flush(producer)
    seconds = time.monotonic() - begun
    failures.check()
    return {"partitions_s": seconds, "loaded_rss_mb": peer.rss_mb()}
