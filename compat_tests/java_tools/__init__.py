"""The command line tools of Apache Kafka itself, run from its jars with the classes that its scripts start."""

from compat_tests.kafka_broker import VERSION

CLIENT = "Apache Kafka's tools (Java)"


def version() -> str:
    """Of the jars."""
    return VERSION
