"""A group coordinator with everything around it made of plain objects: a log in memory, a clock that is set by hand."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from kafkapy.coordination import Caller, Reply
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.groups.commits import Commit
from kafkapy.groups.coordinator import GroupCoordinator
from kafkapy.groups.shard import Shard
from kafkapy.types import ZERO_UUID
from kafkapy.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kafkapy.wire.messages.consumer_group_heartbeat import TopicPartitions as HeartbeatPartitions
from kafkapy.wire.messages.heartbeat import HeartbeatRequest
from kafkapy.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkapy.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafkapy.wire.protocol_data import ConsumerProtocolSubscription
from kafkapy.wire.record_batch import read_header
from kafkapy.wire.record_framing import encode_blob
from kafkapy.wire.records import encode_end_txn_marker
from tests.support.coordinator_log import FakeLog

START_MS = 1_700_000_000_000


def make_config(**values: Any) -> SimpleNamespace:
    """Kafka's defaults, but for the delay of the first rebalance."""
    config = {
        "group_initial_rebalance_delay_ms": 0,
        "group_max_size": 2**31 - 1,
        "group_min_session_timeout_ms": 6_000,
        "group_max_session_timeout_ms": 1_800_000,
        "offset_metadata_max_bytes": 4096,
        "offsets_retention_minutes": 10_080,
        "offsets_retention_check_interval_ms": 600_000,
        "offsets_commit_timeout_ms": 5_000,
        "offsets_topic_num_partitions": 50,
        "group_consumer_session_timeout_ms": 45_000,
        "group_consumer_heartbeat_interval_ms": 5_000,
        "group_consumer_max_size": 2**31 - 1,
        "group_consumer_assignors": ("uniform", "range"),
        "group_consumer_migration_policy": "bidirectional",
        "group_consumer_assignment_interval_ms": 0,
        "group_consumer_regex_refresh_interval_ms": 600_000,
        "group_coordinator_rebalance_protocols": ("classic", "consumer", "streams"),
    }
    return SimpleNamespace(**{**config, **values})


def make_catalog(**partition_counts: int) -> SimpleNamespace:
    """Topics with these numbers of partitions; a topic's id is made of its name."""
    topics = {
        name: SimpleNamespace(name=name, topic_id=topic_id(name), partition_count=count)
        for name, count in partition_counts.items()
    }
    return SimpleNamespace(topics=topics, by_id={topic.topic_id: topic for topic in topics.values()})


def topic_id(name: str) -> bytes:
    """The id that the catalog gives to a topic."""
    return name.encode().ljust(16, b".")[:16]


def owned_by(answer: ConsumerGroupHeartbeatResponse) -> dict[str, list[int]] | None:
    """The assignment in an answer, by topic name; None if it says that nothing has changed."""
    if answer.assignment is None:
        return None
    return {one.topic_id.decode().rstrip("."): one.partitions for one in answer.assignment.topic_partitions}


def subscription(*topics: str) -> bytes:
    """The metadata of a consumer that reads these topics."""
    return encode_blob(ConsumerProtocolSubscription(topics=list(topics)), 0)


class World:
    """A coordinator that leads all partitions, and a clock."""

    def __init__(self, *, catalog: Any = None, partitions: int = 1, **config: Any) -> None:
        self.now_ms = START_MS
        self.config = make_config(offsets_topic_num_partitions=partitions, **config)
        self.catalog = catalog if catalog is not None else make_catalog(t=3)
        self.log = FakeLog()
        self.ids = 0
        self.groups = self._make()
        for partition in range(partitions):
            self.groups.elected(partition)
            self.groups.loaded(partition, self.now_ms)

    def _make(self) -> GroupCoordinator:
        return GroupCoordinator(lambda: self.config, self.catalog, self.log, self.new_id, lambda key: None)

    def new_id(self) -> str:
        """Ids in the order in which they were asked for."""
        self.ids += 1
        return f"{self.ids:04}"

    @property
    def shard(self) -> Shard:
        """The first shard."""
        return self.groups.shards[0]

    def restart(self) -> None:
        """A new coordinator that knows only the log."""
        for partition in list(self.groups.shards):
            self.groups.resigned(partition, self.now_ms)
        self.groups = self._make()
        for partition in range(self.config.offsets_topic_num_partitions):
            self.groups.elected(partition)
            for batch in self.log.batches.get(partition, ()):
                self.groups.load(partition, batch)
            self.groups.loaded(partition, self.now_ms)

    def advance(self, ms: int) -> None:
        """Let time pass, stopping at each deadline on the way."""
        end_ms = self.now_ms + ms
        while (deadline := self.groups.next_deadline()) is not None and deadline <= end_ms:
            self.now_ms = max(self.now_ms, deadline)
            self.groups.tick(self.now_ms)
        self.now_ms = end_ms

    def fail_over(self) -> None:
        """Another broker takes over with what the followers have."""
        for partition, end in self.log.ends.items():
            keep = self.log.high_watermarks.get(partition, 0)
            if keep < end:
                batches = self.log.batches[partition]
                self.log.batches[partition] = [one for one in batches if read_header(one).next_offset <= keep]
                self.log.ends[partition] = keep
        self.restart()

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """A marker on every partition, in the log and in the coordinator."""
        for partition in self.groups.shards:
            self.log.append(partition, encode_end_txn_marker(commit, 0, producer_id, 0, self.now_ms))
            self.groups.end_transaction(partition, producer_id, commit=commit)

    def replicate(self) -> None:
        """The followers catch up."""
        for partition, end in self.log.ends.items():
            self.log.high_watermarks[partition] = end
            self.groups.high_watermark_advanced(partition, end, self.now_ms)

    def caller(self, version: int, client_id: str = "client") -> Caller:
        """Somebody who asks now."""
        return Caller(version, client_id, "/127.0.0.1", self.now_ms)

    # Requests.

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        version: int = 9,
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
    ) -> Reply:
        """JoinGroup."""
        request = JoinGroupRequest(
            group_id=group,
            member_id=member_id,
            group_instance_id=instance,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in ({"range": subscription("t")} if protocols is None else protocols).items()
            ],
        )
        return self._reply(self.groups.join_group(self.caller(version), request))

    def enter(self, **options: Any) -> tuple[str, Reply]:
        """A newcomer's two JoinGroups; the member id, and the answer that may be waiting."""
        first = self.join(**options).response
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return first.member_id, self.join(first.member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        version: int | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Reply:
        """SyncGroup; with a protocol in the version that names it, unless one is given."""
        if version is None:
            version = 5 if protocol_type or protocol_name else 4
            if version == 5:
                protocol_type, protocol_name = protocol_type or "consumer", protocol_name or "range"
        request = SyncGroupRequest(
            group_id=group,
            member_id=member_id,
            generation_id=generation,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=one, assignment=share)
                for one, share in (assignments or {}).items()
            ],
        )
        return self._reply(self.groups.sync_group(self.caller(version), request))

    def beat(
        self,
        member_id: str,
        epoch: int,
        *,
        group: str = "g",
        topics: Iterable[str] | None = None,
        owned: dict[str, Iterable[int]] | None = None,
        rebalance_ms: int = -1,
        version: int = 1,
        **fields: Any,
    ) -> Reply:
        """ConsumerGroupHeartbeat; `owned` are partitions by topic name."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=None if topics is None else list(topics),
            rebalance_timeout_ms=rebalance_ms,
            topic_partitions=None
            if owned is None
            else [HeartbeatPartitions(topic_id=topic_id(name), partitions=list(ones)) for name, ones in owned.items()],
            **fields,
        )
        return self._reply(self.groups.consumer_group_heartbeat(self.caller(version), request))

    def enter_consumer(self, member_id: str, **fields: Any) -> Reply:
        """The first ConsumerGroupHeartbeat of a member."""
        return self.beat(member_id, 0, **{"topics": ["t"], "owned": {}, "rebalance_ms": 30_000, **fields})

    def heartbeat(self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None) -> ErrorCode:
        """Heartbeat; the code of the answer."""
        request = HeartbeatRequest(
            group_id=group, member_id=member_id, generation_id=generation, group_instance_id=instance
        )
        return ErrorCode(self.groups.heartbeat(self.caller(4), request).error_code)

    def leave(self, *members: str | tuple[str, str | None], group: str = "g", version: int = 5) -> Reply:
        """LeaveGroup of members, given by their ids or by pairs of id and instance id."""
        pairs = [member if isinstance(member, tuple) else (member, None) for member in members]
        request = LeaveGroupRequest(
            group_id=group,
            member_id=pairs[0][0],
            members=[MemberIdentity(member_id=one, group_instance_id=instance) for one, instance in pairs],
        )
        return self._reply(self.groups.leave_group(self.caller(version), request))

    def commit(
        self,
        offset: int,
        member_id: str = "",
        generation: int = -1,
        *,
        group: str = "g",
        topic: str = "t",
        partition: int = 0,
        instance: str | None = None,
        metadata: str | None = "",
        version: int = 9,
        retention_ms: int = -1,
        producer: Any = None,
    ) -> Reply:
        """OffsetCommit of one partition; the answer is the list of codes. With a producer, TxnOffsetCommit."""
        commit = Commit(topic, ZERO_UUID, partition, offset, -1, metadata)
        member = (member_id, instance, generation)
        if producer is not None:
            return self.groups.commit_transactional_offsets(
                self.caller(version), group, member, producer, [commit], list
            )
        return self.groups.commit_offsets(self.caller(version), group, member, [commit], retention_ms, list)

    def committed(self, partition: int = 0, *, group: str = "g", topic: str = "t", stable: bool = False) -> int:
        """OffsetFetch of one partition: the offset, or -1."""
        one = self.groups.fetch_offsets(group, topic, ZERO_UUID, [partition], require_stable=stable)[0]
        if one.code:
            raise KafkaError(one.code)
        return one.offset

    @staticmethod
    def _reply(result: Any) -> Reply:
        if isinstance(result, Reply):
            return result
        reply = Reply(lambda key: None)
        reply.give(result)
        return reply

    def stable_group(self, size: int = 1, **options: Any) -> list[str]:
        """A group in Stable with this many dynamic members, the leader first."""
        ids, replies = [], []
        for _ in range(size):
            member_id, reply = self.enter(**options)
            ids.append(member_id)
            replies.append(reply)
            if reply.response is None:
                # The others have to join again too.
                replies[:-1] = [self.join(one, **options) for one in ids[:-1]]
        self.settle(ids, replies, options.get("group", "g"))
        return ids

    def settle(self, ids: list[str], replies: list[Reply], group: str = "g") -> int:
        """Everybody's SyncGroup; the generation."""
        answers = [reply.response for reply in replies]
        assert all(one is not None and not one.error_code for one in answers), answers
        generation = answers[-1].generation_id
        leader = answers[-1].leader
        for one in ids:
            self.sync(
                one, generation, {member: member.encode() for member in ids} if one == leader else None, group=group
            )
        return generation
