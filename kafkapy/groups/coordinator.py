"""The group coordinator of one broker: the shards that it leads, and the door through which handlers and shell come in.

Pure: it reads no clock, opens no socket and never waits. It is driven from four sides.

1. Leadership (shell). When this broker becomes leader of `__consumer_offsets-N` in an epoch it has not led before:
   `elected(N)`; read the partition's log from its start to its end and give each piece of whole batches to `load(N,
   piece)`, in order; `loaded(N, now_ms)`. The pieces may come from a worker thread's reads, one per turn of the loop;
   until `loaded` the shard answers COORDINATOR_LOAD_IN_PROGRESS. When it stops being leader: `resigned(N, now_ms)`.
2. Requests (handlers). They return a finished answer or a `Reply`; `handlers/group_replies.py` turns a Reply into a
   Wait on the Reply object itself, which `wake` wakes.
3. The log (shell). `OffsetsLog.append` writes as leader with acks=all semantics and must not call back. Whenever the
   high watermark of a partition of `__consumer_offsets` rises *after* append has returned (replication):
   `high_watermark_advanced(N, offset, now_ms)`. A single node never needs it, because `is_committed` is true right
   away. When a WriteTxnMarkers marker was appended to the partition: `end_transaction`.
4. Time (shell). One task: sleep until `next_deadline()` (None: until told), then `tick(now_ms)`, then settle the woken
   waits. `on_earlier` is called from anywhere in here when that deadline moved forward, so that the task shortens its
   sleep. `now_ms` must be the same clock as the requests' and must not jump back.

And when topics were created, extended or deleted: `topics_changed()`; for the deleted ones `topics_deleted(names,
now_ms)`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from kafkapy.coordination import Caller, Outcome, Reply, coordinator_code
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.groups.classic import check_named_protocol, check_session_timeout, join_error
from kafkapy.groups.classic_group import ClassicGroup
from kafkapy.groups.commits import (
    MEMBER_EPOCH_VERSION,
    Commit,
    FetchedOffset,
    check_classic_commit,
    check_consumer_commit,
    check_consumer_fetch,
    commit_records,
    fetch_offsets,
)
from kafkapy.groups.consumer_group import ConsumerGroup
from kafkapy.groups.consumer_protocol import default_assignor, refusal
from kafkapy.groups.consumer_records import group_tombstones
from kafkapy.groups.shard import ListedGroup, Parts, Shard, ShardState, TopicsView
from kafkapy.groups.timers import TimerQueue
from kafkapy.hashing import partition_for
from kafkapy.types import OFFSETS_TOPIC
from kafkapy.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkapy.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkapy.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkapy.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkapy.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from kafkapy.config.broker_config import BrokerConfig
    from kafkapy.groups.interfaces import Catalog, CoordinatorConfig, OffsetsLog, Producer


_TIME_KEYS = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms")


class _Times(NamedTuple):
    """A group's timeouts and intervals, in the order of the keys above."""

    consumer_session_timeout_ms: int
    consumer_heartbeat_interval_ms: int
    consumer_assignment_interval_ms: int


def _no_overrides(group_id: str) -> Mapping[str, str]:
    return {}


class GroupCoordinator:
    """All groups that this broker coordinates.

    `config` is asked each time, for it is replaced when it changes; so is `group_overrides`, which tells the
    configuration that a group has of its own (IncrementalAlterConfigs on GROUP).
    """

    def __init__(
        self,
        config: Callable[[], CoordinatorConfig],
        catalog: Catalog,
        offsets_log: OffsetsLog,
        new_id: Callable[[], str],
        wake: Callable[[Hashable], None],
        on_earlier: Callable[[], None] | None = None,
        group_overrides: Callable[[str], Mapping[str, str]] = _no_overrides,
    ) -> None:
        self.config = config
        self.catalog = catalog
        self.timers = TimerQueue(on_earlier)
        self.shards: dict[int, Shard] = {}
        self._topics = TopicsView(catalog)
        self._parts = Parts(config, self._times_of, self._topics, offsets_log, self.timers, new_id)
        self._group_overrides = group_overrides
        self._wake = wake

    # Leadership.

    def elected(self, partition: int) -> Shard:
        """This broker leads the partition now; its groups are served after `loaded`."""
        assert partition not in self.shards, f"__consumer_offsets-{partition} is led already"
        shard = Shard(partition, self._parts)
        self.shards[partition] = shard
        return shard

    def load(self, partition: int, data: bytes | bytearray | memoryview) -> None:
        """The next piece of the partition's log: whole batches."""
        self.shards[partition].load(data)

    def loaded(self, partition: int, now_ms: int) -> None:
        """The log was replayed to its end."""
        self.shards[partition].loaded(now_ms)

    def resigned(self, partition: int, now_ms: int) -> None:
        """Another broker leads the partition now, or nobody."""
        shard = self.shards.pop(partition, None)
        if shard is not None:
            shard.close(now_ms)

    # Log and time.

    def high_watermark_advanced(self, partition: int, high_watermark: int, now_ms: int) -> None:
        """Everything below this offset is committed."""
        shard = self.shards.get(partition)
        if shard is not None:
            shard.high_watermark_advanced(high_watermark, now_ms)

    def end_transaction(self, partition: int, producer_id: int, *, commit: bool) -> None:
        """A marker that ends the producer's transaction was appended to the partition."""
        shard = self.shards.get(partition)
        if shard is not None:
            shard.end_transaction(producer_id, commit=commit)

    def next_deadline(self) -> int | None:
        """When `tick` has work next; it may be too early, never too late."""
        return self.timers.next_deadline()

    def tick(self, now_ms: int) -> None:
        """Carry out what has come due."""
        for key in self.timers.expire(now_ms):
            shard: Shard = key[0]
            if shard.state is ShardState.ACTIVE:
                shard.fired(key, now_ms)

    def topics_changed(self) -> None:
        """Topics were created, extended or deleted; consumer groups look at theirs with the next heartbeat."""
        self._topics.version += 1

    def topics_deleted(self, topics: Iterable[str], now_ms: int) -> None:
        """Drop the offsets of topics that are gone."""
        names = frozenset(topics)
        self.topics_changed()
        for shard in list(self.shards.values()):
            if shard.state is ShardState.ACTIVE:
                shard.topics_deleted(names, now_ms)

    # Finding a group's shard.

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` where the group lives."""
        topic = self.catalog.topics.get(OFFSETS_TOPIC)
        count = topic.partition_count if topic is not None else self.config().offsets_topic_num_partitions
        return partition_for(group_id, count)

    def shard_of(self, group_id: str) -> Shard:
        """The active shard of a group, or the error that sends the client elsewhere."""
        shard = self.shards.get(self.partition_of(group_id))
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if shard.state is ShardState.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard

    def _member_shard(self, group_id: str) -> Shard:
        """As `shard_of`, for requests of members: a group without a name can have offsets but no members."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return self.shard_of(group_id)

    def new_reply(self) -> Reply:
        """A place for an answer that may come later."""
        return Reply(self._wake)

    # The classic protocol.

    def join_group(self, caller: Caller, request: JoinGroupRequest) -> JoinGroupResponse | Reply:
        """JoinGroup; the answer comes when the whole group has joined."""
        try:
            shard = self._member_shard(request.group_id)
            check_session_timeout(self.config(), request.session_timeout_ms)
        except KafkaError as error:
            return join_error(caller, request.member_id, error.code)
        reply = self.new_reply()
        group = shard.consumer_groups.get(request.group_id)
        if group is not None and (group.members or request.member_id):
            shard.carry_out(shard.mixed.join(group, caller, request, reply), caller.now_ms)
            return reply
        if group is not None:
            # An empty group takes the kind of whoever comes first.
            shard.carry_out(Outcome(list(group_tombstones(group))), caller.now_ms)
            if request.group_id in shard.consumer_groups:
                reply.give(join_error(caller, request.member_id, ErrorCode.COORDINATOR_NOT_AVAILABLE))
                return reply
        shard.carry_out(shard.classic.join(caller, request, reply), caller.now_ms)
        return reply

    def sync_group(self, caller: Caller, request: SyncGroupRequest) -> SyncGroupResponse | Reply:
        """SyncGroup; the answer comes with the leader's assignment."""
        try:
            check_named_protocol(caller, request)
            shard = self._member_shard(request.group_id)
        except KafkaError as error:
            return SyncGroupResponse(error_code=error.code)
        reply = self.new_reply()
        group = shard.consumer_groups.get(request.group_id)
        if group is not None:
            outcome = shard.mixed.sync(group, caller, request, reply)
        else:
            outcome = shard.classic.sync(caller, request, reply)
        shard.carry_out(outcome, caller.now_ms)
        return reply

    def heartbeat(self, caller: Caller, request: HeartbeatRequest) -> HeartbeatResponse:
        """Heartbeat. While the shard loads, nobody's session can end, so everybody is welcome to go on."""
        try:
            shard = self._member_shard(request.group_id)
        except KafkaError as error:
            if error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return HeartbeatResponse()
            return HeartbeatResponse(error_code=error.code)
        group = shard.consumer_groups.get(request.group_id)
        if group is not None:
            return shard.mixed.heartbeat(group, caller, request)
        return shard.classic.heartbeat(caller, request)

    def leave_group(self, caller: Caller, request: LeaveGroupRequest) -> LeaveGroupResponse | Reply:
        """LeaveGroup."""
        try:
            shard = self._member_shard(request.group_id)
        except KafkaError as error:
            return LeaveGroupResponse(error_code=error.code)
        reply = self.new_reply()
        group = shard.consumer_groups.get(request.group_id)
        if group is not None:
            outcome = shard.mixed.leave(group, caller, request, reply)
        else:
            outcome = shard.classic.leave(caller, request, reply)
        shard.carry_out(outcome, caller.now_ms)
        return reply

    # The consumer protocol.

    def consumer_group_heartbeat(
        self, caller: Caller, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse | Reply:
        """ConsumerGroupHeartbeat."""
        try:
            self._check_consumer_protocol()
            # A request without a group id is refused by the protocol, with a sentence, not by the search for its shard.
            shard = self.shard_of(request.group_id)
        except KafkaError as error:
            return refusal(error)
        reply = self.new_reply()
        shard.carry_out(shard.consumer.heartbeat(caller, request, reply), caller.now_ms)
        return reply

    def describe_consumer_group(self, group_id: str) -> ConsumerGroup:
        """The group for ConsumerGroupDescribe."""
        self._check_consumer_protocol()
        return self._member_shard(group_id).described_consumer_group(group_id)

    def assignor_of(self, group: ConsumerGroup) -> str:
        """The assignor that the members of a group chose, or that the broker chose for them."""
        return group.preferred_assignor(group.members.values()) or default_assignor(
            self.config().group_consumer_assignors
        )

    def _times_of(self, group_id: str) -> _Times:
        """What the group's own configuration says, and the broker's where it says nothing."""
        overrides = self._group_overrides(group_id)
        config = self.config()
        if overrides:
            from kafkapy.config.group_configs import group_values

            values = group_values(cast("BrokerConfig", config), overrides)
            return _Times(*[cast(int, values[key]) for key in _TIME_KEYS])
        return _Times(
            config.group_consumer_session_timeout_ms,
            config.group_consumer_heartbeat_interval_ms,
            config.group_consumer_assignment_interval_ms,
        )

    def _check_consumer_protocol(self) -> None:
        if "consumer" not in self.config().group_coordinator_rebalance_protocols:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The consumer group protocol is disabled.")

    # Offsets.

    def commit_offsets(
        self,
        caller: Caller,
        group_id: str,
        member: tuple[str, str | None, int],
        commits: list[Commit],
        retention_ms: int,
        answer: Callable[[list[ErrorCode]], Any],
    ) -> Reply:
        """Commit offsets for a member: its id, its instance id, its generation or epoch.

        `answer` makes the response from one code for each commit, in their order.
        """
        reply = self.new_reply()
        try:
            shard = self.shard_of(group_id)
            self._check_commit(shard, caller, group_id, member, commits)
        except KafkaError as error:
            reply.give(answer([error.code] * len(commits)))
            return reply
        records, codes = commit_records(
            group_id, commits, caller.now_ms, self.config().offset_metadata_max_bytes, retention_ms
        )
        shard.carry_out(Outcome(records, _answer_commit(reply, answer, codes)), caller.now_ms)
        return reply

    def _check_commit(
        self,
        shard: Shard,
        caller: Caller,
        group_id: str,
        member: tuple[str, str | None, int],
        commits: list[Commit],
    ) -> None:
        member_id, instance_id, generation = member
        group = shard.group(group_id)
        if group is None:
            if generation >= 0:
                is_new = caller.api_version >= MEMBER_EPOCH_VERSION
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION)
        elif isinstance(group, ConsumerGroup):
            version = caller.api_version
            check_consumer_commit(group, member_id, instance_id, generation, commits, api_version=version)
        else:
            check_classic_commit(group, member_id, instance_id, generation, in_transaction=False)
            committer = group.members.get(member_id)
            if committer is not None:
                # Whoever commits is alive.
                shard.rebalancer.extend_session(group, committer, caller.now_ms)

    def commit_transactional_offsets(
        self,
        caller: Caller,
        group_id: str,
        member: tuple[str, str | None, int],
        producer: Producer,
        commits: list[Commit],
        answer: Callable[[list[ErrorCode]], Any],
    ) -> Reply:
        """As `commit_offsets`, held back until the producer's transaction commits."""
        reply = self.new_reply()
        member_id, instance_id, generation = member
        try:
            shard = self._member_shard(group_id)
            group = shard.group(group_id)
            if isinstance(group, ConsumerGroup):
                check_consumer_commit(group, member_id, instance_id, generation, commits, api_version=None)
            elif group is not None:
                check_classic_commit(group, member_id, instance_id, generation, in_transaction=True)
            elif generation >= 0:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        except KafkaError as error:
            reply.give(answer([error.code] * len(commits)))
            return reply
        records, codes = commit_records(group_id, commits, caller.now_ms, self.config().offset_metadata_max_bytes)
        shard.carry_out(Outcome(records, _answer_commit(reply, answer, codes)), caller.now_ms, producer)
        return reply

    def when_committed(self, group_ids: Iterable[str], now_ms: int, answer: Callable[[], Any]) -> Reply:
        """Ask `answer` for the response once all that these groups' shards wrote so far is committed.

        A shard that cannot say so in time is left to `answer`, which finds it missing; so is one that is not here.
        """
        reply = self.new_reply()
        waiting = 1

        def done(code: ErrorCode, now_ms: int) -> None:
            nonlocal waiting
            waiting -= 1
            if not waiting:
                reply.give(answer())

        for partition in {self.partition_of(group_id) for group_id in group_ids}:
            shard = self.shards.get(partition)
            if shard is not None and shard.state is ShardState.ACTIVE:
                waiting += 1
                shard.when_committed(done, now_ms)
        done(ErrorCode.NONE, now_ms)
        return reply

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int, now_ms: int) -> None:
        """Refuse an OffsetFetch that this broker cannot answer, or of a member that is not current.

        Anybody may read a classic group's offsets.
        """
        group = self.shard_of(group_id).consumer_groups.get(group_id)
        if group is not None:
            check_consumer_fetch(group, member_id, member_epoch)

    def fetch_offsets(
        self, group_id: str, topic: str, topic_id: bytes, partitions: Iterable[int], *, require_stable: bool
    ) -> list[FetchedOffset]:
        """What the group committed for some partitions of a topic. Ask inside `when_committed`."""
        shard = self.shard_of(group_id)
        return fetch_offsets(shard.offsets, group_id, topic, topic_id, partitions, require_stable=require_stable)

    def committed_partitions(self, group_id: str) -> dict[str, list[int]]:
        """All partitions that the group committed, by topic. Ask inside `when_committed`."""
        topics = self.shard_of(group_id).offsets.by_group.get(group_id, {})
        return {topic: list(partitions) for topic, partitions in topics.items()}

    def delete_offsets(
        self, caller: Caller, group_id: str, partitions: list[tuple[str, int]], answer: Callable[[list[ErrorCode]], Any]
    ) -> Reply:
        """Drop committed offsets of these partitions. KafkaError stands for the group as a whole."""
        reply = self.new_reply()
        records, codes = self._member_shard(group_id).delete_offsets(group_id, partitions)
        outcome = Outcome(records, _answer_commit(reply, answer, codes))
        self.shard_of(group_id).carry_out(outcome, caller.now_ms)
        return reply

    # Groups as a whole.

    def describe_classic_group(self, group_id: str) -> ClassicGroup:
        """The group for DescribeGroups, which knows classic groups only."""
        return self.shard_of(group_id).described_classic_group(group_id)

    def list_groups(self) -> list[ListedGroup]:
        """All groups of the shards that this broker leads. While one of them loads the list would not be true."""
        listed: list[ListedGroup] = []
        for shard in self.shards.values():
            if shard.state is ShardState.LOADING:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            listed += shard.list_groups()
        return listed

    def delete_groups(
        self, caller: Caller, group_ids: list[str], answer: Callable[[dict[str, ErrorCode]], Any]
    ) -> Reply:
        """Remove groups without members and all that they committed; `answer` gets a code for each."""
        reply = self.new_reply()
        codes: dict[str, ErrorCode] = {}
        waiting = len(group_ids) + 1

        def deleted(group_id: str | None, code: ErrorCode) -> None:
            nonlocal waiting
            if group_id is not None:
                codes[group_id] = coordinator_code(code)
            waiting -= 1
            if not waiting:
                reply.give(answer(codes))

        for group_id in group_ids:
            try:
                shard = self.shard_of(group_id)
                records = shard.delete_group(group_id)
            except KafkaError as error:
                deleted(group_id, error.code)
                continue

            def done(code: ErrorCode, now_ms: int, group_id: str = group_id) -> None:
                deleted(group_id, code)

            shard.carry_out(Outcome(records, done), caller.now_ms)
        deleted(None, ErrorCode.NONE)
        return reply


def _answer_commit(
    reply: Reply, answer: Callable[[list[ErrorCode]], Any], codes: list[ErrorCode]
) -> Callable[[ErrorCode, int], None]:
    """Answer once the records are committed; if they cannot be, that is the error of all that had none so far."""

    def done(code: ErrorCode, now_ms: int) -> None:
        if code:
            failure = coordinator_code(code)
            reply.give(answer([one or failure for one in codes]))
        else:
            reply.give(answer(codes))

    return done
