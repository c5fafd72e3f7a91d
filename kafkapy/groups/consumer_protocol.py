"""ConsumerGroupHeartbeat: the one request with which a member of a consumer group joins, stays, moves on and leaves.

A heartbeat is decided against the group as the log has it, and answered when the records that it caused are committed.
Timers: every member has a session; one that must give partitions up has its rebalance timeout to do so. Who misses
either is put out of the group, and its partitions are free.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkapy.coordination import NOTHING, Caller, Outcome, Record, Reply, coordinator_code
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.groups.assignors import ASSIGNORS
from kafkapy.groups.consumer_changes import Surroundings, advance, depart
from kafkapy.groups.consumer_group import (
    JOINING,
    LEFT,
    LEFT_FOR_A_WHILE,
    NO_PARTITIONS,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Owned,
)
from kafkapy.groups.consumer_records import current_record
from kafkapy.groups.reconciliation import Reported
from kafkapy.groups.timers import TimerKey, TimerQueue
from kafkapy.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from kafkapy.groups.interfaces import ConsumerConfig, ConsumerStore

log = logging.getLogger("kafkapy.groups")

# Kinds of timers.
MEMBER_SESSION = "member-session"
MEMBER_REVOCATION = "member-revocation"
MEMBER_JOIN = "member-join"
MEMBER_SYNC = "member-sync"
MEMBER_TIMERS = (MEMBER_SESSION, MEMBER_REVOCATION, MEMBER_JOIN, MEMBER_SYNC)

_WHY_FENCED = {
    MEMBER_SESSION: "its session ended",
    MEMBER_REVOCATION: "it did not give its partitions up in time",
    MEMBER_JOIN: "it did not join in time",
    MEMBER_SYNC: "it did not sync in time",
}

# The version from which on the client draws its own member id.
CLIENT_MEMBER_ID_VERSION = 1


class ConsumerProtocol:
    """The consumer protocol for the groups of one shard."""

    def __init__(
        self,
        store: ConsumerStore,
        config: Callable[[], ConsumerConfig],
        timers: TimerQueue,
        new_id: Callable[[], str],
    ) -> None:
        self._store = store
        self._config = config
        self._timers = timers
        self._new_id = new_id

    # The request.

    def heartbeat(self, caller: Caller, request: ConsumerGroupHeartbeatRequest, reply: Reply) -> Outcome:
        """Join, stay or leave; the answer comes with the commit of what it changed."""
        try:
            self._check(caller, request)
            if request.member_epoch in (LEFT, LEFT_FOR_A_WHILE):
                return self._leave(caller, request, reply)
            return self._stay(caller, request, reply)
        except KafkaError as error:
            reply.give(refusal(error))
            return NOTHING

    def _check(self, caller: Caller, request: ConsumerGroupHeartbeatRequest) -> None:
        """Refuse what no client of this protocol sends."""
        epoch = request.member_epoch
        wrong = None
        if not request.group_id:
            wrong = "GroupId can't be empty."
        elif request.instance_id == "":
            wrong = "InstanceId can't be empty."
        elif request.rack_id == "":
            wrong = "RackId can't be empty."
        elif not request.member_id and (epoch != JOINING or caller.api_version >= CLIENT_MEMBER_ID_VERSION):
            wrong = "MemberId can't be empty."
        elif epoch < LEFT_FOR_A_WHILE:
            wrong = "MemberEpoch is invalid."
        elif epoch == LEFT_FOR_A_WHILE and request.instance_id is None:
            wrong = "InstanceId can't be null."
        elif epoch == JOINING:
            wrong = _what_is_missing_to_join(request)
        if wrong is not None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, wrong)
        offered = self._config().group_consumer_assignors
        if request.server_assignor is not None and request.server_assignor not in offered:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"Assignor {request.server_assignor} is not supported; these are: {', '.join(offered)}.",
            )

    def _stay(self, caller: Caller, request: ConsumerGroupHeartbeatRequest, reply: Reply) -> Outcome:
        group_id, now_ms = request.group_id, caller.now_ms
        records: list[Record] = []
        if request.member_epoch == JOINING:
            group, records = self._store.joinable_consumer_group(group_id, now_ms)
        else:
            group = self.existing(group_id)
        member_id = request.member_id or self._new_id()
        if member_id not in group.members and len(group.members) >= self._config().group_consumer_max_size:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, "The consumer group is full.")
        reported = _reported(request)
        old, replaced = self._find(group, member_id, request, reported)
        new = _updated(old or ConsumerMember(member_id), request, caller)
        around = self._store.surroundings(group_id, now_ms)
        moved = new
        if not (new == old and replaced is None and _is_settled(group, new, around)):
            changes, moved = advance(group, old, new, reported, around, replaced)
            records += changes
        self._arm(group_id, moved, now_ms, is_new_task=old is None or old.revoking != moved.revoking)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=moved.epoch,
            heartbeat_interval_ms=self._store.group_times(group_id).consumer_heartbeat_interval_ms,
        )
        before = NO_PARTITIONS if old is None else old.assigned
        if _is_full(request) or not _same_partitions(before, moved.assigned):
            response.assignment = _assignment(moved.assigned)
        return Outcome(records, _answer(reply, response, group))

    def _find(
        self,
        group: ConsumerGroup,
        member_id: str,
        request: ConsumerGroupHeartbeatRequest,
        reported: Reported,
    ) -> tuple[ConsumerMember | None, ConsumerMember | None]:
        """The member so far, and the static member that it replaces."""
        epoch, instance_id = request.member_epoch, request.instance_id
        if instance_id is None:
            member = group.members.get(member_id)
            if member is None:
                if epoch == JOINING:
                    return None, None
                raise _unknown(group, member_id)
            check_epoch(member, epoch, reported)
            return member, None
        owner = group.static_member(instance_id)
        if epoch != JOINING:
            member = self._static_member(group, member_id, instance_id)
            check_epoch(member, epoch, reported)
            return member, None
        if owner is None:
            return group.members.get(member_id), None
        if owner.member_id == member_id and owner.epoch != LEFT_FOR_A_WHILE:
            return owner, None
        if owner.epoch != LEFT_FOR_A_WHILE and owner.classic is None:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Member {member_id} cannot be instance {instance_id}: member {owner.member_id} still is.",
            )
        return owner._replace(member_id=member_id, epoch=JOINING, previous_epoch=JOINING), owner

    def _static_member(self, group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
        owner = group.static_member(instance_id)
        if owner is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if owner.member_id != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Member {member_id} is not instance {instance_id} any more: member {owner.member_id} is.",
            )
        return owner

    def existing(self, group_id: str) -> ConsumerGroup:
        """The consumer group of this id, or GROUP_ID_NOT_FOUND."""
        group = self._store.consumer_groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        return group

    # Leaving.

    def _leave(self, caller: Caller, request: ConsumerGroupHeartbeatRequest, reply: Reply) -> Outcome:
        group = self.existing(request.group_id)
        if request.instance_id is None:
            member = group.members.get(request.member_id)
            if member is None:
                raise _unknown(group, request.member_id)
        else:
            member = self._static_member(group, request.member_id, request.instance_id)
        response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        done = _answer(reply, response, group)
        if request.member_epoch == LEFT_FOR_A_WHILE:
            # It keeps its partitions until its session ends; what it was to give up it has given up.
            away = member._replace(epoch=LEFT_FOR_A_WHILE, revoking=NO_PARTITIONS)
            return Outcome([current_record(group.group_id, away)], done)
        log.info("Group %s: member %s left", group.group_id, member.member_id)
        outcome = self.put_out(group, [member.member_id], caller.now_ms)
        return Outcome(outcome.records, _both(outcome.done, done))

    def put_out(self, group: ConsumerGroup, member_ids: list[str], now_ms: int) -> Outcome:
        """Members leave, by their own wish or not. If they were the last of the new protocol, the group becomes
        classic.

        Their timers stay: they find nobody when they come due, or still somebody, should the log refuse.
        """
        downgraded = self._store.downgrade(group, member_ids, now_ms)
        if downgraded is not None:
            return downgraded
        return Outcome(depart(group, member_ids, self._store.surroundings(group.group_id, now_ms)))

    # Timers.

    def schedule(self, kind: str, group_id: str, member_id: str, deadline_ms: int) -> None:
        """Set a member's timer."""
        self._timers.schedule((self._store, kind, group_id, member_id), deadline_ms)

    def cancel(self, kind: str, group_id: str, member_id: str) -> None:
        """Drop a member's timer."""
        self._timers.cancel((self._store, kind, group_id, member_id))

    def is_scheduled(self, kind: str, group_id: str, member_id: str) -> bool:
        """Whether a member's timer is set."""
        return self._timers.deadline_of((self._store, kind, group_id, member_id)) is not None

    def session_timeout_ms(self, group_id: str, member: ConsumerMember) -> int:
        """The group's, but a member of the classic protocol brings its own."""
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return self._store.group_times(group_id).consumer_session_timeout_ms

    def _arm(self, group_id: str, member: ConsumerMember, now_ms: int, *, is_new_task: bool) -> None:
        """The member is alive; if it has just been told to give partitions up, its time for that begins."""
        session_ms = self.session_timeout_ms(group_id, member)
        self.schedule(MEMBER_SESSION, group_id, member.member_id, now_ms + session_ms)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self.cancel(MEMBER_REVOCATION, group_id, member.member_id)
        elif is_new_task:
            deadline_ms = now_ms + member.rebalance_timeout_ms
            self.schedule(MEMBER_REVOCATION, group_id, member.member_id, deadline_ms)

    def loaded(self, group: ConsumerGroup, now_ms: int) -> None:
        """The group comes from the log: everybody gets its full time again."""
        for member in group.members.values():
            self._arm(group.group_id, member, now_ms, is_new_task=True)

    def fired(self, key: TimerKey, now_ms: int) -> Outcome:
        """A member's time is up."""
        _, kind, group_id, member_id = key
        group = self._store.consumer_groups.get(group_id)
        member = group.members.get(member_id) if group is not None else None
        if group is None or member is None:
            return NOTHING
        if kind == MEMBER_REVOCATION and member.state is not MemberState.UNREVOKED_PARTITIONS:
            return NOTHING
        if kind in (MEMBER_JOIN, MEMBER_SYNC) and member.classic is None:
            return NOTHING
        log.info("Group %s: member %s is put out, %s", group_id, member_id, _WHY_FENCED[kind])
        outcome = self.put_out(group, [member_id], now_ms)

        def done(code: ErrorCode, now_ms: int) -> None:
            if code:
                # It is still a member, so somebody must look after it again.
                self.schedule(kind, group_id, member_id, now_ms + self.session_timeout_ms(group_id, member))

        return Outcome(outcome.records, _both(outcome.done, done))


def default_assignor(offered: tuple[str, ...]) -> str:
    """The first that the broker offers and knows."""
    return next((name for name in offered if name in ASSIGNORS), "uniform")


def check_epoch(member: ConsumerMember, epoch: int, reported: Reported) -> None:
    """Fence a member that is not where the coordinator knows it to be.

    One epoch behind is welcome if the member owns nothing beyond its assignment: it did not get the last answer. So is
    a new start.
    """
    if epoch in (member.epoch, JOINING):
        return
    if epoch == member.previous_epoch and _owns_at_most(reported, member.assigned):
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The member is at epoch {member.epoch}, not {epoch}; it must give up its partitions and rejoin.",
    )


def refusal(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    """An answer that is only an error."""
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


def _what_is_missing_to_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be set when (re-)joining."
    return None


def _unknown(group: ConsumerGroup, member_id: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")


def _is_settled(group: ConsumerGroup, member: ConsumerMember, around: Surroundings) -> bool:
    """Whether a heartbeat of a member that says nothing new can change nothing: the case of nearly all of them."""
    return (
        group.catalog_version == around.catalog_version
        and group.epoch == group.assignment_epoch
        and member.is_reconciled_to(group.assignment_epoch)
    )


def _updated(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> ConsumerMember:
    """The member with what the request says; null fields say that nothing has changed."""
    changes: dict[str, Any] = {}
    if request.instance_id is not None:
        changes["instance_id"] = request.instance_id
    if request.rack_id is not None:
        changes["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != -1:
        changes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.server_assignor is not None:
        changes["server_assignor"] = request.server_assignor
    if request.subscribed_topic_names is not None:
        changes["topics"] = tuple(sorted(set(request.subscribed_topic_names)))
    if request.subscribed_topic_regex is not None:
        changes["regex"] = request.subscribed_topic_regex
    return member._replace(client_id=caller.client_id, client_host=caller.client_host, classic=None, **changes)


def _reported(request: ConsumerGroupHeartbeatRequest) -> Reported:
    if request.topic_partitions is None:
        return None
    return {one.topic_id: frozenset(one.partitions) for one in request.topic_partitions}


def _owns_at_most(reported: Reported, assigned: Owned) -> bool:
    if reported is None:
        return False
    return all(owned <= assigned.get(topic_id, {}).keys() for topic_id, owned in reported.items())


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the client says everything about itself, because it joins or has missed something."""
    names_topics = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    says_all = request.rebalance_timeout_ms != -1 and names_topics and request.topic_partitions is not None
    return request.member_epoch == JOINING or says_all


def _same_partitions(before: Owned, after: Owned) -> bool:
    if before is after:
        return True
    return before.keys() == after.keys() and all(before[topic].keys() == after[topic].keys() for topic in before)


def _assignment(assigned: Owned) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=list(partitions)) for topic_id, partitions in assigned.items()
        ]
    )


def _answer(
    reply: Reply, response: ConsumerGroupHeartbeatResponse, group: ConsumerGroup
) -> Callable[[ErrorCode, int], None]:
    def done(code: ErrorCode, now_ms: int) -> None:
        if code:
            # Nothing was stored, so the group has not taken note of the topics after all.
            group.catalog_version = -1
            reply.give(ConsumerGroupHeartbeatResponse(error_code=coordinator_code(code)))
        else:
            reply.give(response)

    return done


def _both(
    first: Callable[[ErrorCode, int], Outcome | None] | None, second: Callable[[ErrorCode, int], None]
) -> Callable[[ErrorCode, int], Outcome | None]:
    """Two things to do when the records are committed."""

    def done(code: ErrorCode, now_ms: int) -> Outcome | None:
        second(code, now_ms)
        return first(code, now_ms) if first is not None else None

    return done
