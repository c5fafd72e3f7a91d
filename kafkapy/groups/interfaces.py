"""What the group coordinator is given, and what its parts need of each other: for type checkers and readers only.

Nothing imports this module when the broker runs, because a Protocol costs a third of a millisecond to make. The shell
gives the coordinator a configuration, a catalog of topics and a log.
"""

from __future__ import annotations

from typing import Any, Protocol

from kafkapy.coordination import Outcome, Record
from kafkapy.groups.classic_group import ClassicGroup
from kafkapy.groups.consumer_changes import Surroundings
from kafkapy.groups.consumer_group import ConsumerGroup


class Catalog(Protocol):
    """All topics of the cluster by name and by id; a topic has `name`, `topic_id` and `partition_count`."""

    topics: Any
    by_id: Any


class TopicReader(Protocol):
    """A group of any type, as far as expiry and deletion ask."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member of the group reads the topic."""


class Producer(Protocol):
    """Who writes inside a transaction."""

    producer_id: int
    producer_epoch: int


class OffsetsLog(Protocol):
    """The partitions of `__consumer_offsets` that this broker leads; the shell's."""

    def append(self, partition: int, batch: bytearray) -> int:
        """Append one batch as leader and return the offset after it, or raise KafkaError."""

    def is_committed(self, partition: int, end_offset: int) -> bool:
        """Whether the high watermark has reached this offset."""


class ClassicConfig(Protocol):
    """The configuration keys that classic groups look at."""

    group_initial_rebalance_delay_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int


class ConsumerConfig(Protocol):
    """The configuration keys that consumer groups look at."""

    group_consumer_max_size: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_migration_policy: str


class GroupsConfig(ClassicConfig, ConsumerConfig, Protocol):
    """All configuration keys that a shard looks at."""

    offset_metadata_max_bytes: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offsets_commit_timeout_ms: int


class CoordinatorConfig(GroupsConfig, Protocol):
    """All configuration keys that the coordinator looks at."""

    offsets_topic_num_partitions: int
    group_consumer_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_assignment_interval_ms: int
    group_coordinator_rebalance_protocols: tuple[str, ...]


class GroupTimes(Protocol):
    """What a group may set for itself; the broker's keys fill in the rest."""

    @property
    def consumer_session_timeout_ms(self) -> int:
        """How long a member may be silent."""

    @property
    def consumer_heartbeat_interval_ms(self) -> int:
        """How often members are told to send a heartbeat."""

    @property
    def consumer_assignment_interval_ms(self) -> int:
        """The shortest time between two assignments."""


class GroupStore(Protocol):
    """What the requests need of the shard that keeps the groups."""

    def classic_group(self, group_id: str) -> ClassicGroup | None:
        """The group of this id, if it is a classic one (also one that only has offsets)."""

    def create_classic_group(self, group_id: str, now_ms: int) -> ClassicGroup:
        """A new, empty group."""


class ConsumerStore(Protocol):
    """What the protocol needs of the shard that keeps the groups."""

    consumer_groups: dict[str, ConsumerGroup]

    def surroundings(self, group_id: str, now_ms: int) -> Surroundings:
        """The cluster's topics and what else a change depends on."""

    def group_times(self, group_id: str) -> GroupTimes:
        """The group's timeouts and intervals."""

    def joinable_consumer_group(self, group_id: str, now_ms: int) -> tuple[ConsumerGroup, list[Record]]:
        """The group that somebody joins, and the records that make a group of another kind into it; or KafkaError."""

    def downgrade(self, group: ConsumerGroup, leaving_ids: list[str], now_ms: int) -> Outcome | None:
        """The records that make the group classic, if only members of the classic protocol are left."""
