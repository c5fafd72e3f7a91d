"""Online migration: a group changes its protocol while its members read on."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.groups.commits import Commit
from kafkapy.groups.states import GroupState
from kafkapy.wire.protocol_data import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions
from kafkapy.wire.record_framing import decode_blob, encode_blob
from tests.groups.fakes import World, owned_by, subscription, topic_id


def assignment(*partitions: int) -> bytes:
    """What a classic leader assigns, of topic t."""
    topics = [TopicPartitions(topic="t", partitions=list(partitions))]
    return encode_blob(ConsumerProtocolAssignment(assigned_partitions=topics), 0)


def partitions_of(blob: bytes) -> list[int]:
    """What a classic member is assigned, of topic t."""
    topics = decode_blob(ConsumerProtocolAssignment, blob).assigned_partitions
    return [partition for one in topics for partition in one.partitions]


def owning(*partitions: int) -> dict[str, bytes]:
    """The protocols of a cooperative member that owns partitions of t."""
    owned = [TopicPartitions(topic="t", partitions=list(partitions))] if partitions else []
    return {"range": encode_blob(ConsumerProtocolSubscription(topics=["t"], owned_partitions=owned), 1)}


def classic_pair(world: World) -> tuple[str, str]:
    """A stable classic group: the leader has 0 and 1, the follower 2; generation 2."""
    leader, follower = world.stable_group(2)
    world.join(leader, protocols={"range": subscription("t")})
    world.join(follower)
    world.sync(follower, 3)
    world.sync(leader, 3, {leader: assignment(0, 1), follower: assignment(2)})
    return leader, follower


def kind(world: World) -> str:
    """The type of the group."""
    return world.groups.list_groups()[0].group_type


def test_a_member_of_the_new_protocol_turns_the_group_over() -> None:
    """The classic members keep what they have until they are told to give up a share."""
    world = World()
    leader, follower = classic_pair(world)
    joined = world.enter_consumer("N").response
    assert (joined.error_code, joined.member_epoch, owned_by(joined)) == (0, 4, {})
    assert kind(world) == "consumer"
    assert world.heartbeat(leader, 3) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.commit(7, leader, 3).response == [ErrorCode.NONE]
    answer = world.join(leader, protocols=owning(0, 1)).response
    assert (answer.error_code, answer.generation_id, answer.leader, answer.members) == (0, 3, "", [])
    (kept,) = partitions_of(world.sync(leader, 3).response.assignment)
    assert world.heartbeat(leader, 3) == ErrorCode.REBALANCE_IN_PROGRESS
    answer = world.join(leader, protocols=owning(kept)).response
    assert answer.generation_id == 4
    assert partitions_of(world.sync(leader, 4).response.assignment) == [kept]
    assert world.heartbeat(leader, 4) == ErrorCode.NONE
    assert owned_by(world.beat("N", 4).response) == {"t": [1 - kept]}
    assert world.heartbeat(follower, 3) == ErrorCode.REBALANCE_IN_PROGRESS
    world.restart()
    assert world.heartbeat(leader, 4) == ErrorCode.NONE


def test_joins_that_wait_are_told_of_another_rebalance() -> None:
    """The classic rebalance that was under way will not end."""
    world = World()
    leader, _ = classic_pair(world)
    waiting = world.join(leader)
    world.enter_consumer("N")
    assert waiting.response.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_an_eager_member_is_believed_to_own_nothing_when_it_joins() -> None:
    """It said nothing of what it owns, and eager members give everything up before they join."""
    world = World()
    leader, _ = classic_pair(world)
    world.enter_consumer("N")
    answer = world.join(leader).response
    assert answer.generation_id == 4
    assert len(partitions_of(world.sync(leader, 4).response.assignment)) == 1


def test_the_last_of_the_new_protocol_turns_the_group_back() -> None:
    """The classic members rebalance among themselves; the group epoch goes on as the generation."""
    world = World()
    leader, follower = classic_pair(world)
    world.enter_consumer("N")
    world.join(leader)
    world.sync(leader, 4)
    world.beat("N", -1)
    assert kind(world) == "classic"
    group = world.shard.classic_groups["g"]
    assert group.state is GroupState.PREPARING_REBALANCE
    assert world.heartbeat(follower, 4) == ErrorCode.REBALANCE_IN_PROGRESS
    waiting = world.join(leader)
    answer = world.join(follower).response
    assert (answer.generation_id, waiting.response.generation_id) == (5, 5)
    world.restart()
    assert kind(world) == "classic"
    assert list(world.shard.classic_groups["g"].members) == [leader, follower]


def test_the_way_back_waits_for_the_log() -> None:
    """The rebalance begins when the classic group is committed; heartbeats are fine until then."""
    world = World()
    leader, _ = classic_pair(world)
    world.enter_consumer("N")
    world.join(leader)
    world.log.replicated = False
    leaving = world.beat("N", -1)
    assert leaving.response is None
    assert world.heartbeat(leader, 4) == ErrorCode.NONE
    world.replicate()
    assert leaving.response.error_code == 0
    assert world.heartbeat(leader, 4) == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_turning_over_can_be_forbidden(policy: str) -> None:
    """group.consumer.migration.policy; an empty group may always change."""
    world = World(group_consumer_migration_policy=policy)
    leader, follower = classic_pair(world)
    assert world.enter_consumer("N").response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    world.leave(leader, follower)
    assert world.enter_consumer("N").response.error_code == 0


def test_turning_back_can_be_forbidden() -> None:
    """Then the group stays a consumer group of classic members."""
    world = World(group_consumer_migration_policy="upgrade")
    leader, _ = classic_pair(world)
    world.enter_consumer("N")
    world.beat("N", -1)
    assert kind(world) == "consumer"
    assert world.heartbeat(leader, 3) == ErrorCode.REBALANCE_IN_PROGRESS


def test_groups_of_others_are_not_turned_over() -> None:
    """A Connect group, and consumers whose metadata cannot be read."""
    for options in ({"protocol_type": "connect", "protocols": {"x": b""}}, {"protocols": {"range": b"\1"}}):
        world = World()
        world.stable_group(**options)
        assert world.enter_consumer("N").response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert kind(world) == "classic"


def test_a_leader_that_assigned_a_partition_twice_does_no_harm() -> None:
    """One of the two keeps it."""
    world = World()
    leader, follower = world.stable_group(2)
    world.join(leader)
    world.join(follower)
    world.sync(leader, 3, {leader: assignment(0, 1), follower: assignment(1, 2)})
    world.enter_consumer("N")
    owners = world.shard.consumer_groups["g"].owners
    assert owners == {(topic_id("t"), 0): leader, (topic_id("t"), 1): leader, (topic_id("t"), 2): follower}


def test_a_classic_newcomer_joins_a_consumer_group() -> None:
    """It is given an id, joins at once, and gets what is free."""
    world = World()
    world.enter_consumer("N")
    member, reply = world.enter(protocols=owning())
    assert (reply.response.error_code, reply.response.generation_id) == (0, 3)
    assert partitions_of(world.sync(member, 3).response.assignment) == []
    world.beat("N", 2)
    world.beat("N", 2, owned={"t": [0, 1]})
    assert world.heartbeat(member, 3) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.join(member, protocols=owning()).response.generation_id == 3
    assert partitions_of(world.sync(member, 3).response.assignment) == [2]
    assert world.commit(1, member, 3, partition=2).response == [ErrorCode.NONE]
    assert world.commit(1, member, 2, partition=2).response == [ErrorCode.ILLEGAL_GENERATION]


def test_wrong_classic_requests_in_a_consumer_group() -> None:
    """Have the codes that they have in a classic group."""
    world = World(group_consumer_max_size=2)
    world.enter_consumer("N", instance_id="n")
    member, _ = world.enter()
    unknown, fenced = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
    assert world.heartbeat("nobody", 3) == unknown
    assert world.heartbeat("N", 2) == unknown
    assert world.heartbeat(member, 3, instance="x") == unknown
    assert world.heartbeat(member, 3, instance="n") == fenced
    assert world.heartbeat(member, 9) == ErrorCode.ILLEGAL_GENERATION
    assert world.sync(member, 9).response.error_code == ErrorCode.ILLEGAL_GENERATION
    wrong = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync(member, 3, protocol_name="sticky").response.error_code == wrong
    assert world.join(protocol_type="connect").response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join(member, protocol_type="connect").response.error_code == wrong
    assert world.join(member, protocols={"range": b""}).response.error_code == wrong
    assert world.join(session_ms=1).response.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_classic_members_of_a_consumer_group_leave() -> None:
    """Each with its own code; a tool can remove members of the new protocol this way too."""
    world = World()
    world.enter_consumer("N")
    world.enter_consumer("M", instance_id="m")
    member, _ = world.enter()
    codes = [one.error_code for one in world.leave(member, ("", "m"), "nobody").response.members]
    assert codes == [0, 0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert list(world.shard.consumer_groups["g"].members) == ["N"]
    assert world.leave("N").response.members[0].error_code == 0
    assert not world.shard.consumer_groups["g"].members


def test_silent_classic_members_of_a_consumer_group_are_put_out() -> None:
    """By their session; when they were told to join and do not; when they joined and do not sync."""
    for steps in (("silent",), ("join", "beat"), ("sync", "beat")):
        world = World()
        world.enter_consumer("N")
        member, _ = world.enter(session_ms=40_000, rebalance_ms=20_000)
        if "sync" not in steps:
            world.sync(member, 3)
        if "join" in steps:
            world.enter_consumer("M")
        for _ in range(5):
            world.advance(10_000)
            world.beat("N", 2)
            if "beat" in steps:
                world.heartbeat(member, 3)
        assert member not in world.shard.consumer_groups["g"].members, steps


def test_static_members_change_protocol() -> None:
    """A static member that comes back with the other protocol takes its place over, in both directions."""
    world = World()
    old = world.join(instance="i").response.member_id
    world.sync(old, 1, {old: assignment(0, 1, 2)}, instance="i")
    joined = world.enter_consumer("N", instance_id="i").response
    assert (joined.error_code, owned_by(joined)) == (0, {"t": [0, 1, 2]})
    assert world.heartbeat(old, 1, instance="i") == ErrorCode.FENCED_INSTANCE_ID
    back = world.join(instance="i", protocols=owning(0, 1, 2)).response
    assert back.error_code == 0
    assert kind(world) == "classic"
    assert world.heartbeat(back.member_id, back.generation_id, instance="i") == ErrorCode.NONE
    assert world.beat("N", joined.member_epoch, instance_id="i").response.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_consumer_group_becomes_classic_again() -> None:
    """Its offsets stay."""
    world = World()
    world.enter_consumer("N")
    commits = [Commit("t", topic_id("t"), 0, 9, -1, "")]
    world.groups.commit_offsets(world.caller(9), "g", ("N", None, 2), commits, -1, list)
    world.beat("N", -1)
    world.stable_group()
    assert kind(world) == "classic"
    assert world.committed() == 9
    world.restart()
    assert kind(world) == "classic"
