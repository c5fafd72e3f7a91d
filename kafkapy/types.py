"""Small value types that every layer shares."""

from typing import NamedTuple

ZERO_UUID = bytes(16)

# The logs of the coordinators.
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
CLUSTER_METADATA_TOPIC = "__cluster_metadata"


class TopicPartition(NamedTuple):
    """A partition by its topic's name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """The form that Kafka uses for folders and log lines: topic-partition."""
        return f"{self.topic}-{self.partition}"
