"""What OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete decide, and which offsets expire.

All are functions of the store and the group. They write nothing: what shall change comes back as records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kafkapy.coordination import Record
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.groups.classic import check_allowed
from kafkapy.groups.classic_group import ClassicGroup
from kafkapy.groups.consumer_group import ConsumerGroup
from kafkapy.groups.offsets import NO_EXPIRY, CommittedOffset, OffsetStore
from kafkapy.groups.records import offset_record, offset_tombstone
from kafkapy.groups.states import Event, GroupState
from kafkapy.types import ZERO_UUID

if TYPE_CHECKING:
    from kafkapy.groups.interfaces import TopicReader

# From this version of OffsetCommit on members of consumer groups can commit, and a group that does not exist is called
# so.
MEMBER_EPOCH_VERSION = 9

# What OffsetFetch answers where nothing is committed.
NO_OFFSET = -1
NO_LEADER_EPOCH = -1

# The retention of a commit that leaves it to the broker.
BROKER_RETENTION_MS = -1


class Commit(NamedTuple):
    """One partition's offset in a commit, as any version of either API carries it."""

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None


class FetchedOffset(NamedTuple):
    """One partition's answer to OffsetFetch."""

    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    code: ErrorCode


def check_classic_commit(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation: int, *, in_transaction: bool
) -> None:
    """Refuse a commit that does not come from a current member.

    A generation below zero is somebody without membership, such as a tool or a consumer that was assigned its
    partitions by hand; that is welcome while the group has no members. Transactions of old clients do not say who they
    are, and are let in.
    """
    if generation < 0 and group.state is GroupState.EMPTY:
        return
    if generation >= 0 or member_id or instance_id is not None:
        group.check_member(member_id, instance_id)
        if generation != group.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    elif not in_transaction:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if not in_transaction:
        check_allowed(group, Event.COMMIT)


def check_consumer_commit(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    commits: Iterable[Commit],
    *,
    api_version: int | None,
) -> None:
    """As `check_classic_commit`, for a consumer group; `api_version` is None in a transaction.

    A member that is an epoch or more behind may still commit for partitions that it has owned since then: it has not
    heard of its new epoch yet, and nobody else can have committed for them.
    """
    in_transaction = api_version is None
    if epoch < 0 and not group.members:
        return
    if in_transaction and epoch < 0 and not member_id and instance_id is None:
        return
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if member.classic is not None or in_transaction:
        if epoch != member.epoch:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return
    if api_version is not None and api_version < MEMBER_EPOCH_VERSION:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if epoch == member.epoch:
        return
    for commit in commits:
        since = member.assigned.get(commit.topic_id, {}).get(commit.partition)
        if since is None or not since <= epoch < member.epoch:
            raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)


def check_consumer_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
    """Refuse to show offsets to somebody who says to be a member and is none, or not any more."""
    if member_id is None and epoch < 0:
        return
    member = group.members.get(member_id or "")
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if epoch != member.epoch:
        raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)


def commit_records(
    group_id: str,
    commits: Iterable[Commit],
    now_ms: int,
    metadata_bytes_max: int,
    retention_ms: int = BROKER_RETENTION_MS,
) -> tuple[list[Record], list[ErrorCode]]:
    """The records of a commit, and one code for each of its partitions, in their order."""
    records: list[Record] = []
    codes: list[ErrorCode] = []
    expire_timestamp_ms = NO_EXPIRY if retention_ms == BROKER_RETENTION_MS else now_ms + retention_ms
    for commit in commits:
        metadata = commit.metadata or ""
        if len(metadata) > metadata_bytes_max:
            codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        codes.append(ErrorCode.NONE)
        records.append(
            offset_record(
                group_id,
                commit.topic,
                commit.partition,
                offset=commit.offset,
                leader_epoch=commit.leader_epoch,
                metadata=metadata,
                commit_timestamp_ms=now_ms,
                expire_timestamp_ms=expire_timestamp_ms,
                topic_id=commit.topic_id,
            )
        )
    return records, codes


def fetch_offsets(
    store: OffsetStore, group_id: str, topic: str, topic_id: bytes, partitions: Iterable[int], *, require_stable: bool
) -> list[FetchedOffset]:
    """What the group committed for these partitions of a topic.

    An offset of a topic that was deleted and created anew under the same name is none: the ids differ.
    """
    fetched: list[FetchedOffset] = []
    committed = store.by_group.get(group_id, {}).get(topic, {})
    checks_pending = require_stable and store.has_transactions(group_id)
    for partition in partitions:
        code = ErrorCode.NONE
        stored: CommittedOffset | None = None
        if checks_pending and store.is_pending(group_id, topic, partition):
            code = ErrorCode.UNSTABLE_OFFSET_COMMIT
        else:
            stored = committed.get(partition)
        if stored is None or _is_of_another_topic(stored.topic_id, topic_id):
            fetched.append(FetchedOffset(partition, NO_OFFSET, NO_LEADER_EPOCH, "", code))
        else:
            fetched.append(FetchedOffset(partition, stored.offset, stored.leader_epoch, stored.metadata, code))
    return fetched


def _is_of_another_topic(stored_id: bytes, asked_id: bytes) -> bool:
    return stored_id != asked_id and ZERO_UUID not in (stored_id, asked_id)


def delete_records(
    store: OffsetStore, group_id: str, group: TopicReader, partitions: Iterable[tuple[str, int]]
) -> tuple[list[Record], list[ErrorCode]]:
    """Tombstones for some of a group's offsets, and one code for each partition, in their order."""
    records: list[Record] = []
    codes: list[ErrorCode] = []
    for topic, partition in partitions:
        if group.is_subscribed_to(topic):
            codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
            continue
        codes.append(ErrorCode.NONE)
        if store.get(group_id, topic, partition) is not None or store.is_pending(group_id, topic, partition):
            records.append(offset_tombstone(group_id, topic, partition))
    return records, codes


def delete_all_records(store: OffsetStore, group_id: str) -> list[Record]:
    """Tombstones for everything that the group committed or is about to commit."""
    return [offset_tombstone(group_id, topic, partition) for topic, partition in store.partitions_of(group_id)]


def delete_topics_records(store: OffsetStore, topics: frozenset[str]) -> Iterator[Record]:
    """Tombstones for all groups' offsets of topics that are gone."""
    for group_id in list(store.group_ids()):
        for topic, partition in store.partitions_of(group_id):
            if topic in topics:
                yield offset_tombstone(group_id, topic, partition)


class Retention(NamedTuple):
    """From when the retention of a group's offsets counts.

    `since_ms` is one moment for all of them, or None where each counts from its own commit.
    """

    since_ms: int | None


def classic_retention(group: ClassicGroup) -> Retention | None:
    """When offsets of the group begin to age; None: not at all.

    A group with members keeps what they read (and everything while it rebalances). A group that lost its members ages
    as a whole, from then on. A group that never had any is a simple consumer, whose commits are its only signs of
    life.
    """
    if group.protocol_type is None:
        return Retention(None)
    if group.state is GroupState.EMPTY:
        return Retention(group.state_timestamp_ms if group.state_timestamp_ms >= 0 else None)
    if group.state is GroupState.STABLE and group.subscribed_topics is not None:
        return Retention(None)
    return None


def expired_partitions(
    store: OffsetStore, group_id: str, group: TopicReader, retention: Retention, now_ms: int, retention_ms: int
) -> tuple[list[tuple[str, int]], bool]:
    """The partitions whose offsets are too old, and whether nothing is left without them."""
    expired: list[tuple[str, int]] = []
    all_expired = not store.has_transactions(group_id)
    for topic, partitions in store.by_group.get(group_id, {}).items():
        if group.is_subscribed_to(topic):
            all_expired = False
            continue
        for partition, stored in partitions.items():
            if _is_expired(stored, retention, now_ms, retention_ms) and not store.is_pending(
                group_id, topic, partition
            ):
                expired.append((topic, partition))
            else:
                all_expired = False
    return expired, all_expired


def _is_expired(stored: CommittedOffset, retention: Retention, now_ms: int, retention_ms: int) -> bool:
    if stored.expire_timestamp_ms >= 0:
        # The client asked for a retention of its own when it committed.
        return now_ms >= stored.expire_timestamp_ms
    since_ms = stored.commit_timestamp_ms if retention.since_ms is None else retention.since_ms
    return now_ms - since_ms >= retention_ms
