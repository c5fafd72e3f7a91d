"""Kafka Connect in distributed mode: one worker with the file source and the file sink that come with it."""

from compat_tests.kafka_broker import VERSION

CLIENT = "Kafka Connect (Java)"


def version() -> str:
    """As java/pom.xml asks for it."""
    return VERSION
