"""The four requests of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Each function checks that the request comes from whom it says, makes an event of it, looks the event up in the table
(`states`) and leaves what follows to the Rebalancer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkapy.coordination import NOTHING, Caller, Outcome, Reply, coordinator_code
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.groups.classic_group import ClassicGroup, ClassicMember, protocols_of
from kafkapy.groups.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, Rebalancer
from kafkapy.groups.records import group_metadata_record
from kafkapy.groups.states import Action, Event, GroupState, step
from kafkapy.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkapy.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkapy.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from kafkapy.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from kafkapy.groups.interfaces import ClassicConfig, GroupStore

# First versions that understand something.
MEMBER_ID_REQUIRED_VERSION = 4  # of JoinGroup: a new member is told its id first
NULL_PROTOCOL_NAME_VERSION = 7  # of JoinGroup
SKIP_ASSIGNMENT_VERSION = 9  # of JoinGroup
NAMED_PROTOCOL_VERSION = 5  # of SyncGroup
MANY_LEAVERS_VERSION = 3  # of LeaveGroup

# The error that stands for each refusal of the table.
_REFUSALS = {
    Action.REFUSE_DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    Action.REFUSE_UNKNOWN_MEMBER: ErrorCode.UNKNOWN_MEMBER_ID,
    Action.REFUSE_REBALANCING: ErrorCode.REBALANCE_IN_PROGRESS,
    Action.REFUSE_NOT_EMPTY: ErrorCode.NON_EMPTY_GROUP,
    Action.REFUSE_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
}


def check_allowed(group: ClassicGroup, event: Event) -> Action:
    """What the table says about a request, unless it refuses it."""
    action = step(group.state, event).action
    code = _REFUSALS.get(action)
    if code is not None:
        raise KafkaError(code)
    return action


class ClassicProtocol:
    """The classic protocol for the groups of one shard."""

    def __init__(self, store: GroupStore, rebalancer: Rebalancer, new_id: Callable[[], str]) -> None:
        self._store = store
        self._rebalancer = rebalancer
        self._config = rebalancer.config
        self._new_id = new_id

    # JoinGroup.

    def join(self, caller: Caller, request: JoinGroupRequest, reply: Reply) -> Outcome:
        """Become a member, or say that one still is."""
        try:
            return self._join(caller, request, reply)
        except KafkaError as error:
            reply.give(join_error(caller, request.member_id, error.code))
            return NOTHING

    def _join(self, caller: Caller, request: JoinGroupRequest, reply: Reply) -> Outcome:
        member_id = request.member_id
        group = self._store.classic_group(request.group_id)
        if group is None:
            if member_id:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            group = self._store.create_classic_group(request.group_id, caller.now_ms)
        protocols = protocols_of(request.protocols)
        try:
            if not self._has_room(group, member_id):
                return self._turn_away(group, member_id, caller, reply)
            if not group.supports(request.protocol_type, protocols):
                raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            if not member_id:
                return self._join_newcomer(group, caller, request, protocols, reply)
            if member_id in group.pending_members and request.group_instance_id is None:
                return self._add(group, member_id, caller, request, protocols, reply)
            member = group.check_member(member_id, request.group_instance_id)
            return self._join_again(group, member, caller, request, protocols, reply)
        except KafkaError:
            self._rebalancer.release(group)
            raise

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether group.max.size lets this one in.

        During the join phase those count who joined already: so a group that is too large, because the limit was
        lowered, loses the last to come.
        """
        size_max = self._config().group_max_size
        if group.state is GroupState.PREPARING_REBALANCE:
            member = group.members.get(member_id)
            return (member is not None and member.join_reply is not None) or group.awaiting_join < size_max
        return group.state is GroupState.EMPTY or member_id in group.members or len(group.members) < size_max

    def _turn_away(self, group: ClassicGroup, member_id: str, caller: Caller, reply: Reply) -> Outcome:
        """The group is full: whoever asked is no member any longer, if it was one."""
        rebalancer = self._rebalancer
        reply.give(join_error(caller, "", ErrorCode.GROUP_MAX_SIZE_REACHED))
        member = group.members.get(member_id)
        if member is not None:
            rebalancer.remove_member(group, member)
            return rebalancer.happened(group, Event.MEMBER_GONE, caller.now_ms, f"no room for {member_id}")
        rebalancer.forget_id(group, member_id)
        return rebalancer.pending_gone(group, caller.now_ms, f"no room for {member_id}")

    def _join_newcomer(
        self,
        group: ClassicGroup,
        caller: Caller,
        request: JoinGroupRequest,
        protocols: dict[str, bytes],
        reply: Reply,
    ) -> Outcome:
        instance_id = request.group_instance_id
        if instance_id is None:
            member_id = f"{caller.client_id}-{self._new_id()}"
            if caller.api_version >= MEMBER_ID_REQUIRED_VERSION:
                group.pending_members[member_id] = None
                key = self._rebalancer.session_key(group, member_id)
                self._rebalancer.timers.schedule(key, caller.now_ms + request.session_timeout_ms)
                reply.give(join_error(caller, member_id, ErrorCode.MEMBER_ID_REQUIRED))
                return NOTHING
            return self._add(group, member_id, caller, request, protocols, reply)
        member_id = f"{instance_id}-{self._new_id()}"
        old_id = group.static_members.get(instance_id)
        if old_id is None:
            return self._add(group, member_id, caller, request, protocols, reply)
        return self._replace_static(group, group.members[old_id], member_id, caller, request, protocols, reply)

    def _add(
        self,
        group: ClassicGroup,
        member_id: str,
        caller: Caller,
        request: JoinGroupRequest,
        protocols: dict[str, bytes],
        reply: Reply,
    ) -> Outcome:
        check_allowed(group, Event.MEMBER_ADDED)
        if not group.members:
            group.protocol_type = request.protocol_type
        member = ClassicMember(
            member_id,
            request.group_instance_id,
            caller.client_id,
            caller.client_host,
            rebalance_timeout_ms(caller, request),
            request.session_timeout_ms,
            protocols,
        )
        member.is_new = True
        group.new_member_added = group.is_first_rebalance
        group.add(member, reply)
        key = self._rebalancer.session_key(group, member_id)
        self._rebalancer.timers.schedule(key, caller.now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
        reason = f"{member_id} joined ({request.reason or 'no reason given'})"
        return self._rebalancer.happened(group, Event.MEMBER_ADDED, caller.now_ms, reason)

    def _join_again(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        caller: Caller,
        request: JoinGroupRequest,
        protocols: dict[str, bytes],
        reply: Reply,
    ) -> Outcome:
        if not member.matches(protocols):
            event = Event.MEMBER_CHANGED
        elif group.leader_id == member.member_id:
            event = Event.LEADER_REJOINED
        else:
            event = Event.JOIN_REPEATED
        if check_allowed(group, event) is Action.ANSWER_GENERATION:
            reply.give(self._rebalancer.generation_answer(group, member))
            return NOTHING
        self._update(group, member, caller, request, protocols, reply)
        reason = f"{member.member_id} joined again ({request.reason or 'no reason given'})"
        return self._rebalancer.happened(group, event, caller.now_ms, reason)

    def _update(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        caller: Caller,
        request: JoinGroupRequest,
        protocols: dict[str, bytes],
        reply: Reply,
    ) -> None:
        earlier = member.join_reply
        group.update(member, protocols, rebalance_timeout_ms(caller, request), request.session_timeout_ms)
        group.await_join(member, reply)
        if earlier is not None:
            # The client sent the request again, over another connection: nobody reads the first answer any more, but
            # its place in that connection must not stay open.
            earlier.give(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=member.member_id))

    def _replace_static(
        self,
        group: ClassicGroup,
        old: ClassicMember,
        new_id: str,
        caller: Caller,
        request: JoinGroupRequest,
        protocols: dict[str, bytes],
        reply: Reply,
    ) -> Outcome:
        """A static member came back without its id: its successor takes everything over, and the old id is fenced."""
        rebalancer = self._rebalancer
        old_leader = group.leader_id or ""
        fenced = JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID, member_id=old.member_id)
        rebalancer.answer_join(group, old, fenced)
        rebalancer.answer_sync(old, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        rebalancer.timers.cancel(rebalancer.session_key(group, old.member_id))
        new = group.rename(old, new_id)
        self._update(group, new, caller, request, protocols, reply)
        rebalancer.extend_session(group, new, caller.now_ms)
        # Only in STABLE does the protocol matter, and only there do all members have one in common for certain.
        keeps_protocol = group.state is not GroupState.STABLE or group.select_protocol() == group.protocol_name
        event = Event.STATIC_REPLACED if keeps_protocol else Event.STATIC_CHANGED
        if check_allowed(group, event) is not Action.STORE_MEMBERS:
            return rebalancer.happened(group, event, caller.now_ms, f"{new_id} replaced {old.member_id}")

        def stored(code: ErrorCode, now_ms: int) -> None:
            if new.join_reply is not reply:
                return
            if code:
                self._undo_replacement(group, new, old, now_ms)
                answer = join_error(caller, "", coordinator_code(code))
            elif caller.api_version >= SKIP_ASSIGNMENT_VERSION:
                answer = rebalancer.generation_answer(group, new)
                answer.skip_assignment = group.leader_id == new_id
            else:
                # An older leader would take a list of members as the order to assign, so it is told its old id leads.
                answer = rebalancer.generation_answer(group, new)
                answer.leader = old_leader
                answer.members = []
            group.await_join(new, None)
            reply.give(answer)
            if not code:
                rebalancer.extend_session(group, new, now_ms)

        assignments = {member.member_id: member.assignment for member in group.members.values()}
        return Outcome([group_metadata_record(group, assignments)], stored)

    def _undo_replacement(self, group: ClassicGroup, new: ClassicMember, old: ClassicMember, now_ms: int) -> None:
        """The log did not take the new member id, so after a failover only the old one would be known."""
        if group.members.get(new.member_id) is not new:
            return
        group.await_join(new, None)
        group.update(new, old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms)
        self._rebalancer.timers.cancel(self._rebalancer.session_key(group, new.member_id))
        restored = group.rename(new, old.member_id)
        self._rebalancer.extend_session(group, restored, now_ms)

    # SyncGroup.

    def sync(self, caller: Caller, request: SyncGroupRequest, reply: Reply) -> Outcome:
        """Hand in the assignment, or fetch one's share of it."""
        try:
            return self._sync(caller, request, reply)
        except KafkaError as error:
            reply.give(SyncGroupResponse(error_code=error.code))
            return NOTHING

    def _sync(self, caller: Caller, request: SyncGroupRequest, reply: Reply) -> Outcome:
        group = self._store.classic_group(request.group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol_name, group.protocol_name):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        is_leader = group.leader_id == member.member_id
        action = check_allowed(group, Event.LEADER_SYNCED if is_leader else Event.FOLLOWER_SYNCED)
        self._rebalancer.synced(group, member)
        if action is Action.ANSWER_ASSIGNMENT:
            reply.give(_assignment_answer(group, member))
            return NOTHING
        if member.sync_reply is not None:
            self._rebalancer.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_reply = reply
        if action is Action.WAIT_FOR_ASSIGNMENT:
            return NOTHING
        return self._store_assignment(group, request)

    def _store_assignment(self, group: ClassicGroup, request: SyncGroupRequest) -> Outcome:
        assignments = {one.member_id: bytes(one.assignment) for one in request.assignments}
        generation = group.generation

        def stored(code: ErrorCode, now_ms: int) -> Outcome | None:
            if group.generation != generation:
                return None
            event = Event.ASSIGNMENT_LOST if code else Event.ASSIGNMENT_STORED
            action, next_state = step(group.state, event)
            if action is Action.HAND_OUT_ASSIGNMENT:
                self._hand_out(group, assignments, now_ms)
                group.move_to(next_state, now_ms)
            elif action is Action.FAIL_ASSIGNMENT:
                self._rebalancer.refuse_syncs(group, coordinator_code(code), now_ms)
                return self._rebalancer.happened(group, event, now_ms, f"the assignment was not stored: {code.name}")
            return None

        return Outcome([group_metadata_record(group, assignments)], stored)

    def _hand_out(self, group: ClassicGroup, assignments: dict[str, bytes], now_ms: int) -> None:
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if member.sync_reply is not None:
                self._rebalancer.answer_sync(member, _assignment_answer(group, member))
                self._rebalancer.extend_session(group, member, now_ms)

    # Heartbeat.

    def heartbeat(self, caller: Caller, request: HeartbeatRequest) -> HeartbeatResponse:
        """Extend the session; the answer says whether the member must join again."""
        try:
            group = self._store.classic_group(request.group_id)
            if group is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            member = group.check_member(request.member_id, request.group_instance_id)
            if request.generation_id != group.generation:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
            # A member that is told to join again is alive all the same.
            self._rebalancer.extend_session(group, member, caller.now_ms)
            check_allowed(group, Event.HEARTBEAT)
        except KafkaError as error:
            return HeartbeatResponse(error_code=error.code)
        return HeartbeatResponse()

    # LeaveGroup.

    def leave(self, caller: Caller, request: LeaveGroupRequest, reply: Reply) -> Outcome:
        """Give up one's membership, or somebody else's: tools remove static members by their instance id."""
        if caller.api_version < MANY_LEAVERS_VERSION:
            leavers = [MemberIdentity(member_id=request.member_id)]
        else:
            leavers = request.members
        group = self._store.classic_group(request.group_id)
        results: list[MemberResponse] = []
        events: set[Event] = set()
        for leaver in leavers:
            code = self._remove_leaver(group, leaver, events) if group is not None else ErrorCode.UNKNOWN_MEMBER_ID
            results.append(leave_result(leaver, code))
        response = leave_response(caller, results)
        outcome = NOTHING
        if group is not None and events:
            reason = f"{', '.join(leaver.member_id or leaver.group_instance_id or '?' for leaver in leavers)} left"
            if Event.MEMBER_GONE in events:
                outcome = self._rebalancer.happened(group, Event.MEMBER_GONE, caller.now_ms, reason)
            else:
                outcome = self._rebalancer.pending_gone(group, caller.now_ms, reason)
        if not outcome.records:
            reply.give(response)
            return outcome
        inner = outcome.done

        def stored(code: ErrorCode, now_ms: int) -> Outcome | None:
            reply.give(LeaveGroupResponse(error_code=coordinator_code(code)) if code else response)
            return inner(code, now_ms) if inner is not None else None

        return Outcome(outcome.records, stored)

    def _remove_leaver(self, group: ClassicGroup, leaver: MemberIdentity, events: set[Event]) -> ErrorCode:
        """Drop one, and add the event that follows: only real members make a rebalance by leaving."""
        member_id = leaver.member_id
        if not member_id:
            if leaver.group_instance_id is None or leaver.group_instance_id not in group.static_members:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = group.static_members[leaver.group_instance_id]
        elif member_id in group.pending_members:
            self._rebalancer.forget_id(group, member_id)
            events.add(Event.PENDING_GONE)
            return ErrorCode.NONE
        else:
            try:
                group.check_member(member_id, leaver.group_instance_id)
            except KafkaError as error:
                return error.code
        self._rebalancer.remove_member(group, group.members[member_id])
        events.add(Event.MEMBER_GONE)
        return ErrorCode.NONE


def join_error(caller: Caller, member_id: str, code: ErrorCode) -> JoinGroupResponse:
    """A refusal; older versions cannot say null where no protocol was chosen."""
    name = None if caller.api_version >= NULL_PROTOCOL_NAME_VERSION else ""
    return JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=name)


def check_session_timeout(config: ClassicConfig, timeout_ms: int) -> None:
    """Refuse a session that is too short for the network or too long for the group."""
    if not config.group_min_session_timeout_ms <= timeout_ms <= config.group_max_session_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)


def check_named_protocol(caller: Caller, request: SyncGroupRequest) -> None:
    """Newer versions must say which protocol they believe in."""
    is_named = request.protocol_type is not None and request.protocol_name is not None
    if caller.api_version >= NAMED_PROTOCOL_VERSION and not is_named:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def rebalance_timeout_ms(caller: Caller, request: JoinGroupRequest) -> int:
    """Version 0 has no such field: there the session timeout counts for both."""
    return request.rebalance_timeout_ms if caller.api_version > 0 else request.session_timeout_ms


def _assignment_answer(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )


def _differ(claimed: str | None, actual: str | None) -> bool:
    return claimed is not None and actual is not None and claimed != actual


def leave_result(leaver: MemberIdentity, code: ErrorCode) -> MemberResponse:
    """How it went for one of the leavers."""
    return MemberResponse(member_id=leaver.member_id, group_instance_id=leaver.group_instance_id, error_code=code)


def leave_response(caller: Caller, results: list[MemberResponse]) -> LeaveGroupResponse:
    """Up to version 2 there is one leaver, and its error is the answer's."""
    if caller.api_version < MANY_LEAVERS_VERSION:
        return LeaveGroupResponse(error_code=results[0].error_code)
    return LeaveGroupResponse(members=results)
