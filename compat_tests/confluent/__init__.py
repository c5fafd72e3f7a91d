"""confluent-kafka (librdkafka), the main suite. The version is the one that the project's `test` extra has installed."""

CLIENT = "confluent-kafka"


def version() -> str:
    """Of the Python package and of the library in it."""
    import confluent_kafka

    return f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"
