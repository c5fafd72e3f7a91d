"""The partitions of this broker as handlers look them up: by topic name or id, then by index.

Kept up to date from the metadata image by the shell (server/replica_manager.py). Lookups are two dictionary accesses, because every Produce and
Fetch begins with them.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.log.partition import Partition
from kafkapy.raft.topic_names import INTERNAL_TOPICS


class TopicReplicas:
    """One topic: what the cluster knows of it and what this broker holds of it."""

    __slots__ = ("internal", "name", "partition_count", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: bytes, partition_count: int) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_count = partition_count
        self.internal = name in INTERNAL_TOPICS
        self.partitions: dict[int, Partition] = {}

    def missing_partition(self, index: int) -> ErrorCode:
        """Why `partitions` lacks this index: no such partition, or it lives on other brokers."""
        if 0 <= index < self.partition_count:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Replicas:
    """All topics by name and by id."""

    __slots__ = ("by_id", "topics")

    def __init__(self) -> None:
        self.topics: dict[str, TopicReplicas] = {}
        self.by_id: dict[bytes, TopicReplicas] = {}

    def all_partitions(self) -> list[Partition]:
        """Every local partition."""
        return [partition for topic in self.topics.values() for partition in topic.partitions.values()]

    def find(self, name: str, index: int) -> Partition | None:
        """The local replica of a partition, if there is one."""
        topic = self.topics.get(name)
        return topic.partitions.get(index) if topic is not None else None
