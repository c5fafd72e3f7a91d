"""The consumer protocol (KIP-848), heartbeat by heartbeat. The epochs are those that Apache Kafka 4.3 gives."""

from __future__ import annotations

from typing import Any

import pytest

from kafkapy.coordination import Reply
from kafkapy.errors import ErrorCode
from kafkapy.groups.commits import Commit
from kafkapy.groups.consumer_group import ConsumerGroup, GroupState
from tests.groups.fakes import World, make_catalog, owned_by, topic_id


def answer(reply: Reply) -> tuple[int, dict[str, list[int]] | None]:
    """Epoch and assignment of an answer without error."""
    response = reply.response
    assert response is not None
    assert response.error_code == 0, response
    return response.member_epoch, owned_by(response)


def code(reply: Reply) -> ErrorCode:
    """The error of an answer."""
    return ErrorCode(reply.response.error_code)


def group_of(world: World, group_id: str = "g") -> ConsumerGroup:
    """The consumer group, which must exist."""
    return world.shard.consumer_groups[group_id]


def two_members(world: World) -> None:
    """A owns 0 and 1, B owns 2; the group is stable in epoch 3."""
    world.enter_consumer("A")
    world.enter_consumer("B")
    world.beat("A", 2)
    world.beat("A", 2, owned={"t": [0, 1]})
    world.beat("B", 3)
    assert group_of(world).state is GroupState.STABLE


def test_a_lone_member_gets_everything_at_once() -> None:
    """Epoch 2, all partitions; the next heartbeat has nothing new to say."""
    world = World()
    assert answer(world.enter_consumer("A")) == (2, {"t": [0, 1, 2]})
    assert answer(world.beat("A", 2)) == (2, None)
    assert group_of(world).state is GroupState.STABLE


def test_a_partition_changes_hands_only_after_it_was_let_go() -> None:
    """B waits with an empty assignment until A has said that it gave partition 2 up."""
    world = World()
    world.enter_consumer("A")
    assert answer(world.enter_consumer("B")) == (3, {})
    assert answer(world.beat("A", 2)) == (2, {"t": [0, 1]})
    assert answer(world.beat("B", 3)) == (3, None)
    assert answer(world.beat("A", 2, owned={"t": [0, 1, 2]})) == (2, None)
    assert answer(world.beat("B", 3)) == (3, None)
    assert answer(world.beat("A", 2, owned={"t": [0, 1]})) == (3, None)
    assert answer(world.beat("B", 3)) == (3, {"t": [2]})


def test_a_member_that_leaves_frees_its_partitions() -> None:
    """The next heartbeat of the other gets them."""
    world = World()
    two_members(world)
    left = world.beat("A", -1).response
    assert (left.error_code, left.member_id, left.member_epoch) == (0, "A", -1)
    assert code(world.beat("A", -1)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert answer(world.beat("B", 3)) == (4, {"t": [0, 1, 2]})
    world.beat("B", -1)
    assert group_of(world).state is GroupState.EMPTY


def test_a_silent_member_is_put_out() -> None:
    """After the session timeout; heartbeats prolong it."""
    world = World()
    two_members(world)
    world.advance(44_000)
    world.beat("B", 3)
    world.advance(1_001)
    assert list(group_of(world).members) == ["B"]
    assert answer(world.beat("B", 3)) == (4, {"t": [0, 1, 2]})
    assert code(world.beat("A", 3)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_let_go_is_put_out() -> None:
    """It has its rebalance timeout for it, whatever it heartbeats meanwhile."""
    world = World()
    world.enter_consumer("A")
    world.enter_consumer("B")
    world.beat("A", 2)
    world.advance(15_000)
    world.beat("A", 2)
    world.advance(14_999)
    assert answer(world.beat("B", 3)) == (3, None)
    assert answer(world.beat("A", 2)) == (2, None)
    world.advance(1)
    assert answer(world.beat("B", 3)) == (4, {"t": [0, 1, 2]})
    assert code(world.beat("A", 2)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_wrong_epochs_are_fenced() -> None:
    """One that is ahead, and one that is behind, unless it owns no more than it should."""
    world = World()
    two_members(world)
    assert code(world.beat("A", 9)) == ErrorCode.FENCED_MEMBER_EPOCH
    assert code(world.beat("A", 2)) == ErrorCode.FENCED_MEMBER_EPOCH
    assert code(world.beat("A", 2, owned={"t": [0, 1, 2]})) == ErrorCode.FENCED_MEMBER_EPOCH
    assert answer(world.beat("A", 2, owned={"t": [0]})) == (3, None)


def test_a_fenced_member_joins_again() -> None:
    """With epoch 0 it is told everything."""
    world = World()
    two_members(world)
    assert answer(world.enter_consumer("A")) == (3, {"t": [0, 1]})


def test_a_new_subscription_is_a_new_epoch() -> None:
    """What the member does not read any more it must give up; one that it has all of is answered in full."""
    world = World(catalog=make_catalog(t=3, u=2))
    world.enter_consumer("A")
    assert answer(world.beat("A", 2, topics=["u"])) == (2, {})
    assert answer(world.beat("A", 2, owned={})) == (3, {"u": [0, 1]})
    assert group_of(world).is_subscribed_to("u")
    assert not group_of(world).is_subscribed_to("t")


def test_new_partitions_are_noticed() -> None:
    """When the topic grows, when it is created after the subscription, and when it is deleted."""
    world = World(catalog=make_catalog(t=1))
    world.enter_consumer("A", topics=["t", "u"])
    world.beat("A", 2)
    for counts, expected in (({"t": 2}, (3, {"t": [0, 1]})), ({"t": 2, "u": 1}, (4, {"t": [0, 1], "u": [0]}))):
        catalog = make_catalog(**counts)
        world.catalog.topics, world.catalog.by_id = catalog.topics, catalog.by_id
        assert answer(world.beat("A", expected[0] - 1)) == (expected[0] - 1, None)
        world.groups.topics_changed()
        assert answer(world.beat("A", expected[0] - 1)) == expected
    del world.catalog.topics["t"]
    world.groups.topics_deleted(["t"], world.now_ms)
    assert answer(world.beat("A", 4, owned={"t": [0, 1], "u": [0]}))[1] == {"u": [0]}


INVALID: list[tuple[str, dict[str, Any], ErrorCode]] = [
    ("no group", {"group": ""}, ErrorCode.INVALID_REQUEST),
    ("no instance", {"instance_id": ""}, ErrorCode.INVALID_REQUEST),
    ("no rack", {"rack_id": ""}, ErrorCode.INVALID_REQUEST),
    ("no timeout", {"rebalance_ms": -1}, ErrorCode.INVALID_REQUEST),
    ("owned unknown", {"owned": None}, ErrorCode.INVALID_REQUEST),
    ("owns when joining", {"owned": {"t": [1]}}, ErrorCode.INVALID_REQUEST),
    ("no topics", {"topics": None}, ErrorCode.INVALID_REQUEST),
    ("assignor", {"server_assignor": "sticky"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
    ("regex", {"topics": None, "subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
]


@pytest.mark.parametrize(("fields", "expected"), [one[1:] for one in INVALID], ids=[one[0] for one in INVALID])
def test_invalid_requests_are_refused_with_a_sentence(fields: dict[str, Any], expected: ErrorCode) -> None:
    """Nothing is written."""
    world = World()
    options = {"topics": ["t"], "owned": {}, "rebalance_ms": 30_000, **fields}
    refused = world.beat("A", 0, **options).response
    assert refused.error_code == expected
    assert refused.error_message
    assert not world.log.batches


def test_epochs_that_mean_nothing_are_refused() -> None:
    """Below -2, -2 without an instance, and a member id that is missing where it must be there."""
    world = World()
    world.enter_consumer("A")
    for reply in (world.beat("A", -3), world.beat("A", -2), world.beat("", 2), world.beat("", -1)):
        assert code(reply) == ErrorCode.INVALID_REQUEST
    assert code(world.enter_consumer("", version=1)) == ErrorCode.INVALID_REQUEST


def test_old_clients_are_given_their_member_id() -> None:
    """Version 0 joins without one."""
    assert World().enter_consumer("", version=0).response.member_id == "0001"


def test_unknown_groups_and_members() -> None:
    """Only epoch 0 creates."""
    world = World()
    assert code(world.beat("A", 1)) == ErrorCode.GROUP_ID_NOT_FOUND
    assert code(world.beat("A", -1)) == ErrorCode.GROUP_ID_NOT_FOUND
    world.enter_consumer("A")
    assert code(world.beat("B", 1)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_lets_nobody_in() -> None:
    """group.consumer.max.size; members stay."""
    world = World(group_consumer_max_size=1)
    world.enter_consumer("A")
    assert code(world.enter_consumer("B")) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert answer(world.beat("A", 2)) == (2, None)


def test_the_protocol_can_be_switched_off() -> None:
    """group.coordinator.rebalance.protocols without consumer."""
    world = World(group_coordinator_rebalance_protocols=("classic",))
    assert code(world.enter_consumer("A")) == ErrorCode.UNSUPPORTED_VERSION


def test_assignments_can_be_spaced_out() -> None:
    """Within the interval a newcomer gets the epoch of the present assignment and nothing; afterwards its share."""
    world = World(group_consumer_assignment_interval_ms=1_000)
    world.enter_consumer("A")
    assert answer(world.enter_consumer("B")) == (2, {})
    assert group_of(world).state is GroupState.ASSIGNING
    world.advance(1_000)
    assert answer(world.beat("A", 2)) == (2, {"t": [0, 1]})
    assert answer(world.beat("B", 2)) == (3, None)


def test_members_choose_the_assignor() -> None:
    """The majority wins, else the broker's first."""
    world = World(catalog=make_catalog(t=4, u=4))
    for member in "AB":
        world.enter_consumer(member, topics=["t", "u"], server_assignor="range")
    assert world.groups.assignor_of(group_of(world)) == "range"
    target = group_of(world).target["A"]
    assert target == {topic_id("t"): {0, 1}, topic_id("u"): {0, 1}}


# Regular expressions.


def test_a_regular_expression_selects_topics() -> None:
    """The whole name must match, names and expression add up, and new topics are found."""
    world = World(catalog=make_catalog(orders=1, orders2=1, old_orders=1, x=1))
    joined = world.enter_consumer("A", topics=["x"], subscribed_topic_regex="orders.?")
    assert answer(joined) == (2, {"orders": [0], "orders2": [0], "x": [0]})
    catalog = make_catalog(orders=1, orders3=1, x=1)
    world.catalog.topics, world.catalog.by_id = catalog.topics, catalog.by_id
    world.groups.topics_changed()
    assert answer(world.beat("A", 2, owned={"orders": [0], "x": [0]})) == (3, {"orders": [0], "x": [0], "orders3": [0]})


def test_a_forgotten_regular_expression_leaves_the_log() -> None:
    """When nobody subscribes by it any more."""
    world = World()
    world.enter_consumer("A", topics=None, subscribed_topic_regex="t.*")
    assert list(group_of(world).regexes) == ["t.*"]
    world.beat("A", 2, subscribed_topic_regex="")
    assert not group_of(world).regexes
    world.restart()
    assert not group_of(world).regexes


# Static members.


def test_a_static_member_that_is_away_keeps_its_partitions() -> None:
    """-2 says that it will be back; its successor gets the same partitions in the same epoch."""
    world = World()
    world.enter_consumer("A", instance_id="i")
    assert answer(world.beat("A", -2, instance_id="i")) == (-2, None)
    assert code(world.beat("A", 2, instance_id="i")) == ErrorCode.FENCED_MEMBER_EPOCH
    assert answer(world.enter_consumer("B", instance_id="i")) == (2, {"t": [0, 1, 2]})
    assert code(world.beat("A", 2, instance_id="i")) == ErrorCode.FENCED_INSTANCE_ID
    assert code(world.beat("B", 2, instance_id="x")) == ErrorCode.UNKNOWN_MEMBER_ID
    world.restart()
    assert answer(world.beat("B", 2, instance_id="i")) == (2, None)


def test_an_instance_that_is_in_use_is_not_given_away() -> None:
    """The newcomer must wait until the other has left."""
    world = World()
    world.enter_consumer("A", instance_id="i")
    assert code(world.enter_consumer("B", instance_id="i")) == ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_static_member_that_stays_away_is_put_out() -> None:
    """Its session goes on while it is away."""
    world = World()
    world.enter_consumer("A", instance_id="i")
    world.beat("A", -2, instance_id="i")
    world.advance(45_000)
    assert group_of(world).state is GroupState.EMPTY
    assert answer(world.enter_consumer("B", instance_id="i"))[1] == {"t": [0, 1, 2]}


# Offsets.


def commit(world: World, member: str, epoch: int, partition: int = 0, version: int = 9) -> list[ErrorCode]:
    """OffsetCommit of one partition of the topic, by its id."""
    commits = [Commit("t", topic_id("t"), partition, 7, -1, "")]
    caller = world.caller(version)
    return world.groups.commit_offsets(caller, "g", (member, None, epoch), commits, -1, list).response


def test_who_commits_to_a_consumer_group() -> None:
    """A member with its epoch, or with an older one for partitions that it has had since."""
    world = World()
    two_members(world)
    none, stale = [ErrorCode.NONE], [ErrorCode.STALE_MEMBER_EPOCH]
    assert commit(world, "A", 3) == none
    assert commit(world, "A", 3, 2) == none
    assert commit(world, "A", 2) == none
    assert commit(world, "A", 2, 2) == stale
    assert commit(world, "B", 2, 2) == stale
    assert commit(world, "A", 1) == stale
    assert commit(world, "A", 4) == stale
    assert commit(world, "A", 3, version=8) == [ErrorCode.UNSUPPORTED_VERSION]
    assert commit(world, "", -1) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert commit(world, "Z", 3) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_an_empty_consumer_group_takes_commits_from_tools() -> None:
    """And keeps them."""
    world = World()
    world.enter_consumer("A")
    world.beat("A", -1)
    assert commit(world, "", -1) == [ErrorCode.NONE]
    assert world.committed() == 7


def test_who_reads_a_consumer_groups_offsets() -> None:
    """Anybody who claims no membership, and members with their epoch."""
    world = World()
    world.enter_consumer("A")
    check = world.groups.check_fetch
    check("g", None, -1, world.now_ms)
    check("g", "A", 2, world.now_ms)
    for member, epoch, expected in (
        ("A", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("B", 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(Exception, match=expected.name):
            check("g", member, epoch, world.now_ms)


def test_consumer_groups_are_listed_deleted_and_expire() -> None:
    """With their type; not while they have members."""
    world = World()
    world.enter_consumer("A")
    commit(world, "A", 2)
    assert [tuple(one) for one in world.groups.list_groups()] == [("g", "consumer", "consumer", "Stable")]
    delete = world.groups.delete_groups
    assert delete(world.caller(2), ["g"], dict).response == {"g": ErrorCode.NON_EMPTY_GROUP}
    world.beat("A", -1)
    assert delete(world.caller(2), ["g"], dict).response == {"g": ErrorCode.NONE}
    assert not world.groups.list_groups()
    world.enter_consumer("A")
    world.beat("A", -1)
    world.advance(600_000)
    assert not world.groups.list_groups()
    world.restart()
    assert not world.groups.list_groups()


# The log.


def test_a_consumer_group_survives_a_restart() -> None:
    """Epochs, assignments and pending revocations come back."""
    world = World()
    world.enter_consumer("A")
    world.enter_consumer("B")
    world.beat("A", 2)
    before = group_of(world).snapshot()
    world.restart()
    assert group_of(world).snapshot() == before
    assert answer(world.beat("A", 2, owned={"t": [0, 1]})) == (3, None)
    assert answer(world.beat("B", 3)) == (3, {"t": [2]})


def test_a_heartbeat_that_the_log_refuses_changes_nothing() -> None:
    """The client looks for the coordinator again."""
    world = World()
    world.enter_consumer("A")
    world.log.refuse_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code(world.enter_consumer("B")) == ErrorCode.NOT_COORDINATOR
    assert list(group_of(world).members) == ["A"]


def test_an_assignment_is_told_when_it_is_replicated() -> None:
    """Not before, and not by a repeated request either."""
    world = World()
    world.log.replicated = False
    first, again = world.enter_consumer("A"), world.enter_consumer("A")
    assert (first.response, again.response) == (None, None)
    world.replicate()
    assert answer(first) == answer(again) == (2, {"t": [0, 1, 2]})


def test_a_group_that_only_had_offsets_becomes_a_consumer_group() -> None:
    """The offsets stay; so does an empty classic group's, which is replaced."""
    world = World()
    world.commit(5)
    world.enter_consumer("A")
    assert world.committed() == 5
    (member,) = world.stable_group(group="old")
    world.leave(member, group="old")
    world.enter_consumer("A", group="old")
    for _ in range(2):
        assert {one.group_id: one.group_type for one in world.groups.list_groups()} == {
            "g": "consumer",
            "old": "consumer",
        }
        world.restart()
