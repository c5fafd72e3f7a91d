"""The part of a delta that is about topics and their partitions."""

from __future__ import annotations

from collections.abc import Iterable

from kafkapy.raft.image import PartitionImage, TopicImage, TopicsImage
from kafkapy.raft.persistent_map import PersistentMap
from kafkapy.raft.topic_names import collision_key, has_collision_chars
from kafkapy.wire.metadata_records import NO_LEADER_CHANGE, PartitionChangeRecord, PartitionRecord


class ReplayError(Exception):
    """A record that makes no sense on top of the image: the log isn't ours, or we made a mistake."""


class TopicDelta:
    """A topic that is new or changed. `base` is None where it is new."""

    __slots__ = ("base", "changed", "id", "name")

    def __init__(self, name: str, topic_id: bytes, base: TopicImage | None) -> None:
        self.name = name
        self.id = topic_id
        self.base = base
        self.changed: dict[int, PartitionImage] = {}

    def partition(self, number: int) -> PartitionImage | None:
        """The partition as it is now."""
        changed = self.changed.get(number)
        if changed is not None or self.base is None:
            return changed
        return self.base.partitions[number] if 0 <= number < len(self.base.partitions) else None

    def apply(self) -> TopicImage:
        """The topic with its changes. Partitions are numbered without gaps, so the highest number says how many there are."""
        known = [] if self.base is None else list(self.base.partitions)
        for number in sorted(self.changed):
            if number < len(known):
                known[number] = self.changed[number]
            elif number == len(known):
                known.append(self.changed[number])
            else:
                raise ReplayError(f"partition {number} of topic {self.name} without a partition {len(known)}")
        return TopicImage(self.name, self.id, tuple(known))


class TopicsDelta:
    """Topics changed, by id, and those of the base image that are gone."""

    __slots__ = ("base", "changed", "deleted", "ids_by_name")

    def __init__(self, base: TopicsImage) -> None:
        self.base = base
        self.changed: dict[bytes, TopicDelta] = {}
        self.deleted: dict[bytes, TopicImage] = {}
        self.ids_by_name: dict[str, bytes] = {}  # of the topics created here

    def create(self, name: str, topic_id: bytes) -> None:
        """A new topic, without partitions yet."""
        existing = self.base.get(name)
        if name in self.ids_by_name or (existing is not None and existing.id not in self.deleted):
            raise ReplayError(f"there is a topic {name} already")
        if topic_id in self.changed or self.base.get_by_id(topic_id) is not None:
            raise ReplayError(f"there is a topic with the id {topic_id.hex()} already")
        self.ids_by_name[name] = topic_id
        self.changed[topic_id] = TopicDelta(name, topic_id, None)

    def remove(self, topic_id: bytes) -> str:
        """A topic is gone; returns its name."""
        topic = self._topic(topic_id)
        del self.changed[topic_id]
        if topic.base is None:
            del self.ids_by_name[topic.name]
        else:
            self.deleted[topic_id] = topic.base
        return topic.name

    def set_partition(self, record: PartitionRecord) -> None:
        """A partition with its whole state."""
        replicas = tuple(record.replicas)
        isr = tuple(record.isr)
        self._topic(record.topic_id).changed[record.partition_id] = PartitionImage(
            replicas,
            replicas if isr == replicas else isr,  # Nearly always, so one tuple serves both.
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            tuple(record.removing_replicas),
            tuple(record.adding_replicas),
            record.leader_recovery_state,
            tuple(record.directories),
            tuple(record.eligible_leader_replicas or ()),
            tuple(record.last_known_elr or ()),
        )

    def change_partition(self, record: PartitionChangeRecord) -> None:
        """What changed in a partition. A new leader, even the same one named again, opens the next leader epoch."""
        topic = self._topic(record.topic_id)
        before = topic.partition(record.partition_id)
        if before is None:
            raise ReplayError(f"topic {topic.name} has no partition {record.partition_id}")
        topic.changed[record.partition_id] = changed_partition(before, record)

    def clear_elr(self, name: str) -> None:
        """Forget the eligible leader replicas of one topic, or with an empty name of all."""
        for topic_id in self._ids(name):
            topic = self._topic(topic_id)
            count = max((len(topic.base.partitions) if topic.base else 0), max(topic.changed, default=-1) + 1)
            for number in range(count):
                partition = topic.partition(number)
                if partition is not None and (partition.eligible_leader_replicas or partition.last_known_elr):
                    topic.changed[number] = partition._replace(
                        partition_epoch=partition.partition_epoch + 1, eligible_leader_replicas=(), last_known_elr=()
                    )

    def apply(self) -> TopicsImage:
        """The topics with these changes."""
        changed = {topic.name: topic.apply() for topic in self.changed.values()}
        new_ids = {topic.id: topic.name for topic in self.changed.values() if topic.base is None}
        gone = [topic.name for topic in self.deleted.values()]
        return TopicsImage(
            self.base.by_name.updated(changed, gone),
            self.base.names_by_id.updated(new_ids, self.deleted.keys()),
            self._collisions(new_ids.values(), gone),
        )

    def _collisions(self, created: Iterable[str], gone: Iterable[str]) -> PersistentMap[str, frozenset[str]]:
        base = self.base.collisions
        touched: dict[str, frozenset[str]] = {}
        for name in filter(has_collision_chars, gone):
            key = collision_key(name)
            touched[key] = touched.get(key, base.get(key, frozenset())) - {name}
        for name in filter(has_collision_chars, created):
            key = collision_key(name)
            touched[key] = touched.get(key, base.get(key, frozenset())) | {name}
        kept = {key: names for key, names in touched.items() if names}
        return base.updated(kept, touched.keys() - kept.keys())

    def _topic(self, topic_id: bytes) -> TopicDelta:
        topic = self.changed.get(topic_id)
        if topic is None:
            base = None if topic_id in self.deleted else self.base.get_by_id(topic_id)
            if base is None:
                raise ReplayError(f"there is no topic with the id {topic_id.hex()}")
            topic = self.changed[topic_id] = TopicDelta(base.name, topic_id, base)
        return topic

    def _ids(self, name: str) -> list[bytes]:
        if not name:
            return [*(key for key in self.base.names_by_id if key not in self.deleted), *self.ids_by_name.values()]
        if name in self.ids_by_name:
            return [self.ids_by_name[name]]
        existing = self.base.get(name)
        return [existing.id] if existing is not None and existing.id not in self.deleted else []


def changed_partition(before: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """The partition as the record makes it."""
    keeps_leader = record.leader == NO_LEADER_CHANGE
    return PartitionImage(
        _changed(record.replicas, before.replicas),
        _changed(record.isr, before.isr),
        before.leader if keeps_leader else record.leader,
        before.leader_epoch if keeps_leader else before.leader_epoch + 1,
        before.partition_epoch + 1,
        _changed(record.removing_replicas, before.removing_replicas),
        _changed(record.adding_replicas, before.adding_replicas),
        before.leader_recovery_state if record.leader_recovery_state < 0 else record.leader_recovery_state,
        before.directories if record.directories is None else tuple(record.directories),
        _changed(record.eligible_leader_replicas, before.eligible_leader_replicas),
        _changed(record.last_known_elr, before.last_known_elr),
    )


def _changed(new: list[int] | None, before: tuple[int, ...]) -> tuple[int, ...]:
    return before if new is None else tuple(new)
