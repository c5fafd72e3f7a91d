"""Static members (KIP-345): an instance id outlives the member ids that it is given."""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.groups.states import GroupState
from tests.groups.fakes import World, subscription


def static_group(world: World, *instances: str, version: int = 9) -> list[str]:
    """A stable group of these instances; their member ids."""
    ids: list[str] = []
    replies = []
    for instance in instances:
        reply = world.join(instance=instance, version=version)
        replies = [world.join(one, instance=other, version=version) for one, other in zip(ids, instances, strict=False)]
        replies.append(reply)
        ids.append(reply.response.member_id)
    world.settle(ids, replies)
    return ids


def test_a_static_member_joins_at_once() -> None:
    """There is no MEMBER_ID_REQUIRED, and the id begins with the instance."""
    world = World()
    answer = world.join(instance="i").response
    assert (answer.error_code, answer.member_id) == (0, "i-0001")


def test_a_restarted_static_member_gets_its_partitions_back_without_a_rebalance() -> None:
    """It has a new member id, the generation stays, and the new id is in the log."""
    world = World()
    first, second = static_group(world, "a", "b")
    answer = world.join(instance="b").response
    assert (answer.error_code, answer.generation_id, answer.members) == (0, 2, [])
    assert answer.member_id not in (first, second)
    assert world.sync(answer.member_id, 2, instance="b").response.assignment == second.encode()
    assert world.heartbeat(first, 2, instance="a") == ErrorCode.NONE
    stored = world.shard.stored_groups["g"]
    assert {one.group_instance_id: one.member_id for one in stored.members} == {"a": first, "b": answer.member_id}


def test_the_old_member_id_is_fenced() -> None:
    """Whoever still uses it hears that somebody else is this instance now."""
    world = World()
    (old,) = static_group(world, "a")
    world.join(instance="a")
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert world.heartbeat(old, 1, instance="a") == fenced
    assert world.sync(old, 1, instance="a").response.error_code == fenced
    assert world.join(old, instance="a").response.error_code == fenced
    assert world.commit(1, old, 1, instance="a").response == [fenced]
    assert world.leave((old, "a")).response.members[0].error_code == fenced


def test_requests_of_the_old_id_that_wait_are_fenced() -> None:
    """Its JoinGroup and its SyncGroup are answered when the successor joins."""
    world = World(group_initial_rebalance_delay_ms=100)
    waiting = world.join(instance="a")
    successor = world.join(instance="a")
    assert waiting.response.error_code == ErrorCode.FENCED_INSTANCE_ID
    world.join(instance="b")
    world.advance(200)
    first = successor.response.member_id
    other = next(one for one in world.shard.classic_groups["g"].members if one != first)
    syncing = world.sync(other, 1, instance="b")
    world.join(instance="b")
    assert syncing.response.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_leader_that_comes_back_is_told_to_leave_the_assignment_alone() -> None:
    """Since version 9 by skip_assignment, with the members; before, by naming the old id as the leader."""
    world = World()
    (old,) = static_group(world, "a")
    answer = world.join(instance="a", version=9).response
    assert (answer.skip_assignment, answer.leader, len(answer.members)) == (True, answer.member_id, 1)
    older = world.join(instance="a", version=8).response
    assert (older.skip_assignment, older.leader, older.members) == (False, answer.member_id, [])
    assert old not in (older.leader, older.member_id)


def test_a_returning_member_with_another_protocol_makes_a_rebalance() -> None:
    """The group would choose another protocol with it."""
    world = World()
    static_group(world, "a")
    answer = world.join(instance="a", protocols={"sticky": b"", "range": b""}).response
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 2, "sticky")


def test_a_member_that_returns_during_the_sync_phase_makes_a_rebalance() -> None:
    """The leader may already have assigned to its old id."""
    world = World(group_initial_rebalance_delay_ms=10)
    world.join(instance="a")
    world.join(instance="b")
    world.advance(20)
    assert world.join(instance="b").response is None
    assert world.shard.classic_groups["g"].state is GroupState.PREPARING_REBALANCE


def test_static_members_stay_while_they_are_away() -> None:
    """The join phase ends without them, and their partitions are kept for them until the session ends."""
    world = World()
    first, second = static_group(world, "a", "b")
    waiting = world.join(first, instance="a", protocols={"range": subscription("x")}, session_ms=100_000)
    world.heartbeat(second, 2, instance="b")
    world.advance(9_000)
    world.heartbeat(second, 2, instance="b")
    world.advance(9_999)
    assert waiting.response is None
    world.advance(1)
    answer = waiting.response
    assert [one.group_instance_id for one in answer.members] == ["a"]


def test_a_static_member_that_misses_the_join_phase_is_still_a_member() -> None:
    """The leader assigns to it as if it were there."""
    world = World()
    first = world.join(instance="a", rebalance_ms=5_000).response.member_id
    joining = world.join(instance="b", rebalance_ms=5_000)
    again = world.join(first, instance="a", rebalance_ms=5_000)
    world.settle([first, joining.response.member_id], [again, joining])
    waiting = world.join(first, instance="a", protocols={"range": b"\0\0\0\0\0\0"}, rebalance_ms=5_000)
    world.advance(5_000)
    assert len(waiting.response.members) == 2


def test_a_tool_removes_static_members_by_their_instance_id() -> None:
    """With an empty member id; an unknown instance is an error of its own."""
    world = World()
    static_group(world, "a", "b")
    answer = world.leave(("", "a"), ("", "x"), ("", None)).response
    codes = [one.error_code for one in answer.members]
    assert codes == [0, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID]
    assert list(world.shard.classic_groups["g"].static_members) == ["b"]


def test_an_unknown_instance_is_an_unknown_member() -> None:
    """Even with the right member id."""
    world = World()
    (member,) = static_group(world, "a")
    assert world.heartbeat(member, 1, instance="x") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_replacement_that_the_log_refuses_is_taken_back() -> None:
    """After a failover only the old id would be known, so it stays the valid one."""
    world = World()
    (old,) = static_group(world, "a")
    world.log.refuse_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    answer = world.join(instance="a").response
    assert (answer.error_code, answer.member_id) == (ErrorCode.NOT_COORDINATOR, "")
    assert world.heartbeat(old, 1, instance="a") == ErrorCode.NONE


def test_static_members_survive_a_restart_of_the_broker() -> None:
    """The instance keeps its id and its assignment."""
    world = World()
    (old,) = static_group(world, "a")
    world.restart()
    answer = world.join(instance="a").response
    assert (answer.error_code, answer.generation_id) == (0, 1)
    assert world.sync(answer.member_id, 1, instance="a").response.assignment == old.encode()
