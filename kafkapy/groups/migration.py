"""A group changes its protocol while its members keep reading (KIP-848: online migration).

Classic to consumer: the first member of the new protocol joins. Every classic member becomes a member of the consumer
group with the partitions that its leader gave it, and goes on with the classic requests (see mixed_groups). Consumer
to classic: the last member of the new protocol leaves, and the others rebalance among themselves as a classic group.

`group.consumer.migration.policy` says which directions are allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kafkapy.coordination import Record
from kafkapy.errors import ErrorCode, KafkaError, ProtocolError
from kafkapy.groups.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, ClassicMember
from kafkapy.groups.consumer_changes import hash_topics
from kafkapy.groups.consumer_group import (
    ClassicInfo,
    ConsumerGroup,
    ConsumerMember,
    Owned,
    Target,
    replay,
)
from kafkapy.groups.consumer_records import (
    assignment_epoch_record,
    current_record,
    epoch_record,
    group_tombstones,
    member_record,
    target_record,
)
from kafkapy.groups.records import group_metadata_record, group_tombstone
from kafkapy.groups.states import GroupState
from kafkapy.wire.protocol_data import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions
from kafkapy.wire.record_framing import GROUP_RECORDS, decode_blob, encode_blob

if TYPE_CHECKING:
    from kafkapy.groups.interfaces import Catalog

_UPGRADING = ("upgrade", "bidirectional")
_DOWNGRADING = ("downgrade", "bidirectional")


def may_upgrade(group: ClassicGroup, policy: str, size_max: int) -> bool:
    """Whether a member of the consumer protocol may turn this group over."""
    return policy.lower() in _UPGRADING and group.is_consumer_type and len(group.members) <= size_max


def may_downgrade(group: ConsumerGroup, leaving_ids: list[str], policy: str, size_max: int) -> bool:
    """Whether the group falls back to the classic protocol without these members."""
    staying = [member for member_id, member in group.members.items() if member_id not in leaving_ids]
    return (
        bool(staying)
        and all(member.classic is not None for member in staying)
        and policy.lower() in _DOWNGRADING
        and len(staying) <= size_max
    )


def upgrade(group: ClassicGroup, catalog: Catalog, now_ms: int) -> tuple[ConsumerGroup, list[Record]]:
    """The classic group as a consumer group, and the records that make it so."""
    group_id, epoch = group.group_id, group.generation
    taken: set[tuple[bytes, int]] = set()
    members = [_upgraded(member, group, catalog, taken) for member in group.members.values()]
    topics = {topic for member in members for topic in member.topics}
    records: list[Record] = [group_tombstone(group_id)]
    records += [member_record(group_id, member) for member in members]
    records.append(epoch_record(group_id, epoch, hash_topics(topics, catalog)))
    for member in members:
        target: Target = {topic_id: frozenset(owned) for topic_id, owned in member.assigned.items()}
        records.append(target_record(group_id, member.member_id, target))
    records.append(assignment_epoch_record(group_id, epoch, now_ms))
    records += [current_record(group_id, member) for member in members]
    return replayed(group_id, records), records


def replayed(group_id: str, records: list[Record]) -> ConsumerGroup:
    """The group that these records will make, to decide upon before they are written."""
    groups: dict[str, ConsumerGroup] = {}
    for key, value in records:
        replay(groups, *GROUP_RECORDS.decode(key, value))
    return groups[group_id]


def _upgraded(
    member: ClassicMember, group: ClassicGroup, catalog: Catalog, taken: set[tuple[bytes, int]]
) -> ConsumerMember:
    name = group.protocol_name if group.protocol_name in member.protocols else next(iter(member.protocols))
    subscription = read_subscription(member.protocols[name or ""], ErrorCode.GROUP_ID_NOT_FOUND)
    return ConsumerMember(
        member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topics=tuple(sorted(set(subscription.topics))),
        classic=ClassicInfo(member.session_timeout_ms, tuple(member.protocols.items())),
        epoch=group.generation,
        previous_epoch=group.generation,
        assigned=_assigned(member.assignment, group.generation, catalog, taken),
    )


def read_subscription(metadata: bytes, code: ErrorCode) -> ConsumerProtocolSubscription:
    """What a consumer says in the metadata of a classic protocol; what cannot be read is refused with this code."""
    try:
        return decode_blob(ConsumerProtocolSubscription, metadata, newer_as_latest=True)
    except ProtocolError as error:
        raise KafkaError(code, f"A classic member's subscription is malformed: {error}") from error


def _assigned(assignment: bytes, epoch: int, catalog: Catalog, taken: set[tuple[bytes, int]]) -> Owned:
    """The partitions that the leader gave. It may have given one to two members; then only the first has it here."""
    if not assignment:
        return {}
    try:
        decoded = decode_blob(ConsumerProtocolAssignment, assignment, newer_as_latest=True)
    except ProtocolError as error:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"A classic member's assignment is malformed: {error}"
        ) from error
    owned: dict[bytes, dict[int, int]] = {}
    for one in decoded.assigned_partitions:
        topic = catalog.topics.get(one.topic)
        if topic is None:
            continue
        for partition in one.partitions:
            if (topic.topic_id, partition) not in taken:
                taken.add((topic.topic_id, partition))
                owned.setdefault(topic.topic_id, {})[partition] = epoch
    return owned


def downgrade(group: ConsumerGroup, leaving_ids: list[str], catalog: Catalog, now_ms: int) -> list[Record]:
    """The records that make the consumer group classic.

    Its remaining members keep what they own, including what they were to give up: if the group is turned over once
    more before they have joined again, nobody else may be given any of it.
    """
    classic = ClassicGroup(group.group_id, now_ms)
    classic.generation = group.epoch
    classic.protocol_type = CONSUMER_PROTOCOL_TYPE
    for member_id, member in group.members.items():
        if member_id in leaving_ids or member.classic is None:
            continue
        classic.add(
            ClassicMember(
                member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.classic.session_timeout_ms,
                dict(member.classic.protocols),
            ),
            None,
        )
    classic.choose_protocol()
    classic.move_to(GroupState.STABLE, now_ms)
    assignments = {}
    for member_id, classic_member in classic.members.items():
        metadata = classic_member.protocols[classic.protocol_name or ""]
        member = group.members[member_id]
        owned = {topic: {*member.assigned.get(topic, ()), *member.revoking.get(topic, ())} for topic in _topics(member)}
        assignments[member_id] = write_assignment(owned, metadata, catalog)
    return [*group_tombstones(group), group_metadata_record(classic, assignments)]


def _topics(member: ConsumerMember) -> list[bytes]:
    return list({**member.assigned, **member.revoking})


def write_assignment(partitions: Mapping[bytes, Iterable[int]], metadata: bytes, catalog: Catalog) -> bytes:
    """Partitions as a classic consumer expects its assignment, in the version that it speaks itself."""
    latest = ConsumerProtocolAssignment.SCHEMA.versions.last
    version = max(0, min(int.from_bytes(metadata[:2], "big", signed=True), latest))
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartitions(topic=catalog.by_id[topic_id].name, partitions=sorted(owned))
            for topic_id, owned in partitions.items()
            if topic_id in catalog.by_id
        ]
    )
    return encode_blob(assignment, version)
