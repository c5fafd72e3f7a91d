"""A consumer group (KIP-848): members, what they shall own, what they own now. Everything here comes from records.

Three epochs tie it together. The *group epoch* grows whenever the members or what they read change. The *assignment
epoch* is the group epoch for which the target assignment was computed. A *member's epoch* is the assignment epoch that
it has reached.

A partition is free, or it belongs to the member that has it among its assigned partitions or among those it must still
give up. `owners` says which; a member gets a partition only when it is free, so it never has two owners.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from typing import NamedTuple

from kafkapy.types import ZERO_UUID
from kafkapy.wire.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartitions,
)
from kafkapy.wire.schema import Record

# The epoch of a group before anybody joined; the first member makes it 2, as in Apache Kafka.
INITIAL_EPOCH = 1

# In the place of a member's epoch: it joins, it leaves, it leaves as a static member that will be back.
JOINING = 0
LEFT = -1
LEFT_FOR_A_WHILE = -2

# Of a partition's owner where records of older brokers do not tell since when.
UNKNOWN_EPOCH = 0

# Partitions of a topic id: what a member shall own, and what it owns since which epoch.
Target = Mapping[bytes, frozenset[int]]
Owned = Mapping[bytes, Mapping[int, int]]

NO_TARGET: Target = {}
NO_PARTITIONS: Owned = {}


class GroupState(Enum):
    """The states of a consumer group, with the names that tools show."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class MemberState(IntEnum):
    """How far a member is on its way to the target; the numbers stand in records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # it must give partitions up first
    UNRELEASED_PARTITIONS = 2  # others must give partitions up first
    UNKNOWN = 127


class ClassicInfo(NamedTuple):
    """What is known of a member that speaks the classic protocol in a consumer group."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class ConsumerMember(NamedTuple):
    """One member. It is never changed; a change makes another one, which comes back through a record."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    topics: tuple[str, ...] = ()
    regex: str = ""
    classic: ClassicInfo | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Owned = NO_PARTITIONS
    revoking: Owned = NO_PARTITIONS

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether the member owns just what this assignment gives it."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def at_epoch(self, epoch: int) -> ConsumerMember:
        """The member one step further; where it was before is still accepted from it."""
        return self._replace(previous_epoch=self.epoch, epoch=epoch)


class ResolvedRegex(NamedTuple):
    """The topics that matched a regular expression, and when they were looked up."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroup:
    """One group; `replay_*` alone change it."""

    __slots__ = (
        "_subscribed",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "catalog_version",
        "epoch",
        "group_id",
        "members",
        "metadata_hash",
        "owners",
        "regexes",
        "static_members",
        "target",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = INITIAL_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = INITIAL_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.target: dict[str, Target] = {}
        self.owners: dict[tuple[bytes, int], str] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self._subscribed: dict[str, int] | None = None
        # Soft: of which state of the cluster's topics the group last took note.
        self.catalog_version = -1

    # Questions.

    @property
    def state(self) -> GroupState:
        """What tools are told."""
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    @property
    def subscribed(self) -> Mapping[str, int]:
        """Topics that members read, by name or by regular expression, and by how many members each."""
        if self._subscribed is None:
            self._subscribed = self.count_subscribed(self.members.values(), self.regexes)
        return self._subscribed

    @staticmethod
    def count_subscribed(members: Iterable[ConsumerMember], regexes: Mapping[str, ResolvedRegex]) -> dict[str, int]:
        """The topics of these members."""
        counts: dict[str, int] = {}
        for member in members:
            for topic in topics_of(member, regexes):
                counts[topic] = counts.get(topic, 0) + 1
        return counts

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic."""
        return topic in self.subscribed

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """The member of this instance."""
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def is_free(self, topic_id: bytes, partition: int) -> bool:
        """Whether no member owns the partition or has still to give it up."""
        return (topic_id, partition) not in self.owners

    def preferred_assignor(self, members: Iterable[ConsumerMember]) -> str | None:
        """The assignor that most of the members wish for; members of the classic protocol cannot wish."""
        votes: dict[str, int] = {}
        for member in members:
            if member.server_assignor is not None:
                votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
        return max(votes, key=votes.__getitem__) if votes else None

    def snapshot(self) -> tuple[object, ...]:
        """Everything that replay built, for comparison."""
        return (
            self.epoch,
            self.metadata_hash,
            self.assignment_epoch,
            self.assignment_timestamp_ms,
            self.members,
            self.static_members,
            self.target,
            self.owners,
            self.regexes,
        )

    # Replay.

    def put(self, member: ConsumerMember) -> None:
        """Take a member's new state; what it owned before is free, what it owns now is not."""
        self._release(self.members.get(member.member_id))
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for owned in (member.assigned, member.revoking):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    self.owners[topic_id, partition] = member.member_id
        self._subscribed = None

    def remove(self, member_id: str) -> None:
        """Drop a member and what it owns."""
        member = self.members.pop(member_id, None)
        self._release(member)
        instance_id = member.instance_id if member is not None else None
        # A successor may have taken the instance over in the meantime.
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        self._subscribed = None

    def _release(self, member: ConsumerMember | None) -> None:
        if member is None:
            return
        for owned in (member.assigned, member.revoking):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    if self.owners.get((topic_id, partition)) == member.member_id:
                        del self.owners[topic_id, partition]

    def put_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Remember what a regular expression matches; None forgets it."""
        if resolved is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = resolved
        self._subscribed = None


def topics_of(member: ConsumerMember, regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """Every topic that the member reads."""
    topics = frozenset(member.topics)
    if member.regex:
        resolved = regexes.get(member.regex)
        if resolved is not None:
            topics |= resolved.topics
    return topics


def replay(groups: dict[str, ConsumerGroup], key: Record, value: Record | None) -> None:
    """Take one record of a consumer group into the groups."""
    if isinstance(key, ConsumerGroupMetadataKey):
        if isinstance(value, ConsumerGroupMetadataValue):
            group = _group(groups, key.group_id)
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        else:
            groups.pop(key.group_id, None)
    elif isinstance(key, ConsumerGroupMemberMetadataKey):
        _replay_member(groups, key, value)
    elif isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
        if isinstance(value, ConsumerGroupTargetAssignmentMetadataValue):
            group = _group(groups, key.group_id)
            group.assignment_epoch = value.assignment_epoch
            group.assignment_timestamp_ms = value.assignment_timestamp
        elif key.group_id in groups:
            groups[key.group_id].assignment_epoch = INITIAL_EPOCH
            groups[key.group_id].assignment_timestamp_ms = 0
    elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
        if isinstance(value, ConsumerGroupTargetAssignmentMemberValue):
            target = {one.topic_id: frozenset(one.partitions) for one in value.topic_partitions}
            _group(groups, key.group_id).target[key.member_id] = target
        elif key.group_id in groups:
            groups[key.group_id].target.pop(key.member_id, None)
    elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
        _replay_assignment(groups, key, value)
    elif isinstance(key, ConsumerGroupRegularExpressionKey):
        if isinstance(value, ConsumerGroupRegularExpressionValue):
            resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            _group(groups, key.group_id).put_regex(key.regular_expression, resolved)
        elif key.group_id in groups:
            groups[key.group_id].put_regex(key.regular_expression, None)


def _group(groups: dict[str, ConsumerGroup], group_id: str) -> ConsumerGroup:
    group = groups.get(group_id)
    if group is None:
        group = groups[group_id] = ConsumerGroup(group_id)
    return group


def _replay_member(groups: dict[str, ConsumerGroup], key: ConsumerGroupMemberMetadataKey, value: Record | None) -> None:
    if not isinstance(value, ConsumerGroupMemberMetadataValue):
        if key.group_id in groups:
            groups[key.group_id].remove(key.member_id)
        return
    group = _group(groups, key.group_id)
    classic = None
    if value.classic_member_metadata is not None:
        protocols = value.classic_member_metadata.supported_protocols
        classic = ClassicInfo(
            value.classic_member_metadata.session_timeout_ms,
            tuple((one.name, bytes(one.metadata)) for one in protocols),
        )
    known = group.members.get(key.member_id) or ConsumerMember(key.member_id)
    group.put(
        known._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            topics=tuple(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "",
            classic=classic,
        )
    )


def _replay_assignment(
    groups: dict[str, ConsumerGroup], key: ConsumerGroupCurrentMemberAssignmentKey, value: Record | None
) -> None:
    if not isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
        group = groups.get(key.group_id)
        known = group.members.get(key.member_id) if group is not None else None
        if group is not None and known is not None:
            group.put(known._replace(epoch=LEFT, previous_epoch=LEFT, assigned=NO_PARTITIONS, revoking=NO_PARTITIONS))
        return
    group = _group(groups, key.group_id)
    known = group.members.get(key.member_id) or ConsumerMember(key.member_id)
    is_known_state = value.state in MemberState._value2member_map_
    group.put(
        known._replace(
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if is_known_state else MemberState.UNKNOWN,
            assigned=_owned(value.assigned_partitions),
            revoking=_owned(value.partitions_pending_revocation),
        )
    )


def _owned(topics: list[TopicPartitions]) -> Owned:
    owned: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [UNKNOWN_EPOCH] * len(topic.partitions)
        owned[topic.topic_id or ZERO_UUID] = dict(zip(topic.partitions, epochs, strict=True))
    return owned
