"""One partition of `__consumer_offsets` and the groups that live in it.

Theory of operation. The log is the truth. `replay` builds the durable state from it: committed offsets, and the last
record of each group. On top stands soft state, which only this broker has: who waits on which answer, whose session
ends when, how far a rebalance is. It is lost when leadership moves, and the members notice and join again.

A request is decided against both and yields an Outcome. `carry_out` appends its records, replays them at once, and
calls the outcome's `done` when the high watermark covers them. So the next decision sees what the log will have, while
nobody is told anything that a failover could still take back. If the append fails, nothing was replayed and `done`
gets the error.

Reads that must not show what may be lost wait by `when_committed`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kafkapy.coordination import Done, Outcome, Record
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.groups import consumer_group
from kafkapy.groups.classic import ClassicProtocol, check_allowed
from kafkapy.groups.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from kafkapy.groups.commits import (
    Retention,
    classic_retention,
    delete_all_records,
    delete_records,
    delete_topics_records,
    expired_partitions,
)
from kafkapy.groups.consumer_changes import Surroundings
from kafkapy.groups.consumer_group import ConsumerGroup
from kafkapy.groups.consumer_group import GroupState as ConsumerGroupState
from kafkapy.groups.consumer_protocol import MEMBER_TIMERS, ConsumerProtocol, default_assignor
from kafkapy.groups.consumer_records import group_tombstones
from kafkapy.groups.loading import Loader, decode_offset_key
from kafkapy.groups.migration import downgrade, may_downgrade, may_upgrade, upgrade
from kafkapy.groups.mixed_groups import MixedGroups
from kafkapy.groups.offsets import OffsetStore
from kafkapy.groups.rebalance import JOIN, SESSION, SYNC, Rebalancer
from kafkapy.groups.records import group_tombstone, offset_tombstone
from kafkapy.groups.states import Event, GroupState
from kafkapy.groups.timers import TimerKey, TimerQueue
from kafkapy.wire.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from kafkapy.wire.messages.join_group import JoinGroupResponse
from kafkapy.wire.messages.sync_group import SyncGroupResponse
from kafkapy.wire.record_batch import NO_PRODUCER_ID
from kafkapy.wire.record_framing import GROUP_RECORDS, UnknownRecordType
from kafkapy.wire.records import BatchBuilder

if TYPE_CHECKING:
    from kafkapy.groups.interfaces import Catalog, GroupsConfig, GroupTimes, OffsetsLog, Producer

log = logging.getLogger("kafkapy.groups")

# Kinds of timers that belong to the shard as a whole.
EXPIRE_OFFSETS = "expire-offsets"
COMMIT_TIMEOUT = "commit-timeout"

# Tombstones of one clean-up go to the log in batches of this size: each costs about 60 bytes, and a batch must stay
# well below the topic's max.message.bytes.
TOMBSTONES_PER_BATCH_MAX = 2_000

MS_PER_MINUTE = 60_000

_OFFSET_TYPES = (0, OffsetCommitKey.SCHEMA.type)


class ShardState(Enum):
    """A shard serves requests only when it is ACTIVE."""

    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


class ListedGroup(NamedTuple):
    """One line of ListGroups."""

    group_id: str
    group_type: str
    protocol_type: str
    state: str


class TopicsView:
    """The cluster's topics, and a number that grows whenever they change."""

    __slots__ = ("catalog", "version")

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.version = 0


class Parts(NamedTuple):
    """What the shards of a coordinator share."""

    config: Callable[[], GroupsConfig]
    group_times: Callable[[str], GroupTimes]
    topics: TopicsView
    offsets_log: OffsetsLog
    timers: TimerQueue
    new_id: Callable[[], str]


class Shard:
    """The groups of one partition."""

    def __init__(self, partition: int, parts: Parts) -> None:
        self.partition = partition
        self.state = ShardState.LOADING
        self.config = parts.config
        self.group_times = parts.group_times
        self.timers = parts.timers
        self._topics = parts.topics
        self._log = parts.offsets_log
        # Durable: only `replay` and `end_transaction` change these.
        self.offsets = OffsetStore()
        self.stored_groups: dict[str, GroupMetadataValue] = {}
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        # Soft.
        self.classic_groups: dict[str, ClassicGroup] = {}
        self.end_offset = 0
        self._uncommitted: deque[tuple[int, int, Done]] = deque()
        self._loader: Loader | None = Loader(partition, self.offsets, self.replay)
        self.rebalancer = Rebalancer(self, parts.config, parts.timers, self.classic_groups.get, self._release)
        self.classic = ClassicProtocol(self, self.rebalancer, parts.new_id)
        self.consumer = ConsumerProtocol(self, parts.config, parts.timers, parts.new_id)
        self.mixed = MixedGroups(self, parts.config, self.consumer, parts.new_id)

    # Loading and closing.

    def load(self, data: bytes | bytearray | memoryview) -> None:
        """Replay the next piece of the log, which holds whole batches."""
        assert self._loader is not None, "the shard is loaded already"
        self._loader.feed(data)

    def loaded(self, now_ms: int) -> None:
        """The whole log was replayed: bring the groups to life. Every member gets a full session from now."""
        assert self._loader is not None, "the shard is loaded already"
        self.end_offset = self._loader.next_offset
        # Most shards of a small broker are empty, and fifty lines that say so hide the one that says where it listens.
        level = logging.INFO if self._loader.records else logging.DEBUG
        log.log(level, "__consumer_offsets-%d: loaded %d records", self.partition, self._loader.records)
        self._loader = None
        self.state = ShardState.ACTIVE
        for group_id, value in self.stored_groups.items():
            self.classic_groups[group_id] = ClassicGroup.from_value(group_id, value)
            self._start_sessions(self.classic_groups[group_id], now_ms)
        for modern_group in self.consumer_groups.values():
            self.consumer.loaded(modern_group, now_ms)
        self.schedule(EXPIRE_OFFSETS, now_ms + self.config().offsets_retention_check_interval_ms)
        for group in list(self.classic_groups.values()):
            if len(group.members) > self.config().group_max_size:
                # The limit was lowered: let them join again, and the last to come find no room.
                self.carry_out(
                    self.rebalancer.happened(group, Event.MEMBER_GONE, now_ms, "over group.max.size"), now_ms
                )

    def _start_sessions(self, group: ClassicGroup, now_ms: int) -> None:
        for member in group.members.values():
            self.rebalancer.extend_session(group, member, now_ms)

    def close(self, now_ms: int) -> None:
        """Leadership moved: everybody who waits is sent to look for the new coordinator."""
        self.state = ShardState.CLOSED
        self.timers.discard_owner(self)
        for group in self.classic_groups.values():
            self._send_away(group, ErrorCode.NOT_COORDINATOR)
        while self._uncommitted:
            _, _, done = self._uncommitted.popleft()
            done(ErrorCode.NOT_COORDINATOR, now_ms)

    def _send_away(self, group: ClassicGroup, code: ErrorCode) -> None:
        """The group is no more, not here or not of this kind: its waiting members hear why."""
        for member in group.members.values():
            response = JoinGroupResponse(error_code=code, member_id=member.member_id)
            self.rebalancer.answer_join(group, member, response)
            self.rebalancer.answer_sync(member, SyncGroupResponse(error_code=code))
        group.state = GroupState.DEAD

    # Groups.

    def classic_group(self, group_id: str) -> ClassicGroup | None:
        """The classic group of this id; one that only ever committed offsets is made when it is asked for."""
        group = self.classic_groups.get(group_id)
        if group is None and group_id not in self.consumer_groups and self.offsets.has_group(group_id):
            group = self.create_classic_group(group_id, -1)
        return group

    def group(self, group_id: str) -> ClassicGroup | ConsumerGroup | None:
        """The group of this id, of whatever kind."""
        return self.consumer_groups.get(group_id) or self.classic_group(group_id)

    def existing_group(self, group_id: str) -> ClassicGroup | ConsumerGroup:
        """The group of this id, of whatever kind, or GROUP_ID_NOT_FOUND."""
        group = self.group(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def create_classic_group(self, group_id: str, now_ms: int) -> ClassicGroup:
        """A new, empty group; it is soft until its first generation is stored."""
        group = self.classic_groups[group_id] = ClassicGroup(group_id, now_ms)
        return group

    def _release(self, group: ClassicGroup) -> None:
        """Forget a group that never came to anything."""
        if group.state is GroupState.EMPTY and not group.pending_members and group.group_id not in self.stored_groups:
            self.classic_groups.pop(group.group_id, None)

    def group_ids(self) -> list[str]:
        """Every group of the shard."""
        ids = dict.fromkeys([*self.classic_groups, *self.consumer_groups])
        ids.update(dict.fromkeys(self.offsets.group_ids()))
        return list(ids)

    def described_classic_group(self, group_id: str) -> ClassicGroup:
        """The classic group, or GROUP_ID_NOT_FOUND with the sentence that newer versions of DescribeGroups show."""
        group = self.existing_group(group_id)
        if not isinstance(group, ClassicGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")
        return group

    def described_consumer_group(self, group_id: str) -> ConsumerGroup:
        """The consumer group, or GROUP_ID_NOT_FOUND and why."""
        group = self.existing_group(group_id)
        if not isinstance(group, ConsumerGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return group

    def list_groups(self) -> list[ListedGroup]:
        """Every group with its type, its protocol type and its state."""
        listed = []
        for group_id in self.group_ids():
            group = self.group(group_id)
            if isinstance(group, ConsumerGroup):
                listed.append(ListedGroup(group_id, "consumer", CONSUMER_PROTOCOL_TYPE, group.state.value))
            elif group is not None:
                listed.append(ListedGroup(group_id, "classic", group.protocol_type or "", group.state.value))
        return listed

    # Between the protocols.

    def surroundings(self, group_id: str, now_ms: int) -> Surroundings:
        """The cluster's topics and what else a change of a consumer group depends on."""
        return Surroundings(
            self._topics.catalog,
            self._topics.version,
            default_assignor(self.config().group_consumer_assignors),
            self.group_times(group_id).consumer_assignment_interval_ms,
            now_ms,
        )

    def joinable_consumer_group(self, group_id: str, now_ms: int) -> tuple[ConsumerGroup, list[Record]]:
        """The consumer group that somebody joins: the one there is, a new one, or a classic one turned over."""
        group = self.consumer_groups.get(group_id)
        if group is not None:
            return group, []
        classic = self.classic_group(group_id)
        if classic is None or classic.state is GroupState.EMPTY:
            is_stored = group_id in self.stored_groups
            return ConsumerGroup(group_id), [group_tombstone(group_id)] if is_stored else []
        config = self.config()
        if not may_upgrade(classic, config.group_consumer_migration_policy, config.group_consumer_max_size):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        log.info("Group %s: becomes a consumer group", group_id)
        upgraded, records = upgrade(classic, self._topics.catalog, now_ms)
        self.consumer.loaded(upgraded, now_ms)
        return upgraded, records

    def downgrade(self, group: ConsumerGroup, leaving_ids: list[str], now_ms: int) -> Outcome | None:
        """The group as a classic one, if only members of the classic protocol are left.

        They rebalance at once, unless a static member has merely changed its protocol and everybody has what it should.
        """
        config = self.config()
        if not may_downgrade(group, leaving_ids, config.group_consumer_migration_policy, config.group_max_size):
            return None
        log.info("Group %s: becomes a classic group", group.group_id)
        records = downgrade(group, leaving_ids, self._topics.catalog, now_ms)
        is_settled = not leaving_ids and group.state is ConsumerGroupState.STABLE

        def done(code: ErrorCode, now_ms: int) -> Outcome | None:
            classic = self.classic_groups.get(group.group_id)
            if classic is None or classic.state is not GroupState.STABLE:
                # The log refused and the group is what it was, or its members rebalance already.
                return None
            self._start_sessions(classic, now_ms)
            if is_settled:
                return None
            return self.rebalancer.happened(classic, Event.MEMBER_GONE, now_ms, "back to the classic protocol")

        return Outcome(records, done)

    # Replay.

    def replay(self, key: bytes, value: bytes | None, record_offset: int, producer_id: int) -> None:
        """Take one record into the durable state."""
        type_ = int.from_bytes(key[:2], "big", signed=True)
        if type_ in _OFFSET_TYPES:
            group_id, topic, partition = decode_offset_key(key)
            self.offsets.replay(group_id, topic, partition, value, record_offset, producer_id)
            return
        try:
            decoded_key, decoded = GROUP_RECORDS.decode(key, value)
        except UnknownRecordType as error:
            # A newer broker wrote it; it is kept in the log, but means nothing here.
            log.warning("__consumer_offsets-%d: skipped the record at %d: %s", self.partition, record_offset, error)
            return
        if isinstance(decoded_key, GroupMetadataKey):
            self._replay_group(decoded_key.group, decoded)
        else:
            consumer_group.replay(self.consumer_groups, decoded_key, decoded)

    def _replay_group(self, group_id: str, value: object) -> None:
        if isinstance(value, GroupMetadataValue):
            self.stored_groups[group_id] = value
            if self.state is ShardState.ACTIVE and group_id not in self.classic_groups:
                # It was a consumer group a moment ago.
                self.classic_groups[group_id] = ClassicGroup.from_value(group_id, value)
            return
        self.stored_groups.pop(group_id, None)
        group = self.classic_groups.pop(group_id, None)
        if group is not None:
            # If it has members, they are members of a consumer group now, and must join again there.
            self._send_away(group, ErrorCode.REBALANCE_IN_PROGRESS)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """A transaction's marker stands in this partition's log."""
        self.offsets.end_transaction(producer_id, commit=commit)

    # Writing.

    def carry_out(self, outcome: Outcome, now_ms: int, producer: Producer | None = None) -> None:
        """Append and replay the records of a decision; tell it when they are committed."""
        records, done = outcome
        if not records:
            if done is not None:
                # It may tell of something that was written before and is not committed yet.
                self.when_committed(done, now_ms)
            return
        if self.state is ShardState.CLOSED:
            code = ErrorCode.NOT_COORDINATOR
        else:
            try:
                self._append(records, now_ms, producer)
                code = ErrorCode.NONE
            except KafkaError as error:
                log.warning("__consumer_offsets-%d: could not write: %s", self.partition, error)
                code = error.code
        if done is None:
            return
        if code:
            self._finish(done, code, now_ms)
        else:
            self.when_committed(done, now_ms)

    def _append(self, records: Sequence[Record], now_ms: int, producer: Producer | None) -> None:
        if producer is None:
            producer_id = NO_PRODUCER_ID
            builder = BatchBuilder()
        else:
            producer_id = producer.producer_id
            builder = BatchBuilder(producer_id=producer_id, producer_epoch=producer.producer_epoch, transactional=True)
        for key, value in records:
            builder.append(now_ms, key, value)
        end_offset = self._log.append(self.partition, builder.build())
        offset = end_offset - len(records)
        for key, value in records:
            self.replay(key, value, offset, producer_id)
            offset += 1
        self.end_offset = end_offset

    def when_committed(self, done: Done, now_ms: int) -> None:
        """Call `done` when all that was appended so far is committed: at once, or after the followers have it."""
        if not self._uncommitted and self._log.is_committed(self.partition, self.end_offset):
            self._finish(done, ErrorCode.NONE, now_ms)
            return
        deadline_ms = now_ms + self.config().offsets_commit_timeout_ms
        if not self._uncommitted:
            self.schedule(COMMIT_TIMEOUT, deadline_ms)
        self._uncommitted.append((self.end_offset, deadline_ms, done))

    def high_watermark_advanced(self, high_watermark: int, now_ms: int) -> None:
        """The followers have everything below this offset."""
        waiting = self._uncommitted
        while waiting and waiting[0][0] <= high_watermark:
            _, _, done = waiting.popleft()
            self._finish(done, ErrorCode.NONE, now_ms)

    def _commits_timed_out(self, now_ms: int) -> None:
        waiting = self._uncommitted
        while waiting and waiting[0][1] <= now_ms:
            _, _, done = waiting.popleft()
            self._finish(done, ErrorCode.REQUEST_TIMED_OUT, now_ms)
        if waiting:
            self.schedule(COMMIT_TIMEOUT, waiting[0][1])

    def _finish(self, done: Done, code: ErrorCode, now_ms: int) -> None:
        further = done(code, now_ms)
        if further is not None:
            self.carry_out(further, now_ms)

    # Timers.

    def schedule(self, kind: str, deadline_ms: int) -> None:
        """Set one of the shard's own timers."""
        self.timers.schedule((self, kind, None, None), deadline_ms)

    def fired(self, key: TimerKey, now_ms: int) -> None:
        """One of the timers came due."""
        kind = key[1]
        if kind in (SESSION, JOIN, SYNC):
            self.carry_out(self.rebalancer.fired(key, now_ms), now_ms)
        elif kind in MEMBER_TIMERS:
            self.carry_out(self.consumer.fired(key, now_ms), now_ms)
        elif kind == EXPIRE_OFFSETS:
            self.expire_offsets(now_ms)
            self.schedule(EXPIRE_OFFSETS, now_ms + self.config().offsets_retention_check_interval_ms)
        else:
            assert kind == COMMIT_TIMEOUT, kind
            self._commits_timed_out(now_ms)

    # Deletion.

    def delete_group(self, group_id: str) -> list[Record]:
        """Tombstones for a group without members and everything that it committed."""
        group = self.existing_group(group_id)
        offsets = delete_all_records(self.offsets, group_id)
        if isinstance(group, ConsumerGroup):
            if group.members:
                raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
            return [*offsets, *group_tombstones(group)]
        check_allowed(group, Event.DELETE)
        return [*offsets, group_tombstone(group_id)]

    def delete_offsets(self, group_id: str, partitions: list[tuple[str, int]]) -> tuple[list[Record], list[ErrorCode]]:
        """Tombstones for committed offsets, and a code for each partition: what members still read must stay."""
        group = self.existing_group(group_id)
        if isinstance(group, ClassicGroup) and group.state is not GroupState.EMPTY and not group.is_consumer_type:
            # What the members of such a group read cannot be known.
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        return delete_records(self.offsets, group_id, group, partitions)

    def topics_deleted(self, topics: frozenset[str], now_ms: int) -> None:
        """Offsets of topics that are gone mean nothing, and would be wrong for new topics of the same names."""
        self._carry_out_in_batches(list(delete_topics_records(self.offsets, topics)), now_ms)

    def expire_offsets(self, now_ms: int) -> None:
        """Drop offsets that nobody has used for the retention time, and groups that have nothing left."""
        retention_ms = self.config().offsets_retention_minutes * MS_PER_MINUTE
        records: list[Record] = []
        for group_id in self.group_ids():
            group = self.group(group_id)
            if isinstance(group, ConsumerGroup):
                records += self._expired_consumer_records(group, now_ms, retention_ms)
            elif group is not None:
                records += self._expired_records(group, now_ms, retention_ms)
                self._release(group)
        if records:
            log.info("__consumer_offsets-%d: %d records expired", self.partition, len(records))
        self._carry_out_in_batches(records, now_ms)

    def _expired_records(self, group: ClassicGroup, now_ms: int, retention_ms: int) -> list[Record]:
        group_id = group.group_id
        retention = classic_retention(group)
        expired: list[tuple[str, int]] = []
        is_unused = not self.offsets.has_group(group_id)
        if retention is not None:
            expired, is_unused = expired_partitions(self.offsets, group_id, group, retention, now_ms, retention_ms)
        records: list[Record] = [offset_tombstone(group_id, topic, partition) for topic, partition in expired]
        is_stored = group_id in self.stored_groups
        if is_unused and is_stored and group.state is GroupState.EMPTY and not group.pending_members:
            records.append(group_tombstone(group_id))
        return records

    def _expired_consumer_records(self, group: ConsumerGroup, now_ms: int, retention_ms: int) -> list[Record]:
        """Here each offset ages from its own commit, unless a member reads its topic."""
        group_id, since = group.group_id, Retention(None)
        expired, is_unused = expired_partitions(self.offsets, group_id, group, since, now_ms, retention_ms)
        records: list[Record] = [offset_tombstone(group_id, topic, partition) for topic, partition in expired]
        if is_unused and not group.members:
            records += group_tombstones(group)
        return records

    def _carry_out_in_batches(self, records: list[Record], now_ms: int) -> None:
        for start in range(0, len(records), TOMBSTONES_PER_BATCH_MAX):
            self.carry_out(Outcome(records[start : start + TOMBSTONES_PER_BATCH_MAX]), now_ms)
