"""Committed offsets: who may commit, what is fetched, what transactions hold back, what expires."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.groups.commits import Commit
from kafkapy.types import ZERO_UUID
from tests.groups.fakes import World, subscription, topic_id

DAY_MS = 24 * 3600 * 1000
PRODUCER = SimpleNamespace(producer_id=7, producer_epoch=0)


def test_a_simple_consumer_commits_without_a_group() -> None:
    """Generation -1 and no member id: the group exists from then on, empty."""
    world = World()
    assert world.commit(42).response == [ErrorCode.NONE]
    assert world.committed() == 42
    assert [(one.group_id, one.group_type, one.state) for one in world.groups.list_groups()] == [
        ("g", "classic", "Empty")
    ]


def test_nothing_committed_is_minus_one() -> None:
    """Of a group that exists and of one that does not."""
    world = World()
    assert world.committed() == -1
    world.commit(1)
    assert world.committed(1) == -1


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_member_of_no_group_is_refused(version: int, code: ErrorCode) -> None:
    """Newer versions say that the group is not there."""
    assert World().commit(1, "m", 3, version=version).response == [code]


def test_members_commit_with_their_generation() -> None:
    """And are refused with another one, or as somebody else."""
    world = World()
    (member,) = world.stable_group()
    assert world.commit(5, member, 1).response == [ErrorCode.NONE]
    assert world.commit(6, member, 0).response == [ErrorCode.ILLEGAL_GENERATION]
    assert world.commit(6, "nobody", 1).response == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.commit(6).response == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.committed() == 5


def test_an_empty_group_takes_commits_from_outside_only() -> None:
    """Tools seek while nobody consumes; a member of an old generation does not count as a tool."""
    world = World()
    (member,) = world.stable_group()
    world.leave(member)
    assert world.commit(9).response == [ErrorCode.NONE]
    assert world.commit(8, member, 1).response == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_commit_while_the_assignment_is_open_is_refused() -> None:
    """In CompletingRebalance nobody knows who owns what; in PreparingRebalance the old owner still does."""
    world = World()
    (first,) = world.stable_group()
    world.enter()
    assert world.commit(5, first, 1).response == [ErrorCode.NONE]
    world.join(first)
    assert world.commit(6, first, 2).response == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_commit_keeps_the_session_alive() -> None:
    """As a heartbeat would."""
    world = World()
    (member,) = world.stable_group()
    world.advance(9_999)
    world.commit(1, member, 1)
    world.advance(9_999)
    assert world.heartbeat(member, 1) == ErrorCode.NONE


def test_metadata_has_a_limit() -> None:
    """offset.metadata.max.bytes; the other partitions of the request are committed."""
    world = World(offset_metadata_max_bytes=4)
    assert world.commit(1, metadata="12345").response == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert world.commit(1, metadata="1234").response == [ErrorCode.NONE]
    assert world.commit(2, metadata=None).response == [ErrorCode.NONE]
    fetched = world.groups.fetch_offsets("g", "t", ZERO_UUID, [0], require_stable=False)[0]
    assert (fetched.offset, fetched.metadata, fetched.leader_epoch) == (2, "", -1)


def test_a_commit_is_answered_when_it_is_replicated() -> None:
    """And times out when it never is."""
    world = World()
    world.log.replicated = False
    first, second = world.commit(1), world.commit(2)
    assert first.response is None
    world.replicate()
    assert (first.response, second.response) == ([ErrorCode.NONE], [ErrorCode.NONE])
    late = world.commit(3)
    world.advance(5_000)
    assert late.response == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_a_fetch_waits_for_what_it_would_show() -> None:
    """An offset that a failover could take back is not shown."""
    world = World()
    world.log.replicated = False
    world.commit(1)
    fetch = world.groups.when_committed(["g"], world.now_ms, lambda: world.committed())
    assert fetch.response is None
    world.replicate()
    assert fetch.response == 1


def test_a_commit_that_the_log_refuses_changes_nothing() -> None:
    """NOT_COORDINATOR sends the client to the new leader."""
    world = World()
    world.commit(1)
    world.log.refuse_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.commit(2).response == [ErrorCode.NOT_COORDINATOR]
    assert world.committed() == 1


def test_commits_that_wait_are_answered_when_leadership_moves() -> None:
    """Their fate is unknown, so the client asks the next coordinator."""
    world = World()
    world.log.replicated = False
    waiting = world.commit(1)
    world.groups.resigned(0, world.now_ms)
    assert waiting.response == [ErrorCode.NOT_COORDINATOR]
    assert world.commit(1).response == [ErrorCode.NOT_COORDINATOR]


def test_offsets_survive_a_restart() -> None:
    """With metadata, leader epoch and topic id."""
    world = World()
    world.commit(42, metadata="note")
    world.restart()
    assert world.committed() == 42
    assert world.groups.fetch_offsets("g", "t", ZERO_UUID, [0], require_stable=False)[0].metadata == "note"


def test_an_offset_of_a_topic_that_was_created_anew_is_none() -> None:
    """The name is the same, the id is not."""
    world = World()
    member = ("", None, -1)
    commits = [Commit("t", topic_id("old"), 0, 42, 3, "")]
    world.groups.commit_offsets(world.caller(10), "g", member, commits, -1, list)
    for asked, offset in ((topic_id("old"), 42), (topic_id("new"), -1), (ZERO_UUID, 42)):
        assert world.groups.fetch_offsets("g", "t", asked, [0], require_stable=False)[0].offset == offset


# Transactions.


def test_a_transaction_holds_its_offsets_back() -> None:
    """Until its marker; who requires stable offsets is told to come back."""
    world = World()
    world.commit(1)
    assert world.commit(5, producer=PRODUCER).response == [ErrorCode.NONE]
    assert world.committed() == 1
    with pytest.raises(KafkaError) as caught:
        world.committed(stable=True)
    assert caught.value.code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert world.committed(1, stable=True) == -1
    world.groups.end_transaction(0, 7, commit=True)
    assert world.committed(stable=True) == 5


def test_an_aborted_transaction_leaves_no_trace() -> None:
    """And another producer's stays."""
    world = World()
    world.commit(5, producer=PRODUCER)
    world.commit(6, producer=SimpleNamespace(producer_id=8, producer_epoch=0))
    world.groups.end_transaction(0, 7, commit=False)
    assert world.committed() == -1
    world.groups.end_transaction(0, 8, commit=True)
    assert world.committed() == 6


def test_a_plain_commit_after_a_transactional_one_wins() -> None:
    """The later record counts, although the transaction ends after it."""
    world = World()
    world.commit(5, producer=PRODUCER)
    world.commit(9)
    world.groups.end_transaction(0, 7, commit=True)
    assert world.committed() == 9


def test_a_transaction_of_an_old_client_does_not_say_who_it_is() -> None:
    """Generation -1 and no member id are let in even while the group has members, and during a rebalance."""
    world = World()
    (member,) = world.stable_group()
    assert world.commit(5, producer=PRODUCER).response == [ErrorCode.NONE]
    assert world.commit(5, "nobody", 1, producer=PRODUCER).response == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.commit(5, member, 0, producer=PRODUCER).response == [ErrorCode.ILLEGAL_GENERATION]
    world.enter()
    world.join(member)
    assert world.commit(5, member, 2, producer=PRODUCER).response == [ErrorCode.NONE]
    assert world.commit(1, "m", 1, group="none", producer=PRODUCER).response == [ErrorCode.ILLEGAL_GENERATION]
    assert world.commit(1, group="", producer=PRODUCER).response == [ErrorCode.INVALID_GROUP_ID]


def test_a_pending_offset_comes_back_from_the_log() -> None:
    """Nothing but the marker decides, even after a restart."""
    world = World()
    world.commit(5, producer=PRODUCER)
    world.restart()
    assert world.committed() == -1
    world.groups.end_transaction(0, 7, commit=True)
    assert world.committed() == 5


# Deletion and expiry.


def test_offsets_of_unread_topics_can_be_deleted() -> None:
    """What a member subscribes to stays."""
    world = World()
    (member,) = world.stable_group()
    world.commit(1, member, 1)
    world.commit(1, member, 1, topic="other")
    partitions = [("t", 0), ("other", 0), ("other", 9)]
    reply = world.groups.delete_offsets(world.caller(0), "g", partitions, list)
    assert reply.response == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE, ErrorCode.NONE]
    assert (world.committed(), world.committed(topic="other")) == (1, -1)
    world.restart()
    assert (world.committed(), world.committed(topic="other")) == (1, -1)


def test_offsets_of_groups_with_other_members_cannot_be_deleted() -> None:
    """What a Connect worker reads is not known."""
    world = World()
    world.stable_group(protocol_type="connect", protocols={"sessioned": b""})
    with pytest.raises(KafkaError) as caught:
        world.groups.delete_offsets(world.caller(0), "g", [("t", 0)], list)
    assert caught.value.code == ErrorCode.NON_EMPTY_GROUP
    with pytest.raises(KafkaError) as caught:
        world.groups.delete_offsets(world.caller(0), "none", [("t", 0)], list)
    assert caught.value.code == ErrorCode.GROUP_ID_NOT_FOUND


def test_deleting_groups() -> None:
    """Empty ones go with all their offsets, pending ones included; the others answer why not."""
    world = World(partitions=3)
    world.commit(1, group="empty")
    world.commit(2, group="empty", producer=PRODUCER, partition=1)
    (member,) = world.stable_group(group="left")
    world.leave(member, group="left")
    world.stable_group(group="busy")
    asked = ["empty", "left", "busy", "none"]
    codes = world.groups.delete_groups(world.caller(2), asked, dict).response
    wanted = [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]
    assert [codes[one] for one in asked] == wanted
    for partition in range(3):
        world.groups.end_transaction(partition, 7, commit=True)
    for _ in range(2):
        assert [one.group_id for one in world.groups.list_groups()] == ["busy"]
        world.restart()


def test_offsets_go_with_their_topic() -> None:
    """A topic of the same name starts anew."""
    world = World()
    world.commit(1)
    world.commit(1, topic="other")
    world.groups.topics_deleted(["t"], world.now_ms)
    assert (world.committed(), world.committed(topic="other")) == (-1, 1)


def test_a_simple_consumers_offsets_age_from_their_commit() -> None:
    """After offsets.retention.minutes they are gone, each on its own."""
    world = World()
    world.commit(1)
    world.advance(DAY_MS)
    world.commit(2, partition=1)
    world.advance(6 * DAY_MS + 600_000)
    assert (world.committed(), world.committed(1)) == (-1, 2)
    world.advance(DAY_MS)
    assert not world.groups.list_groups()


def test_a_groups_offsets_age_from_when_it_became_empty() -> None:
    """However old the commits are; then the group goes too."""
    world = World()
    (member,) = world.stable_group()
    world.commit(1, member, 1)
    for _ in range(100):
        world.advance(2 * 3600 * 1000)
        world.heartbeat(member, 1)
        (member,) = world.stable_group() if world.heartbeat(member, 1) else (member,)
    world.leave(member)
    world.advance(6 * DAY_MS)
    assert world.committed() == 1
    world.advance(DAY_MS + 600_000)
    assert world.committed() == -1
    assert not world.groups.list_groups()
    world.restart()
    assert not world.groups.list_groups()


def test_offsets_of_topics_that_members_left_age_too() -> None:
    """In a stable group, those of subscribed topics do not."""
    world = World(offsets_retention_minutes=10)
    (member,) = world.stable_group(session_ms=1_800_000)
    world.commit(1, member, 1)
    world.commit(1, member, 1, topic="other")
    world.advance(1_200_000)
    assert (world.committed(), world.committed(topic="other")) == (1, -1)


def test_nothing_expires_while_the_group_rebalances_or_cannot_be_understood() -> None:
    """A rebalance may bring other topics, and another protocol's topics are unknown."""
    for options in ({"protocols": {"range": b""}}, {"protocol_type": "connect"}):
        world = World(offsets_retention_minutes=10)
        (member,) = world.stable_group(session_ms=1_800_000, **options)
        world.commit(1, member, 1, topic="other")
        world.advance(1_700_000)
        assert world.committed(topic="other") == 1


def test_a_pending_offset_keeps_the_committed_one() -> None:
    """A transaction that is open shows that the group is used."""
    world = World(offsets_retention_minutes=10)
    world.commit(1)
    world.commit(2, producer=PRODUCER)
    world.advance(3_600_000)
    assert world.committed() == 1
    world.groups.end_transaction(0, 7, commit=False)
    world.advance(600_000)
    assert world.committed() == -1


def test_old_clients_choose_their_own_retention() -> None:
    """It counts from the commit, whatever the group does, and survives a restart."""
    world = World()
    (member,) = world.stable_group(session_ms=1_800_000, protocols={"range": subscription("x")})
    world.commit(1, member, 1, retention_ms=1_000_000, version=4)
    world.restart()
    world.advance(600_000)
    assert world.committed() == 1
    world.advance(600_000)
    assert world.committed() == -1
