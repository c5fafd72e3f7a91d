"""What every confluent-kafka test does: produce some records, read until there are enough, with a deadline instead of sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

WAIT_S = 20.0


def produce(
    bootstrap: str, topic: str, values: Iterable[bytes], config: dict[str, Any] | None = None, **record: Any
) -> list[Message]:
    """Produce and wait; the delivery reports, in the order in which they came."""
    delivered: list[Message] = []
    errors: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            errors.append(error)
        else:
            delivered.append(message)

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0, **(config or {})})
    for value in values:
        producer.produce(topic, value, on_delivery=on_delivery, **record)
    assert producer.flush(WAIT_S) == 0, "records are still in the queue"
    assert errors == []
    return delivered


def consumer(bootstrap: str, group: str, **config: Any) -> Consumer:
    """A consumer from the beginning, whose commits are the test's own."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "log_level": 0,
    }
    settings["enable.auto.commit"] = False
    return Consumer({**settings, **dict(config.items())})


def take(source: Consumer, count: int, wait_s: float = WAIT_S) -> list[Message]:
    """Poll until so many records are there."""
    found: list[Message] = []
    deadline = time.monotonic() + wait_s
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records after {wait_s} s"
        message = source.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            found.append(message)
    return found


def read(bootstrap: str, topic: str, count: int, group: str = "reader", **config: Any) -> list[Message]:
    """The first records of a topic, read without a group."""
    source = consumer(bootstrap, group, **config)
    partitions = source.list_topics(topic, timeout=WAIT_S).topics[topic].partitions
    source.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    try:
        return take(source, count)
    finally:
        source.close()


def until(condition: Callable[[], bool], polled: Iterable[Consumer] = (), wait_s: float = WAIT_S) -> None:
    """Poll these consumers until the condition holds."""
    deadline = time.monotonic() + wait_s
    members = list(polled)
    while not condition():
        assert time.monotonic() < deadline, f"not within {wait_s} s"
        for member in members:
            member.poll(0.05)
        if not members:
            time.sleep(0.05)


def first_failure(source: Consumer) -> int:
    """Poll until the consumer reports an error; its code."""
    found: list[int] = []

    def failed() -> bool:
        message = source.poll(0.1)
        if message is not None:
            error = message.error()
            assert error is not None, "a record where an error was to come"
            found.append(error.code())
        return bool(found)

    until(failed)
    return found[0]


def code(future: Future[Any]) -> int:
    """The error that a call of the admin client ends with."""
    with pytest.raises(KafkaException) as failure:
        future.result(WAIT_S)
    found: int = failure.value.args[0].code()
    return found


def values(messages: Iterable[Message]) -> list[bytes]:
    """The values of records."""
    return [message.value() or b"" for message in messages]
