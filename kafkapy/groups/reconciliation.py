"""The next step of a member from what it owns to what it shall own.

A member goes through at most three stations. It gives up what is no longer its own and says so in a heartbeat
(UNREVOKED_PARTITIONS); only then does it reach the new epoch. There it gets what is free, and waits for what others
have not given up yet (UNRELEASED_PARTITIONS). When it has everything it is STABLE.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.groups.consumer_group import NO_PARTITIONS, ConsumerMember, MemberState, Owned, Target

# What a member says it owns, in a heartbeat: partitions by topic id; None says nothing.
Reported = Mapping[bytes, frozenset[int]] | None


def next_step(
    member: ConsumerMember,
    assignment_epoch: int,
    target: Target,
    is_free: Callable[[bytes, int], bool],
    reported: Reported,
) -> ConsumerMember:
    """The member after this heartbeat; itself, if nothing changes."""
    if member.state is MemberState.STABLE:
        if member.epoch == assignment_epoch and not _has_more_than(member, target):
            return member
        return _towards(member, member.epoch, assignment_epoch, target, is_free, reported)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _still_owns(member.revoking, reported):
            return member
        # It let go, so it has earned the epoch for which it had to.
        return _towards(member, member.epoch + 1, assignment_epoch, target, is_free, reported)
    if member.state is MemberState.UNKNOWN and (reported is None or any(reported.values())):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The member is in a state that this coordinator does not know; it must give up its partitions and rejoin.",
        )
    epoch = assignment_epoch if member.state is MemberState.UNKNOWN else member.epoch
    return _towards(member, epoch, assignment_epoch, target, is_free, reported)


def _towards(
    member: ConsumerMember,
    epoch: int,
    assignment_epoch: int,
    target: Target,
    is_free: Callable[[bytes, int], bool],
    reported: Reported,
) -> ConsumerMember:
    assigned: dict[bytes, dict[int, int]] = {}
    revoking: dict[bytes, dict[int, int]] = {}
    for topic_id, partitions in member.assigned.items():
        wanted = target.get(topic_id, frozenset())
        kept = {partition: since for partition, since in partitions.items() if partition in wanted}
        given_up = {partition: since for partition, since in partitions.items() if partition not in wanted}
        if kept:
            assigned[topic_id] = kept
        if given_up:
            revoking[topic_id] = given_up
    if revoking and _still_owns(revoking, reported):
        return member.at_epoch(epoch)._replace(
            state=MemberState.UNREVOKED_PARTITIONS, assigned=assigned, revoking=revoking
        )
    is_complete = True
    for topic_id, wanted in target.items():
        owned = assigned.get(topic_id, {})
        gained: dict[int, int] = {}
        for partition in sorted(wanted):
            if partition in owned:
                continue
            # What the member itself was giving up is its own to take back.
            if is_free(topic_id, partition) or partition in member.revoking.get(topic_id, ()):
                gained[partition] = assignment_epoch
            else:
                is_complete = False
        if gained:
            assigned[topic_id] = dict(sorted({**owned, **gained}.items()))
    state = MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS
    return member.at_epoch(assignment_epoch)._replace(state=state, assigned=assigned, revoking=NO_PARTITIONS)


def _has_more_than(member: ConsumerMember, target: Target) -> bool:
    """Whether the member owns what even its present assignment does not give it: it stopped to read a topic."""
    return any(not target.get(topic_id, frozenset()).issuperset(owned) for topic_id, owned in member.assigned.items())


def _still_owns(revoking: Owned, reported: Reported) -> bool:
    """Whether the member has not said yet that it gave these partitions up. Saying nothing is not saying so."""
    if reported is None:
        return True
    return any(
        partition in partitions
        for topic_id, owned in reported.items()
        if (partitions := revoking.get(topic_id)) is not None
        for partition in owned
    )
