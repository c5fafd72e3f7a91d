"""kafka-clients for Java, of three generations: from before KRaft, from its last years beside ZooKeeper, and today's."""

CLIENT = "kafka-clients (Java)"
VERSIONS = ("2.8.2", "3.9.1", "4.3.1")


def version() -> str:
    """All that are run."""
    return ", ".join(VERSIONS)
