"""Java's transactional producer, with a small program that the tests compile."""

from compat_tests.kafka_broker import VERSION

CLIENT = "Java transactional producer"


def version() -> str:
    """As java/pom.xml asks for it."""
    return VERSION
