"""Kafka Streams, with a small application that the tests compile."""

from compat_tests.kafka_broker import VERSION

CLIENT = "Kafka Streams (Java)"


def version() -> str:
    """As java/pom.xml asks for it."""
    return VERSION
