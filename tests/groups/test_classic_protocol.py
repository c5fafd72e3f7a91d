"""The classic protocol, request by request."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.groups.states import GroupState
from tests.groups.fakes import World, subscription

SESSION_MS = 10_000


def state_of(world: World, group: str = "g") -> GroupState:
    """The state of a group that must exist."""
    found = world.shard.classic_group(group)
    assert found is not None
    return found.state


def test_a_lone_consumer_joins_syncs_and_heartbeats() -> None:
    """One member: told its id, joins with it, leads, gets back what it assigns to itself."""
    world = World()
    member, reply = world.enter()
    answer = reply.response
    assert (answer.error_code, answer.generation_id, answer.leader, answer.member_id) == (0, 1, member, member)
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert [one.member_id for one in answer.members] == [member]
    assert state_of(world) is GroupState.COMPLETING_REBALANCE
    synced = world.sync(member, 1, {member: b"all"}).response
    assert (synced.error_code, synced.assignment, synced.protocol_name) == (0, b"all", "range")
    assert state_of(world) is GroupState.STABLE
    assert world.heartbeat(member, 1) == ErrorCode.NONE


def test_a_second_member_makes_the_first_join_again() -> None:
    """The newcomer waits; the first learns it by a heartbeat, joins again, and both get generation 2."""
    world = World()
    (first,) = world.stable_group()
    second, waiting = world.enter()
    assert waiting.response is None
    assert world.heartbeat(first, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    again = world.join(first).response
    assert (again.generation_id, again.leader, len(again.members)) == (2, first, 2)
    assert (waiting.response.generation_id, waiting.response.members) == (2, [])
    follower = world.sync(second, 2)
    assert follower.response is None
    world.sync(first, 2, {first: b"1", second: b"2"})
    assert follower.response.assignment == b"2"


def test_old_versions_join_at_once_and_are_given_an_id() -> None:
    """Up to version 3 there is no MEMBER_ID_REQUIRED; version 0 waits by its session timeout."""
    world = World()
    answer = world.join(version=0, session_ms=6_000).response
    assert (answer.error_code, answer.member_id, answer.generation_id) == (0, "client-0001", 1)
    assert world.shard.classic_groups["g"].members["client-0001"].rebalance_timeout_ms == 6_000


@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001])
def test_session_timeouts_have_bounds(timeout_ms: int) -> None:
    """Outside group.min and group.max.session.timeout.ms: INVALID_SESSION_TIMEOUT."""
    answer = World().join(session_ms=timeout_ms).response
    assert (answer.error_code, answer.member_id, answer.generation_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, "", -1)


def test_requests_without_a_group_id_are_invalid() -> None:
    """Members need a group with a name."""
    world = World()
    assert world.join(group="").response.error_code == ErrorCode.INVALID_GROUP_ID
    assert world.sync("m", 1, group="").response.error_code == ErrorCode.INVALID_GROUP_ID
    assert world.heartbeat("m", 1, group="") == ErrorCode.INVALID_GROUP_ID
    assert world.leave("m", group="").response.error_code == ErrorCode.INVALID_GROUP_ID


def test_unknown_members_are_told_so() -> None:
    """In a group that is not there, and in one that is."""
    world = World()
    for members in (0, 1):
        if members:
            world.stable_group()
        assert world.join("nobody").response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert world.sync("nobody", 1).response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert world.heartbeat("nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
        left = world.leave("nobody").response
        assert (left.error_code, left.members[0].error_code) == (0, ErrorCode.UNKNOWN_MEMBER_ID)


def test_old_leave_group_has_its_error_at_the_top() -> None:
    """Version 2 knows one leaver and one error."""
    assert World().leave("nobody", version=2).response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_wrong_generation_is_refused() -> None:
    """By SyncGroup and Heartbeat alike."""
    world = World()
    (member,) = world.stable_group()
    assert world.heartbeat(member, 7) == ErrorCode.ILLEGAL_GENERATION
    assert world.sync(member, 0).response.error_code == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("protocols", "protocol_type"),
    [({"roundrobin": b""}, "consumer"), ({"range": b""}, "connect"), ({}, "consumer")],
)
def test_members_need_a_protocol_in_common(protocols: dict[str, bytes], protocol_type: str) -> None:
    """Another protocol, another type, or none at all: INCONSISTENT_GROUP_PROTOCOL."""
    world = World()
    world.stable_group()
    answer = world.join(protocols=protocols, protocol_type=protocol_type).response
    assert (answer.error_code, answer.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")


@pytest.mark.parametrize(("protocols", "protocol_type"), [({}, "consumer"), ({"range": b""}, "")])
def test_an_empty_group_wants_protocols_too(protocols: dict[str, bytes], protocol_type: str) -> None:
    """The first member must offer something; a group that was made for it is forgotten."""
    world = World()
    answer = world.join(protocols=protocols, protocol_type=protocol_type, version=0).response
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not world.shard.classic_groups


def test_sync_checks_the_protocol_that_the_member_believes_in() -> None:
    """Since version 5 SyncGroup names it, and must."""
    world = World()
    member, _ = world.enter()
    wrong = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync(member, 1, protocol_name="sticky").response.error_code == wrong
    assert world.sync(member, 1, protocol_type="connect").response.error_code == wrong
    assert world.sync(member, 1, version=5).response.error_code == wrong
    assert world.sync(member, 1, protocol_type="consumer", protocol_name="range").response.error_code == 0


def test_the_protocol_with_the_most_votes_wins() -> None:
    """Each member votes for its favourite among those that all members have."""
    world = World(group_initial_rebalance_delay_ms=1_000)
    both = {"range": b"r", "sticky": b"s"}
    replies = [
        world.enter(protocols={"own": b"", **both})[1],
        world.enter(protocols={"sticky": b"s", "range": b"r"})[1],
        world.enter(protocols={"sticky": b"s", "range": b"r"})[1],
    ]
    world.advance(2_000)
    assert [reply.response.protocol_name for reply in replies] == ["sticky"] * 3
    assert [one.metadata for one in replies[0].response.members] == [b"s"] * 3


def test_the_first_rebalance_waits_for_more_members() -> None:
    """With each member that comes during the delay it waits once more, but no longer than the rebalance timeout."""
    world = World(group_initial_rebalance_delay_ms=3_000)
    _, first = world.enter(rebalance_ms=8_000)
    world.advance(2_000)
    _, second = world.enter(rebalance_ms=8_000)
    world.advance(1_500)
    assert first.response is None
    _, third = world.enter(rebalance_ms=8_000)
    world.advance(2_600)
    assert first.response is None
    world.advance(2_000)
    assert [one.response.generation_id for one in (first, second, third)] == [1, 1, 1]


def test_a_lost_join_answer_can_be_asked_for_again() -> None:
    """In CompletingRebalance the same JoinGroup gets the same answer; the generation does not move."""
    world = World()
    member, reply = world.enter()
    repeated = world.join(member).response
    assert repeated == reply.response
    assert state_of(world) is GroupState.COMPLETING_REBALANCE


def test_a_lost_sync_answer_can_be_asked_for_again() -> None:
    """In Stable SyncGroup gives the assignment once more, whatever the leader sends."""
    world = World()
    (member,) = world.stable_group()
    assert world.sync(member, 1, {member: b"other"}).response.assignment == member.encode()


def test_a_follower_that_joins_again_unchanged_disturbs_nobody() -> None:
    """In Stable it gets the current generation; the leader, who may have seen new partitions, gets a rebalance."""
    world = World()
    leader, follower = world.stable_group(2)
    repeated = world.join(follower).response
    assert (repeated.error_code, repeated.generation_id, repeated.members) == (0, 2, [])
    assert state_of(world) is GroupState.STABLE
    assert world.join(leader).response is None
    assert state_of(world) is GroupState.PREPARING_REBALANCE


def test_changed_metadata_makes_a_rebalance() -> None:
    """A follower with another subscription."""
    world = World()
    _, follower = world.stable_group(2)
    assert world.join(follower, protocols={"range": subscription("other")}).response is None
    assert state_of(world) is GroupState.PREPARING_REBALANCE


def test_changed_metadata_sends_waiting_syncs_away() -> None:
    """Who waits for the assignment of a generation that will not get one must join again."""
    world = World(group_initial_rebalance_delay_ms=10)
    (first, _), (second, _) = world.enter(), world.enter()
    world.advance(20)
    waiting = world.sync(second, 1)
    world.join(first, protocols={"range": subscription("other")})
    assert waiting.response.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.sync(second, 1).response.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_repeated_join_answers_the_first_one_too() -> None:
    """A client that gave up waiting and asked again over another connection."""
    world = World()
    leader, follower = world.stable_group(2)
    first = world.join(leader)
    second = world.join(leader)
    assert first.response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    world.join(follower)
    assert second.response.generation_id == 3


def test_who_does_not_join_in_time_is_dropped() -> None:
    """After the longest rebalance timeout the others go on; the lost leader is replaced."""
    world = World()
    leader, follower = world.stable_group(2, rebalance_ms=5_000)
    waiting = world.join(follower, protocols={"range": subscription("x")}, rebalance_ms=5_000)
    world.heartbeat(leader, 2)
    world.advance(4_999)
    assert waiting.response is None
    world.advance(1)
    answer = waiting.response
    assert (answer.generation_id, answer.leader, [one.member_id for one in answer.members]) == (3, follower, [follower])
    assert world.heartbeat(leader, 3) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_session_ends_without_heartbeats() -> None:
    """One heartbeat prolongs it; its end makes the others rebalance."""
    world = World()
    leader, follower = world.stable_group(2)
    world.advance(SESSION_MS - 1)
    assert world.heartbeat(leader, 2) == ErrorCode.NONE
    world.advance(1)
    assert world.heartbeat(leader, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(follower, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_whose_sessions_all_end_becomes_empty() -> None:
    """And that is written to the log, with the next generation."""
    world = World()
    world.stable_group()
    world.advance(SESSION_MS)
    assert state_of(world) is GroupState.EMPTY
    stored = world.shard.stored_groups["g"]
    assert (stored.generation, stored.members, stored.protocol, stored.protocol_type) == (2, [], None, "consumer")


def test_who_waits_is_not_expired() -> None:
    """A JoinGroup may wait far longer than the session timeout."""
    world = World()
    leader, follower = world.stable_group(2, rebalance_ms=60_000)
    waiting = world.join(leader)
    for _ in range(4):
        world.advance(SESSION_MS - 1)
        world.heartbeat(follower, 2)
    assert waiting.response is None
    world.join(follower)
    assert waiting.response.error_code == ErrorCode.NONE


def test_a_newcomer_that_was_given_an_id_must_use_it() -> None:
    """Until then the group waits for it; after the session timeout no longer."""
    world = World()
    (leader,) = world.stable_group(session_ms=20_000)
    pending = world.join().response.member_id
    waiting = world.join(leader, session_ms=20_000)
    assert waiting.response is None
    world.advance(SESSION_MS)
    assert waiting.response.generation_id == 2
    assert world.join(pending).response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_of_nothing_but_unused_ids_is_forgotten() -> None:
    """Nothing was written, nothing stays."""
    world = World()
    world.join()
    assert "g" in world.shard.classic_groups
    world.advance(SESSION_MS)
    assert "g" not in world.shard.classic_groups


def test_leaving_ends_membership_at_once() -> None:
    """The others rebalance; the last one leaves an empty group."""
    world = World()
    leader, follower = world.stable_group(2)
    assert world.leave(leader).response.members[0].error_code == 0
    assert world.heartbeat(follower, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.join(follower).response.leader == follower
    world.leave(follower)
    assert state_of(world) is GroupState.EMPTY


def test_leaving_completes_the_join_phase_of_the_others() -> None:
    """Nobody waits for somebody who said good-bye."""
    world = World()
    leader, follower = world.stable_group(2)
    waiting = world.join(leader)
    world.leave(follower)
    assert waiting.response.generation_id == 3


def test_a_pending_member_can_leave() -> None:
    """Its id is no longer waited for."""
    world = World()
    (leader,) = world.stable_group()
    pending = world.join().response.member_id
    waiting = world.join(leader)
    assert world.leave(pending).response.members[0].error_code == 0
    assert waiting.response.generation_id == 2


def test_members_that_do_not_sync_are_dropped() -> None:
    """After the rebalance timeout the generation is given up, and those who synced join again."""
    world = World(group_initial_rebalance_delay_ms=10)
    (leader, _), (lazy, _) = world.enter(rebalance_ms=5_000), world.enter(rebalance_ms=5_000)
    world.advance(20)
    world.sync(leader, 1, {})
    world.heartbeat(lazy, 1)
    world.advance(5_000)
    assert world.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(lazy, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_lets_nobody_in() -> None:
    """group.max.size; members may still join again."""
    world = World(group_max_size=2)
    leader, _ = world.stable_group(2)
    answer = world.join().response
    assert (answer.error_code, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert world.join(leader).response is None


def test_a_lowered_limit_drops_the_last_to_come() -> None:
    """After loading a group that is too large, it rebalances, and room is for those who join first."""
    world = World()
    members = world.stable_group(3)
    world.config.group_max_size = 2
    world.restart()
    assert world.heartbeat(members[0], 3) == ErrorCode.REBALANCE_IN_PROGRESS
    waiting = [world.join(one) for one in members[:2]]
    assert world.join(members[2]).response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [reply.response.generation_id for reply in waiting] == [4, 4]


def test_the_answers_wait_for_the_followers() -> None:
    """The assignment is handed out when the high watermark covers it, not before."""
    world = World()
    member, _ = world.enter()
    world.log.replicated = False
    waiting = world.sync(member, 1, {member: b"mine"})
    assert waiting.response is None
    assert state_of(world) is GroupState.COMPLETING_REBALANCE
    world.replicate()
    assert waiting.response.assignment == b"mine"
    assert state_of(world) is GroupState.STABLE


def test_an_assignment_that_the_log_refuses_makes_a_rebalance() -> None:
    """The members get the error and join again; nothing was stored."""
    world = World()
    member, _ = world.enter()
    world.log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.sync(member, 1, {}).response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert state_of(world) is GroupState.PREPARING_REBALANCE
    assert not world.shard.stored_groups


def test_an_assignment_that_is_never_replicated_times_out() -> None:
    """After offsets.commit.timeout.ms the members hear that the coordinator is not available."""
    world = World()
    member, _ = world.enter()
    world.log.replicated = False
    waiting = world.sync(member, 1, {})
    world.advance(5_000)
    assert waiting.response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_rebalance_overtakes_an_assignment_on_its_way_to_the_log() -> None:
    """What is stored then belongs to a generation that is over; nobody is given it."""
    world = World()
    member, _ = world.enter()
    world.log.replicated = False
    waiting = world.sync(member, 1, {member: b"late"})
    world.enter()
    assert waiting.response.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    world.replicate()
    assert state_of(world) is GroupState.PREPARING_REBALANCE


def test_a_stable_group_survives_a_restart() -> None:
    """Members, generation and assignments come back from the log, and sessions start anew."""
    world = World()
    leader, follower = world.stable_group(2)
    world.restart()
    assert world.heartbeat(follower, 2) == ErrorCode.NONE
    assert world.sync(follower, 2).response.assignment == follower.encode()
    world.advance(SESSION_MS)
    assert world.heartbeat(leader, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_moving_the_coordinator_away_answers_everybody_who_waits() -> None:
    """NOT_COORDINATOR: look for the new one."""
    world = World()
    leader, follower = world.stable_group(2)
    joining = world.join(leader)
    world.groups.resigned(0, world.now_ms)
    assert joining.response.error_code == ErrorCode.NOT_COORDINATOR
    assert world.heartbeat(follower, 2) == ErrorCode.NOT_COORDINATOR
    assert not world.groups.timers


def test_a_loading_shard_keeps_members_alive() -> None:
    """Heartbeats are welcome, everything else must wait for the log."""
    world = World()
    (member,) = world.stable_group()
    world.groups.resigned(0, world.now_ms)
    world.groups.elected(0)
    assert world.heartbeat(member, 1) == ErrorCode.NONE
    assert world.join(member).response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.sync(member, 1).response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
