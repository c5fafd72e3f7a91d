"""The records of consumer groups that this coordinator writes."""

from __future__ import annotations

from collections.abc import Iterator

from kafkapy.coordination import Record
from kafkapy.groups.consumer_group import ConsumerGroup, ConsumerMember, Owned, ResolvedRegex, Target
from kafkapy.wire.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
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
    TopicPartition,
    TopicPartitions,
)
from kafkapy.wire.record_framing import encode_key, encode_value


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """The group's epoch, and a hash of the topics that it reads."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return encode_key(ConsumerGroupMetadataKey(group_id=group_id)), encode_value(value, 0)


def epoch_tombstone(group_id: str) -> Record:
    """The group is gone."""
    return encode_key(ConsumerGroupMetadataKey(group_id=group_id)), None


def member_record(group_id: str, member: ConsumerMember) -> Record:
    """What a member has told of itself."""
    classic = None
    if member.classic is not None:
        classic = ClassicMemberMetadata(
            session_timeout_ms=member.classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.classic.protocols
            ],
        )
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=classic,
    )
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return encode_key(key), encode_value(value, 0)


def target_record(group_id: str, member_id: str, target: Target) -> Record:
    """What a member shall own."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=sorted(partitions)) for topic_id, partitions in target.items()
        ]
    )
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return encode_key(key), encode_value(value, 0)


def assignment_epoch_record(group_id: str, epoch: int, now_ms: int) -> Record:
    """For which group epoch the target was computed, and when."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    return encode_key(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)), encode_value(value, 0)


def current_record(group_id: str, member: ConsumerMember) -> Record:
    """What a member owns, and how far it has come."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_topic_partitions(member.assigned),
        partitions_pending_revocation=_topic_partitions(member.revoking),
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return encode_key(key), encode_value(value, 0)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> Record:
    """What a regular expression matched."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return encode_key(key), encode_value(value, 0)


def regex_tombstone(group_id: str, regex: str) -> Record:
    """No member reads by this regular expression any more."""
    return encode_key(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)), None


def member_tombstones(group_id: str, member_id: str) -> Iterator[Record]:
    """A member is gone."""
    yield encode_key(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)), None
    yield encode_key(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)), None
    yield encode_key(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)), None


def group_tombstones(group: ConsumerGroup) -> Iterator[Record]:
    """The whole group is gone, whatever it still holds."""
    group_id = group.group_id
    for member_id in {**group.members, **group.target}:
        yield from member_tombstones(group_id, member_id)
    yield encode_key(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)), None
    for regex in group.regexes:
        yield regex_tombstone(group_id, regex)
    yield epoch_tombstone(group_id)


def _topic_partitions(owned: Owned) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=list(partitions), assignment_epochs=list(partitions.values()))
        for topic_id, partitions in owned.items()
    ]
