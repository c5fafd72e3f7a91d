"""An old confluent-kafka: librdkafka before 2.11 tests for exact versions of APIs, and 2.6.0 sends Fetch v12 whatever is advertised."""

CLIENT = "confluent-kafka, old"
VERSION = "2.6.0"


def version() -> str:
    """The pinned one, of package and library alike."""
    return f"{VERSION} (librdkafka {VERSION})"
