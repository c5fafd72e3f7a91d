"""`kafkapy partition`, against three brokers that only pretend to copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkapy.cli.partition import move as move_module
from kafkapy.cli.partition.plan import Change, ImpossiblePlan, Placed, away_from, spread, to_brokers
from kafkapy.cli.session import Session
from kafkapy.types import TopicPartition
from tests.cli.fake_cluster import MovingCluster
from tests.cli.runner import Result, run

Call = Callable[..., Result]
A0 = TopicPartition("a", 0)


@pytest.fixture
def cluster() -> MovingCluster:
    """Topic a has two partitions, b and c one each."""
    return MovingCluster({"a": [[1], [2]], "b": [[1, 2, 3]], "c": [[3]]})


@pytest.fixture
def call(cluster: MovingCluster, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run `kafkapy partition ...` there."""
    monkeypatch.setattr(Session, "client", property(lambda self: cluster.client()))
    monkeypatch.setattr(move_module, "POLL_PAUSE_S", 0)
    return lambda *args, **options: run("partition", *args, **options)


def lines(result: Result) -> list[list[str]]:
    """The cells of what was printed."""
    return [line.split("\t") for line in result.out.splitlines()]


def test_status_shows_replicas_and_moves(cluster: MovingCluster, call: Call) -> None:
    """All partitions, page after page, with what is wrong."""
    cluster.partitions[TopicPartition("b", 0)].isr = [1]
    cluster.partitions[TopicPartition("b", 0)].elr = [3]
    cluster.partitions[TopicPartition("c", 0)].leader = -1
    rows = call("status", "--format", "json").json
    assert [(row["topic"], row["partition"]) for row in rows] == [("a", 0), ("a", 1), ("b", 0), ("c", 0)]
    assert [row["problem"] for row in rows[2:]] == ["2 of 3 replicas not in sync", "no leader; waits for broker 3"]
    assert (rows[2]["elr"], rows[2]["epoch"], rows[3]["leader"]) == ([3], 4, None)
    assert len(lines(call("status", "--unhealthy"))) == 2
    assert call("status", "--moving").out == ""
    call("move", "a", "--to", "3", "--no-wait")
    (first, second) = call("status", "--moving", "--format", "json").json
    assert (first["adding"], first["removing"], first["problem"]) == ([3], [1], None)
    assert (second["adding"], second["removing"]) == ([3], [2])


@pytest.mark.parametrize(
    ("word", "partitions"), [("a", [0, 1]), ("a:1", [1]), ("a:0-1", [0, 1]), ("a:1,0", [0, 1]), ("a:0-0", [0])]
)
def test_partitions_are_named_by_numbers_and_ranges(call: Call, word: str, partitions: list[int]) -> None:
    """After a colon."""
    assert [row["partition"] for row in call("status", word, "--format", "json").json] == partitions


@pytest.mark.parametrize(("word", "code"), [("a:", 2), ("a:x", 2), ("a:1-", 2), ("a:5", 1), ("nosuch", 1)])
def test_partitions_that_are_not_there_are_named(call: Call, word: str, code: int) -> None:
    """A wrong number is a failure, a wrong word a wrong usage."""
    result = call("status", word)
    assert result.code == code and "Traceback" not in result.err


def test_a_move_is_shown_followed_and_done(cluster: MovingCluster, call: Call) -> None:
    """With the bytes that have to be copied."""
    result = call("move", "a", "--to", "2,3")
    assert result.code == 0, result.err
    assert lines(result) == [["a", "0", "1", "2,3", "2000", "done"], ["a", "1", "2", "3,2", "1000", "done"]]
    assert cluster.replicas("a") == [[2, 3], [3, 2]]
    again = call("move", "a", "--to", "2,3")
    assert (again.code, again.out, again.err) == (0, "", "everything is there already\n")


def test_a_dry_run_changes_nothing(cluster: MovingCluster, call: Call) -> None:
    """The plan is all it prints."""
    result = call("move", "a:0", "--to", "3", "--dry-run")
    assert lines(result) == [["a", "0", "1", "3", "1000", "planned"]]
    assert cluster.replicas("a") == [[1], [2]]


def test_a_move_under_way_can_be_followed_and_called_off(cluster: MovingCluster, call: Call) -> None:
    """The same command again follows it; --cancel takes it back."""
    assert lines(call("move", "a:0", "--to", "3", "--no-wait")) == [["a", "0", "1", "3", "1000", "moving"]]
    assert lines(call("move", "a:0", "--to", "3"))[0][-1] == "done"
    call("move", "a:1", "--to", "1", "--no-wait")
    assert lines(call("move", "--cancel", "--dry-run"))[0][-1] == "would be called off"
    assert lines(call("move", "--cancel")) == [["a", "1", "1", "2", "-", "called off"]]
    assert cluster.replicas("a") == [[3], [2]]
    assert call("move", "--cancel").err == "nothing is moving\n"


def test_a_throttle_is_set_and_taken_away(cluster: MovingCluster, call: Call) -> None:
    """For the replicas of the topic and for each broker that takes part."""
    assert call("move", "a:0", "--to", "3", "--throttle", "50M").code == 0
    assert ("a", "leader.replication.throttled.replicas", "0:1") in cluster.configs_history
    assert ("a", "follower.replication.throttled.replicas", "0:3") in cluster.configs_history
    assert ("3", "follower.replication.throttled.rate", str(50 * 1024**2)) in cluster.configs_history
    assert not any(cluster.configs.values())


def test_a_partition_without_a_leader_cannot_move(cluster: MovingCluster, call: Call) -> None:
    """Others do, and the exit code says that it was only some."""
    cluster.partitions[A0].leader = -1
    result = call("move", "a", "--to", "3")
    assert result.code == 3 and "a-0 has no leader to copy from" in result.err
    assert [row[-1] for row in lines(result)] == ["LEADER_NOT_AVAILABLE", "done"]


@pytest.mark.parametrize(
    "args",
    [
        ("a",),
        ("a", "--to", "1", "--spread"),
        ("--to", "1"),
        ("a", "--to", "1,1"),
        ("a", "--to", "x"),
        ("a", "--to", "1", "--throttle", "fast"),
        ("a", "--to", "1", "--throttle", "0"),
        ("a", "--to", "1", "--throttle", "1M", "--no-wait"),
    ],
)
def test_a_move_without_sense_is_refused(call: Call, args: tuple[str, ...]) -> None:
    """As wrong usage, before anything is asked."""
    assert call("move", *args).code == 2


def test_a_move_to_nowhere_is_refused(call: Call) -> None:
    """Brokers that are not there, or too few of them."""
    assert "there is no broker 9" in call("move", "a", "--to", "9").err
    assert "b-0 has 3 replicas" in call("move", "--away-from", "3").err


def test_preferred_leaders_are_elected(cluster: MovingCluster, call: Call) -> None:
    """Of all partitions, or of those that are named."""
    cluster.partitions[TopicPartition("b", 0)].leader = 3
    assert lines(call("elect", "--preferred")) == [["b", "0", "1", "elected"]]
    assert lines(call("elect", "a:0", "b", "--preferred")) == [
        ["a", "0", "1", "not needed"],
        ["b", "0", "1", "not needed"],
    ]
    assert call("elect", "--preferred").err == "no election was needed\n"


def test_an_unclean_election_asks_first(cluster: MovingCluster, call: Call) -> None:
    """Records may be lost, so it needs names and consent."""
    cluster.partitions[A0].leader = -1
    assert call("elect", "--unclean", "--yes").code == 2
    assert call("elect", "a:0", "--unclean").code == 2
    assert call("elect", "a", "--preferred", "--unclean").code == 2
    cluster.fenced = {1}
    failed = call("elect", "a", "--unclean", "--yes")
    assert failed.code == 3 and "PREFERRED_LEADER_NOT_AVAILABLE" in failed.err
    cluster.fenced = set()
    assert lines(call("elect", "a:0", "--unclean", "--yes")) == [["a", "0", "1", "elected"]]


def placed_of(*replicas: tuple[int, ...]) -> list[Placed]:
    """Partitions of topic a."""
    return [Placed(TopicPartition("a", index), found) for index, found in enumerate(replicas)]


def test_the_preferred_leaders_of_a_move_take_turns() -> None:
    """Otherwise the first broker would lead everything."""
    changes = to_brokers(placed_of((1,), (1,), (2, 3)), (2, 3))
    assert [change.after for change in changes] == [(2, 3), (3, 2)]


def test_replicas_that_leave_go_where_there_are_few_and_to_another_rack() -> None:
    """Each keeps its place in the list."""
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    everything = placed_of((1, 2), (3, 1))
    (change, _) = away_from(everything, everything, racks, [1])
    assert change == Change(A0, (1, 2), (4, 2))
    with pytest.raises(ImpossiblePlan, match="a-0 has 4 replicas"):
        away_from(placed_of((1, 2, 3, 4)), [], racks, [1])


@settings(deadline=None)
@given(
    st.integers(1, 6).flatmap(
        lambda brokers: st.tuples(
            st.just(brokers),
            st.lists(st.lists(st.integers(1, brokers), min_size=1, unique=True), min_size=1, max_size=12),
        )
    )
)
def test_spread_is_even_and_keeps_what_it_can(case: tuple[int, list[list[int]]]) -> None:
    """No partition gets more or fewer replicas, or one broker twice; loads differ by one at most where there are no racks."""
    brokers, lists = case
    placed = placed_of(*(tuple(replicas) for replicas in lists))
    racks: dict[int, Any] = dict.fromkeys(range(1, brokers + 1))
    after = {one.partition: one.replicas for one in placed}
    after.update({change.partition: change.after for change in spread(placed, racks)})
    assert [len(after[one.partition]) for one in placed] == [len(one.replicas) for one in placed]
    assert all(len(set(replicas)) == len(replicas) for replicas in after.values())
    load = Counter(dict.fromkeys(racks, 0))
    load.update(broker for replicas in after.values() for broker in replicas)
    assert max(load.values()) - min(load.values()) <= 1
    assert spread([Placed(key, replicas) for key, replicas in after.items()], racks) == []


def test_spread_uses_a_new_broker_and_leaves_one_that_has_gone() -> None:
    """Two replicas of each; broker 9 is not there any more."""
    racks: dict[int, Any] = {1: "a", 2: "b", 3: "c"}
    changes = spread(placed_of((1, 2), (2, 1), (1, 9)), racks)
    final = {one.partition: one.replicas for one in placed_of((1, 2), (2, 1), (1, 9))}
    final.update({change.partition: change.after for change in changes})
    assert sorted(Counter(broker for replicas in final.values() for broker in replicas).items()) == [
        (1, 2),
        (2, 2),
        (3, 2),
    ]
    assert len({replicas[0] for replicas in final.values()}) == 3
