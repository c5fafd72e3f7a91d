"""How a consumer group moves on: one member's heartbeat, or somebody's departure, turned into records.

Theory of operation. A change takes four steps, each of which writes only what differs.

1. The member's own data (and the topics of its regular expression).
2. The group epoch: it grows when what the group reads has changed, by a member or because topics were created,
   extended or deleted.
3. The target assignment, once the group epoch has outgrown it, but not more often than the assignment interval.
4. The member's next step towards the target.

Nothing here changes a group. The records come back through `replay`, and the next decision sees them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafkapy.coordination import Record
from kafkapy.groups.assignors import ASSIGNORS, Subscriber
from kafkapy.groups.consumer_group import (
    NO_TARGET,
    ConsumerGroup,
    ConsumerMember,
    ResolvedRegex,
    Target,
    topics_of,
)
from kafkapy.groups.consumer_records import (
    assignment_epoch_record,
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    regex_record,
    regex_tombstone,
    target_record,
)
from kafkapy.groups.reconciliation import Reported, next_step
from kafkapy.groups.regexes import matching_topics

if TYPE_CHECKING:
    from kafkapy.groups.interfaces import Catalog

_TOPIC = struct.Struct(">16si")


class Surroundings(NamedTuple):
    """What a change depends on besides the group."""

    catalog: Catalog
    # Grows with every change of the topics, so that a group sees that it must look again.
    catalog_version: int
    default_assignor: str
    assignment_interval_ms: int
    now_ms: int


class _Draft:
    """The group as it will be, while the records are collected that make it so."""

    def __init__(self, group: ConsumerGroup, around: Surroundings) -> None:
        self.group = group
        self.around = around
        self.records: list[Record] = []
        self.members = dict(group.members)
        self.regexes = dict(group.regexes)
        self.epoch = group.epoch

    def put(self, old: ConsumerMember | None, new: ConsumerMember) -> None:
        """Step 1: a member that is new, or has told something new."""
        known = old or ConsumerMember(new.member_id)
        self.members[new.member_id] = new
        if old is None or new != old:
            self.records.append(member_record(self.group.group_id, new))
        is_changed = (new.topics, new.regex) != (known.topics, known.regex)
        self._move_on(is_changed)

    def remove(self, member_ids: Iterable[str]) -> None:
        """Members that left; that alone is a change of the group."""
        for member_id in member_ids:
            del self.members[member_id]
            self.records += member_tombstones(self.group.group_id, member_id)
        self._move_on(True)

    def _move_on(self, is_changed: bool) -> None:
        """Step 2: what the group reads, and its epoch."""
        group = self.group
        if not is_changed and group.catalog_version == self.around.catalog_version:
            return
        group.catalog_version = self.around.catalog_version
        self._resolve_regexes()
        topics = ConsumerGroup.count_subscribed(self.members.values(), self.regexes)
        metadata_hash = hash_topics(topics, self.around.catalog)
        if is_changed or metadata_hash != group.metadata_hash:
            self.epoch += 1
            self.records.append(epoch_record(group.group_id, self.epoch, metadata_hash))

    def _resolve_regexes(self) -> None:
        """Look up what every regular expression matches now; forget those that nobody uses."""
        used = {member.regex for member in self.members.values() if member.regex}
        for regex in [regex for regex in self.regexes if regex not in used]:
            del self.regexes[regex]
            self.records.append(regex_tombstone(self.group.group_id, regex))
        for regex in sorted(used):
            topics = matching_topics(regex, self.around.catalog.topics)
            known = self.regexes.get(regex)
            if known is None or known.topics != topics:
                resolved = ResolvedRegex(topics, self.around.catalog_version, self.around.now_ms)
                self.regexes[regex] = resolved
                self.records.append(regex_record(self.group.group_id, regex, resolved))

    def assign(self, target_so_far: Mapping[str, Target]) -> tuple[int, Mapping[str, Target]]:
        """Step 3: the assignment epoch and the target that hold from now on."""
        group, around = self.group, self.around
        is_due = around.now_ms >= group.assignment_timestamp_ms + around.assignment_interval_ms
        if self.epoch <= group.assignment_epoch or not is_due:
            return group.assignment_epoch, target_so_far
        target = self._compute(target_so_far)
        for member_id, wanted in target.items():
            if group.target.get(member_id, NO_TARGET) != wanted:
                self.records.append(target_record(group.group_id, member_id, wanted))
        self.records.append(assignment_epoch_record(group.group_id, self.epoch, around.now_ms))
        return self.epoch, target

    def _compute(self, target_so_far: Mapping[str, Target]) -> Mapping[str, Target]:
        topics = self.around.catalog.topics
        reading: dict[str, frozenset[str]] = {}
        names: set[str] = set()
        subscribers: dict[str, Subscriber] = {}
        for member_id, member in self.members.items():
            reading[member_id] = topics_of(member, self.regexes)
            names |= reading[member_id]
        ids = {name: topics[name].topic_id for name in sorted(names) if name in topics}
        counts = {ids[name]: topics[name].partition_count for name in ids}
        for member_id, member in self.members.items():
            read = frozenset(ids[name] for name in reading[member_id] if name in ids)
            subscribers[member_id] = Subscriber(member.instance_id, read)
        wished = self.group.preferred_assignor(self.members.values())
        assignor = ASSIGNORS.get(wished or "", ASSIGNORS[self.around.default_assignor])
        return assignor(subscribers, counts, target_so_far)

    def reconcile(self, member: ConsumerMember, reported: Reported, replaced_id: str | None) -> ConsumerMember:
        """Steps 3 and 4 for the member whose heartbeat this is."""
        group = self.group
        target_so_far: Mapping[str, Target] = group.target
        if replaced_id is not None:
            # The successor of a static member inherits what its predecessor was to own.
            target_so_far = {one: target for one, target in group.target.items() if one != replaced_id}
            target_so_far[member.member_id] = group.target.get(replaced_id, NO_TARGET)
        assignment_epoch, target = self.assign(target_so_far)
        wanted = target.get(member.member_id, NO_TARGET)
        if assignment_epoch < self.epoch:
            wanted = self._still_read(member, wanted)
        elif member.is_reconciled_to(assignment_epoch):
            return member

        def is_free(topic_id: bytes, partition: int) -> bool:
            owner = group.owners.get((topic_id, partition))
            return owner is None or owner == replaced_id

        moved = next_step(member, assignment_epoch, wanted, is_free, reported)
        if moved is not member and moved != member:
            self.records.append(current_record(group.group_id, moved))
        return moved

    def _still_read(self, member: ConsumerMember, target: Target) -> Target:
        """An assignment from before the change, without topics that the member does not read any more."""
        by_id = self.around.catalog.by_id
        reading = topics_of(member, self.regexes)
        return {
            topic_id: partitions
            for topic_id, partitions in target.items()
            if topic_id in by_id and by_id[topic_id].name in reading
        }


def advance(
    group: ConsumerGroup,
    old: ConsumerMember | None,
    new: ConsumerMember,
    reported: Reported,
    around: Surroundings,
    replaced: ConsumerMember | None = None,
) -> tuple[list[Record], ConsumerMember]:
    """The records of a member's heartbeat, and the member as they make it.

    `old` is the member so far, if it was one. `replaced` is the static member whose place it takes; then `old` is what
    it inherits from that one.
    """
    draft = _Draft(group, around)
    if replaced is not None:
        assert old is not None, "a successor inherits"
        draft.records += member_tombstones(group.group_id, replaced.member_id)
        draft.records.append(member_record(group.group_id, old))
        draft.records.append(
            target_record(group.group_id, old.member_id, group.target.get(replaced.member_id, NO_TARGET))
        )
        draft.records.append(current_record(group.group_id, old))
        del draft.members[replaced.member_id]
    draft.put(old, new)
    moved = draft.reconcile(new, reported, replaced.member_id if replaced is not None else None)
    return draft.records, moved


def depart(group: ConsumerGroup, member_ids: Iterable[str], around: Surroundings) -> list[Record]:
    """The records that take members out of the group. The others get their partitions when they ask next."""
    draft = _Draft(group, around)
    draft.remove(member_ids)
    return draft.records


def hash_topics(names: Iterable[str], catalog: Catalog) -> int:
    """A number that changes when one of the topics is created, deleted or extended; 0 if there is none of them."""
    present = [(name, catalog.topics[name]) for name in sorted(names) if name in catalog.topics]
    if not present:
        return 0
    # Imported here because most brokers start without ever needing it.
    from hashlib import blake2b

    digest = blake2b(digest_size=8)
    for name, topic in present:
        digest.update(_TOPIC.pack(topic.topic_id, topic.partition_count))
        digest.update(name.encode())
    return int.from_bytes(digest.digest(), "big", signed=True)
