"""The circle of a classic group: carries out what the table in `states` says about membership.

Every function that can bring a generation about returns an Outcome, because a group that ran empty is written to the
log. Session timeouts: a member that waits on a JoinGroup or SyncGroup cannot send heartbeats and is not expired; its
timer starts anew with the answer. Only a member whose first JoinGroup is waiting has a timer of its own length, so
that clients which gave up and joined again under another id do not pile up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkapy.coordination import NOTHING, Outcome
from kafkapy.errors import ErrorCode
from kafkapy.groups.classic_group import ClassicGroup, ClassicMember
from kafkapy.groups.records import group_metadata_record
from kafkapy.groups.states import Action, Event, GroupState, step
from kafkapy.groups.timers import TimerKey, TimerQueue
from kafkapy.wire.messages.join_group import JoinGroupResponse
from kafkapy.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from kafkapy.groups.interfaces import ClassicConfig

log = logging.getLogger("kafkapy.groups")

# How long a new member's first JoinGroup may wait before it counts as abandoned.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000

# Kinds of timers.
SESSION = "session"
JOIN = "join"
SYNC = "sync"


class Rebalancer:
    """Moves the classic groups of one shard along. `owner` is the shard, the first element of its timers' keys."""

    def __init__(
        self,
        owner: object,
        config: Callable[[], ClassicConfig],
        timers: TimerQueue,
        find_group: Callable[[str], ClassicGroup | None],
        release: Callable[[ClassicGroup], None],
    ) -> None:
        self._owner = owner
        # Asked each time: a configuration is never changed but replaced.
        self.config = config
        self.timers = timers
        self._find_group = find_group
        # Forgets a group that has neither members nor anything in the log.
        self.release = release

    # Timers.

    def session_key(self, group: ClassicGroup, member_id: str) -> TimerKey:
        """The timer that ends a member's session."""
        return (self._owner, SESSION, group.group_id, member_id)

    def extend_session(self, group: ClassicGroup, member: ClassicMember, now_ms: int) -> None:
        """The member is alive: its session lasts another timeout from now."""
        key = (self._owner, SESSION, group.group_id, member.member_id)
        self.timers.schedule(key, now_ms + member.session_timeout_ms)

    def fired(self, key: TimerKey, now_ms: int) -> Outcome:
        """One of these timers came due."""
        _, kind, group_id, member_id = key
        group = self._find_group(group_id)
        if group is None:
            return NOTHING
        if kind == SESSION:
            return self._session_ended(group, member_id, now_ms)
        if kind == JOIN:
            return self._join_time_is_up(group, now_ms)
        return self._sync_time_is_up(group, now_ms)

    def _schedule(self, kind: str, group: ClassicGroup, deadline_ms: int) -> None:
        self.timers.schedule((self._owner, kind, group.group_id, None), deadline_ms)

    def _cancel(self, kind: str, group: ClassicGroup) -> None:
        self.timers.cancel((self._owner, kind, group.group_id, None))

    def _session_ended(self, group: ClassicGroup, member_id: str, now_ms: int) -> Outcome:
        if member_id in group.pending_members:
            log.info("Group %s: the member id %s was never used", group.group_id, member_id)
            return self.remove_pending(group, member_id, now_ms)
        member = group.members.get(member_id)
        if member is None:
            return NOTHING
        # Who waits for an answer cannot send heartbeats. A new member may: its timer is about the waiting itself.
        if not member.is_new and (member.join_reply is not None or member.sync_reply is not None):
            self.extend_session(group, member, now_ms)
            return NOTHING
        log.info("Group %s: the session of %s ended", group.group_id, member_id)
        self.remove_member(group, member)
        return self.happened(group, Event.MEMBER_GONE, now_ms, f"the session of {member_id} ended")

    # Leaving.

    def remove_member(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Drop a member, whose waiting requests are told to join anew. The caller must raise the event that follows."""
        self.answer_join(group, member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        self.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)
        self.timers.cancel(self.session_key(group, member.member_id))

    def remove_pending(self, group: ClassicGroup, member_id: str, now_ms: int) -> Outcome:
        """Drop a member id that was given out and not used."""
        self.forget_id(group, member_id)
        return self.pending_gone(group, now_ms, f"{member_id} did not join")

    def forget_id(self, group: ClassicGroup, member_id: str) -> None:
        """Drop a member id that was given out; `pending_gone` must follow."""
        group.remove(member_id)
        self.timers.cancel(self.session_key(group, member_id))

    def pending_gone(self, group: ClassicGroup, now_ms: int, reason: str) -> Outcome:
        """The join phase may have waited for ids that will not be used, and the group may have consisted of them."""
        outcome = self.happened(group, Event.PENDING_GONE, now_ms, reason)
        self.release(group)
        return outcome

    # Answers.

    @staticmethod
    def answer_join(group: ClassicGroup, member: ClassicMember, response: JoinGroupResponse) -> None:
        """Answer the JoinGroup that the member waits on, if there is one."""
        reply = member.join_reply
        if reply is not None:
            group.await_join(member, None)
            reply.give(response)

    @staticmethod
    def answer_sync(member: ClassicMember, response: SyncGroupResponse) -> None:
        """Answer the SyncGroup that the member waits on, if there is one."""
        reply = member.sync_reply
        if reply is not None:
            member.sync_reply = None
            reply.give(response)

    @staticmethod
    def generation_answer(group: ClassicGroup, member: ClassicMember) -> JoinGroupResponse:
        """What JoinGroup answers in the current generation: everything for the leader, little for the others."""
        is_leader = group.leader_id == member.member_id
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader_id or "",
            member_id=member.member_id,
            members=group.members_for_leader() if is_leader else [],
        )

    # The circle.

    def happened(self, group: ClassicGroup, event: Event, now_ms: int, reason: str) -> Outcome:
        """Carry out an event about the membership."""
        action, next_state = step(group.state, event)
        if action is Action.NOTHING:
            return NOTHING
        if action is Action.FINISH_JOIN_IF_ALL_THERE:
            return self._finish_join_if_all_there(group, now_ms)
        if action is Action.RESTART_REBALANCE:
            self.refuse_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
        elif action is Action.START_FIRST_REBALANCE:
            return self._start_first_rebalance(group, next_state, now_ms, reason)
        else:
            assert action in (Action.START_REBALANCE, Action.EVICT_UNSYNCED, Action.FAIL_ASSIGNMENT), action
        return self._start_rebalance(group, next_state, now_ms, reason)

    def refuse_syncs(self, group: ClassicGroup, code: ErrorCode, now_ms: int) -> None:
        """Send everybody who waits for the assignment away; this generation will have none."""
        for member in group.members.values():
            if member.sync_reply is not None:
                self.answer_sync(member, SyncGroupResponse(error_code=code))
                self.extend_session(group, member, now_ms)

    def _start_first_rebalance(self, group: ClassicGroup, state: GroupState, now_ms: int, reason: str) -> Outcome:
        """The group was empty: give others the time to join too before the first generation."""
        delay_ms = self.config().group_initial_rebalance_delay_ms
        self._enter_join_phase(group, state, now_ms, reason)
        group.is_first_rebalance = True
        group.new_member_added = False
        group.initial_delay_ms = delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        if delay_ms <= 0:
            return self._end_join_phase(group, now_ms)
        self._schedule(JOIN, group, now_ms + delay_ms)
        return NOTHING

    def _start_rebalance(self, group: ClassicGroup, state: GroupState, now_ms: int, reason: str) -> Outcome:
        self._enter_join_phase(group, state, now_ms, reason)
        if group.all_joined:
            return self._end_join_phase(group, now_ms)
        self._schedule(JOIN, group, now_ms + group.rebalance_timeout_ms)
        return NOTHING

    def _enter_join_phase(self, group: ClassicGroup, state: GroupState, now_ms: int, reason: str) -> None:
        group.pending_sync.clear()
        self._cancel(SYNC, group)
        group.move_to(state, now_ms)
        log.info("Group %s: rebalance after generation %d: %s", group.group_id, group.generation, reason)

    def _finish_join_if_all_there(self, group: ClassicGroup, now_ms: int) -> Outcome:
        # The first rebalance lasts its whole delay: nobody knows yet who "all" are.
        if group.is_first_rebalance or not group.all_joined:
            return NOTHING
        return self._end_join_phase(group, now_ms)

    def _join_time_is_up(self, group: ClassicGroup, now_ms: int) -> Outcome:
        if group.state is not GroupState.PREPARING_REBALANCE:
            return NOTHING
        if group.is_first_rebalance and group.new_member_added and group.initial_remaining_ms > 0:
            # Somebody came during the delay, so others may be on their way: wait once more, within the rebalance
            # timeout.
            group.new_member_added = False
            delay_ms = min(self.config().group_initial_rebalance_delay_ms, group.initial_remaining_ms)
            group.initial_remaining_ms = max(group.initial_remaining_ms - group.initial_delay_ms, 0)
            group.initial_delay_ms = delay_ms
            self._schedule(JOIN, group, now_ms + delay_ms)
            return NOTHING
        return self._end_join_phase(group, now_ms)

    def _end_join_phase(self, group: ClassicGroup, now_ms: int) -> Outcome:
        """Drop who did not come, and begin the next generation with the others.

        Static members stay even if they did not come: they are expected back within their session timeout.
        """
        self._cancel(JOIN, group)
        for member in list(group.members.values()):
            if member.join_reply is None and member.instance_id is None:
                log.info("Group %s: %s did not join in time", group.group_id, member.member_id)
                group.remove(member.member_id)
                self.timers.cancel(self.session_key(group, member.member_id))
        if not group.members:
            return self._store_empty(group, now_ms)
        if not group.elect_joined_leader():
            # Only static members that are away: their sessions end, or one of them comes back.
            group.is_first_rebalance = False
            self._schedule(JOIN, group, now_ms + group.rebalance_timeout_ms)
            return NOTHING
        self._begin_generation(group, now_ms)
        return NOTHING

    def _store_empty(self, group: ClassicGroup, now_ms: int) -> Outcome:
        _, next_state = step(group.state, Event.NOBODY_JOINED)
        group.is_first_rebalance = False
        group.generation += 1
        group.choose_protocol()
        group.move_to(next_state, now_ms)
        log.info("Group %s: empty in generation %d", group.group_id, group.generation)

        def stored(code: ErrorCode, now_ms: int) -> None:
            # The members of the generation before would come back at a failover, and their sessions would end.
            if code:
                log.warning("Group %s: could not store that it is empty: %s", group.group_id, code.name)

        return Outcome([group_metadata_record(group, {})], stored)

    def _begin_generation(self, group: ClassicGroup, now_ms: int) -> None:
        _, next_state = step(group.state, Event.JOINED)
        group.is_first_rebalance = False
        group.generation += 1
        group.choose_protocol()
        group.move_to(next_state, now_ms)
        log.info("Group %s: generation %d has %d members", group.group_id, group.generation, len(group.members))
        for member in group.members.values():
            self.answer_join(group, member, self.generation_answer(group, member))
            self.extend_session(group, member, now_ms)
            member.is_new = False
            group.pending_sync[member.member_id] = None
        self._schedule(SYNC, group, now_ms + group.rebalance_timeout_ms)

    # The sync phase.

    def synced(self, group: ClassicGroup, member: ClassicMember) -> None:
        """The member sent SyncGroup in this generation."""
        group.pending_sync.pop(member.member_id, None)
        if not group.pending_sync:
            self._cancel(SYNC, group)

    def _sync_time_is_up(self, group: ClassicGroup, now_ms: int) -> Outcome:
        if not group.pending_sync or step(group.state, Event.SYNC_TIMEOUT).action is Action.NOTHING:
            return NOTHING
        missing = list(group.pending_sync)
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.refuse_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
        for member_id in missing:
            member = group.members.get(member_id)
            if member is not None:
                self.remove_member(group, member)
        return self.happened(group, Event.SYNC_TIMEOUT, now_ms, f"no SyncGroup from {', '.join(missing)}")
