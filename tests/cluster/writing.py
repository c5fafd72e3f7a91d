"""Writing numbered records with a stock client, and reading them back."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

# How long a client waits for one thing; a broker that died is given up sooner.
CLIENT = {
    "socket.timeout.ms": 3000,
    "socket.connection.setup.timeout.ms": 1000,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 50,
    "log_level": 0,
}
READ_TIMEOUT_S = 20.0


class Outcome:
    """What became of the records of one call: the numbers that were acknowledged, and why others were not."""

    def __init__(self) -> None:
        self.acked: list[int] = []
        self.errors: dict[int, KafkaError] = {}

    def delivered(self, error: KafkaError | None, message: Any) -> None:
        """The callback of the producer."""
        number = int(message.value())
        if error is None:
            self.acked.append(number)
        else:
            self.errors[number] = error


def write(bootstrap: str, topic: str, numbers: range, *, timeout_ms: int = 20_000, **config: Any) -> Outcome:
    """Write these numbers to partition 0 with acks=all unless said otherwise, and wait for what becomes of each."""
    settings: dict[str, Any] = {
        **CLIENT,
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "message.timeout.ms": timeout_ms,
        "request.timeout.ms": 2000,
        "linger.ms": 5,
        "error_cb": lambda error: None,
    }
    # Kafka's own names have dots, which Python's keywords have not.
    settings.update({name.replace("_", "."): value for name, value in config.items()})
    producer = Producer(settings)
    outcome = Outcome()
    for number in numbers:
        producer.produce(topic, str(number), partition=0, on_delivery=outcome.delivered)
        producer.poll(0)
    producer.flush(timeout_ms / 1000 + 10)
    return outcome


def read_all(bootstrap: str, topic: str) -> list[int]:
    """All numbers of partition 0, in order."""
    consumer = Consumer(
        {
            **CLIENT,
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "error_cb": lambda error: None,
        }
    )
    found: list[int] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while (message := consumer.poll(READ_TIMEOUT_S)) is not None:
            error = message.error()
            if error is None:
                found.append(int(message.value() or b""))
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
        raise AssertionError(f"no end of {topic} was reached after {len(found)} records")
    finally:
        consumer.close()
