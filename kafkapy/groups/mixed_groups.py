"""Members of the classic protocol inside a consumer group, during a migration.

They speak JoinGroup, SyncGroup, Heartbeat and LeaveGroup, and are answered as if the group were classic, but the
broker assigns: their generation is their member epoch, none of them leads, and nobody waits for the others. A
heartbeat tells them to join again when there is something to give up or to get; SyncGroup hands out what they own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkapy.coordination import NOTHING, Caller, Outcome, Reply, coordinator_code
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.groups.classic import (
    MANY_LEAVERS_VERSION,
    MEMBER_ID_REQUIRED_VERSION,
    join_error,
    leave_response,
    leave_result,
    rebalance_timeout_ms,
)
from kafkapy.groups.classic_group import CONSUMER_PROTOCOL_TYPE, protocols_of
from kafkapy.groups.consumer_changes import advance
from kafkapy.groups.consumer_group import (
    JOINING,
    ClassicInfo,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
)
from kafkapy.groups.consumer_protocol import MEMBER_JOIN, MEMBER_SESSION, MEMBER_SYNC, ConsumerProtocol
from kafkapy.groups.migration import read_subscription, write_assignment
from kafkapy.groups.reconciliation import Reported
from kafkapy.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkapy.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkapy.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kafkapy.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkapy.wire.protocol_data import ConsumerProtocolSubscription

if TYPE_CHECKING:
    from kafkapy.groups.interfaces import ConsumerConfig, ConsumerStore


class MixedGroups:
    """The classic requests, for members of the consumer groups of one shard."""

    def __init__(
        self,
        store: ConsumerStore,
        config: Callable[[], ConsumerConfig],
        protocol: ConsumerProtocol,
        new_id: Callable[[], str],
    ) -> None:
        self._store = store
        self._config = config
        self._protocol = protocol
        self._new_id = new_id

    # JoinGroup.

    def join(self, group: ConsumerGroup, caller: Caller, request: JoinGroupRequest, reply: Reply) -> Outcome:
        """Take part with a subscription; the answer does not wait for anybody but the log."""
        try:
            return self._join(group, caller, request, reply)
        except KafkaError as error:
            reply.give(join_error(caller, request.member_id, error.code))
            return NOTHING

    def _join(self, group: ConsumerGroup, caller: Caller, request: JoinGroupRequest, reply: Reply) -> Outcome:
        is_newcomer = not request.member_id
        member_id = request.member_id or self._new_id()
        if member_id not in group.members and len(group.members) >= self._config().group_consumer_max_size:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        protocols = protocols_of(request.protocols)
        self._check_protocols(group, member_id, request.protocol_type, protocols)
        instance_id = request.group_instance_id
        if is_newcomer and instance_id is None and caller.api_version >= MEMBER_ID_REQUIRED_VERSION:
            reply.give(join_error(caller, member_id, ErrorCode.MEMBER_ID_REQUIRED))
            return NOTHING
        old, replaced = self._find(group, member_id, instance_id, is_newcomer)
        subscription = read_subscription(next(iter(protocols.values())), ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        timeout_ms = rebalance_timeout_ms(caller, request)
        new = (old or ConsumerMember(member_id))._replace(
            instance_id=instance_id,
            rack_id=subscription.rack_id,
            client_id=caller.client_id,
            client_host=caller.client_host,
            rebalance_timeout_ms=timeout_ms,
            topics=tuple(sorted(set(subscription.topics))),
            regex="",
            classic=ClassicInfo(request.session_timeout_ms, tuple(protocols.items())),
        )
        around = self._store.surroundings(group.group_id, caller.now_ms)
        records, moved = advance(group, old, new, self._reported(subscription, caller), around, replaced)
        response = JoinGroupResponse(
            generation_id=moved.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=next(iter(protocols)),
            member_id=member_id,
        )

        # Set now and not when the answer leaves: whatever becomes of the answer, a member in the log must be looked
        # after.
        self._protocol.cancel(MEMBER_JOIN, group.group_id, member_id)
        self._extend_session(group, moved, caller.now_ms)
        self._protocol.schedule(MEMBER_SYNC, group.group_id, member_id, caller.now_ms + timeout_ms)

        def done(code: ErrorCode, now_ms: int) -> Outcome | None:
            if code:
                group.catalog_version = -1
                reply.give(join_error(caller, member_id, coordinator_code(code)))
                return None
            self._extend_session(group, moved, now_ms)
            reply.give(response)
            # A static member that goes back to the classic protocol may have been the last of the new one.
            is_last = replaced is not None and replaced.classic is None
            return self._store.downgrade(group, [], now_ms) if is_last else None

        return Outcome(records, done)

    def _check_protocols(
        self, group: ConsumerGroup, member_id: str, protocol_type: str, protocols: dict[str, bytes]
    ) -> None:
        """The classic members must have a protocol in common, in case they stay among themselves."""
        common = set(protocols)
        for member in group.members.values():
            if member.classic is not None and member.member_id != member_id:
                common &= {name for name, _ in member.classic.protocols}
        if protocol_type != CONSUMER_PROTOCOL_TYPE or not common:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _find(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, is_newcomer: bool
    ) -> tuple[ConsumerMember | None, ConsumerMember | None]:
        """The member so far, and the static member that it replaces."""
        if instance_id is None:
            return group.members.get(member_id), None
        if not is_newcomer:
            return self._member(group, member_id, instance_id, must_be_classic=False), None
        owner = group.static_member(instance_id)
        if owner is None:
            return None, None
        return owner._replace(member_id=member_id, epoch=JOINING, previous_epoch=JOINING), owner

    def _reported(self, subscription: ConsumerProtocolSubscription, caller: Caller) -> Reported:
        """What the member says that it still owns. An eager member owns nothing when it joins, and says nothing."""
        topics = self._store.surroundings("", caller.now_ms).catalog.topics
        return {
            topics[one.topic].topic_id: frozenset(one.partitions)
            for one in subscription.owned_partitions
            if one.topic in topics
        }

    # SyncGroup.

    def sync(self, group: ConsumerGroup, caller: Caller, request: SyncGroupRequest, reply: Reply) -> Outcome:
        """Hand out what the member owns. Nobody leads here, so what a leader assigns is not looked at."""
        try:
            member = self._member(group, request.member_id, request.group_instance_id)
            assert member.classic is not None
            if request.generation_id != member.epoch:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
            name, metadata = member.classic.protocols[0]
            if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, name):
                raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
                self._expect_join(group, member, caller.now_ms)
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        except KafkaError as error:
            reply.give(SyncGroupResponse(error_code=error.code))
            return NOTHING
        catalog = self._store.surroundings(group.group_id, caller.now_ms).catalog
        response = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(member.assigned, metadata, catalog),
        )

        def done(code: ErrorCode, now_ms: int) -> None:
            if code:
                reply.give(SyncGroupResponse(error_code=coordinator_code(code)))
                return
            self._protocol.cancel(MEMBER_SYNC, group.group_id, member.member_id)
            self._extend_session(group, member, now_ms)
            reply.give(response)

        return Outcome((), done)

    # Heartbeat.

    def heartbeat(self, group: ConsumerGroup, caller: Caller, request: HeartbeatRequest) -> HeartbeatResponse:
        """Alive; the answer says whether there is something to give up or to get."""
        try:
            member = self._member(group, request.member_id, request.group_instance_id)
            if request.generation_id != member.epoch:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        except KafkaError as error:
            return HeartbeatResponse(error_code=error.code)
        self._extend_session(group, member, caller.now_ms)
        if not self._must_join(group, member):
            return HeartbeatResponse()
        self._expect_join(group, member, caller.now_ms)
        return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)

    @staticmethod
    def _must_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
        if member.epoch < group.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
            return True
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        # What it waits for has been released by all others.
        return all(
            group.owners.get((topic_id, partition), member.member_id) == member.member_id
            for topic_id, partitions in group.target.get(member.member_id, {}).items()
            for partition in partitions
        )

    # LeaveGroup.

    def leave(self, group: ConsumerGroup, caller: Caller, request: LeaveGroupRequest, reply: Reply) -> Outcome:
        """Members leave, or a tool removes them, whichever protocol they speak."""
        if caller.api_version < MANY_LEAVERS_VERSION:
            leavers = [MemberIdentity(member_id=request.member_id)]
        else:
            leavers = request.members
        results = []
        leaving: list[str] = []
        for leaver in leavers:
            code = ErrorCode.NONE
            try:
                member_id = leaver.member_id
                if not member_id and leaver.group_instance_id is not None:
                    member_id = group.static_members.get(leaver.group_instance_id, "")
                member = self._member(group, member_id, leaver.group_instance_id, must_be_classic=False)
                if member.member_id not in leaving:
                    leaving.append(member.member_id)
            except KafkaError as error:
                code = error.code
            results.append(leave_result(leaver, code))
        response = leave_response(caller, results)
        if not leaving:
            reply.give(response)
            return NOTHING
        outcome = self._protocol.put_out(group, leaving, caller.now_ms)

        def done(code: ErrorCode, now_ms: int) -> Outcome | None:
            reply.give(LeaveGroupResponse(error_code=coordinator_code(code)) if code else response)
            return outcome.done(code, now_ms) if outcome.done is not None else None

        return Outcome(outcome.records, done)

    # Shared.

    @staticmethod
    def _member(
        group: ConsumerGroup, member_id: str, instance_id: str | None, *, must_be_classic: bool = True
    ) -> ConsumerMember:
        if instance_id is not None:
            owner = group.static_member(instance_id)
            if owner is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if owner.member_id != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = group.members.get(member_id)
        if member is None or (must_be_classic and member.classic is None):
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def _extend_session(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        session_ms = self._protocol.session_timeout_ms(group.group_id, member)
        self._protocol.schedule(MEMBER_SESSION, group.group_id, member.member_id, now_ms + session_ms)

    def _expect_join(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """The member was told to join again; it has its rebalance timeout for that."""
        if not self._protocol.is_scheduled(MEMBER_JOIN, group.group_id, member.member_id):
            deadline_ms = now_ms + member.rebalance_timeout_ms
            self._protocol.schedule(MEMBER_JOIN, group.group_id, member.member_id, deadline_ms)
