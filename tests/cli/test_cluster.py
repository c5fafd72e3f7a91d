"""`kafkapy cluster`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkapy.cli import cluster_health
from kafkapy.cli.session import Session
from kafkapy.client.admin import BrokerInfo, ClusterInfo
from kafkapy.testing.broker import Broker
from kafkapy.types import TopicPartition
from kafkapy.wire.messages.describe_quorum import ReplicaState
from tests.cli.fake_cluster import MovingCluster
from tests.cli.runner import Result, run

Kafkapy = Callable[..., Result]


def test_the_cluster_and_its_brokers_are_shown(kafkapy: Kafkapy, broker: Broker) -> None:
    """With where each listens and how much it holds."""
    broker.create_topic("a", 2)
    found = kafkapy("cluster", "info", "--format", "json").json
    assert len(found["cluster_id"]) == 22
    assert found["partitions"] >= 2
    (row,) = found["brokers"]
    assert (row["id"], row["host"], row["port"], row["state"]) == (1, "127.0.0.1", broker.port, "ready")
    assert row["free"] > 0 and row["log_dirs"]
    assert kafkapy("cluster", "info").out.startswith("cluster_id\t")


def test_a_healthy_cluster_is_reported_as_such(kafkapy: Kafkapy) -> None:
    """Exit code 0, and no problems."""
    result = kafkapy("cluster", "health", "--wait", "30s", "--format", "json")
    assert (result.code, result.json["healthy"], result.json["problems"]) == (0, True, [])
    assert result.json["controller"] == 1


def test_the_quorum_of_one_is_its_leader(kafkapy: Kafkapy) -> None:
    """It votes for itself, and lags behind nobody."""
    found = kafkapy("cluster", "quorum", "--format", "json").json
    assert (found["leader"], found["voters"], found["observers"]) == (1, [1], [])
    assert [(row["node"], row["role"], row["lag"]) for row in found["nodes"]] == [(1, "leader", 0)]


@pytest.fixture
def sick(monkeypatch: pytest.MonkeyPatch) -> MovingCluster:
    """Three brokers of which one is fenced and one directory unknown, and partitions in all states."""
    cluster = MovingCluster({"a": [[1, 2, 3], [2, 3, 1], [3, 1, 2]], "b": [[1, 4]]})
    cluster.fenced = {3}
    for index, isr in enumerate(([1], [2, 1], [])):
        cluster.partitions[TopicPartition("a", index)].isr = isr
    cluster.partitions[TopicPartition("a", 2)].leader = -1
    cluster.partitions[TopicPartition("b", 0)].isr = [1]
    monkeypatch.setattr(Session, "client", property(lambda self: cluster.client()))
    return cluster


def test_everything_that_is_wrong_is_named(sick: MovingCluster) -> None:
    """And counted, and the exit code is 1."""
    result = run("cluster", "health", "--format", "json")
    report = result.json
    assert result.code == 1 and not report["healthy"]
    assert (report["brokers"], report["missing"], report["controller"]) == (4, [3, 4], 2)
    assert (report["offline"], report["under_min_isr"], report["under_replicated"]) == (1, 3, 4)
    assert {problem["subject"]: problem["problem"] for problem in report["problems"]} == {
        "voter 1": "was last heard of 10 s ago",
        "voter 3": "has not been heard of by the leader of the quorum",
        "broker 3": "fenced",
        "broker 4": "keeps replicas, but is not registered",
        "a-0": "2 of 3 replicas not in sync; 1 in sync, so writes with acks=all are refused: 2 are wanted",
        "a-1": "1 of 3 replicas not in sync",
        "a-2": "no leader",
        "b-0": "1 of 2 replicas not in sync; 1 in sync, so writes with acks=all are refused: 2 are wanted",
    }


def test_a_quorum_without_a_leader_is_a_problem(sick: MovingCluster) -> None:
    """Nobody waits for one to come, and moves are not asked for."""
    sick.quorum.error_code = 6
    report = run("cluster", "health", "--format", "json").json
    assert report["controller"] is None
    assert {"subject": "quorum", "problem": "no leader is known: NOT_LEADER_OR_FOLLOWER"} in report["problems"]


def test_the_quorum_is_shown_with_the_lag_of_each_node(sick: MovingCluster) -> None:
    """Counted from the leader's own row; observers follow."""
    sick.quorum.current_voters[0].last_fetch_timestamp = 49_000
    sick.quorum.observers = [ReplicaState(replica_id=9, log_end_offset=40, last_fetch_timestamp=45_000)]
    found = run("cluster", "quorum", "--format", "json").json
    assert (found["leader"], found["epoch"], found["high_watermark"]) == (2, 7, 90)
    rows = [(row["node"], row["role"], row["lag"], row["fetched_ms_ago"]) for row in found["nodes"]]
    assert rows == [(1, "voter", 5, 1000), (2, "leader", 0, 0), (3, "voter", None, None), (9, "observer", 60, 5000)]


def test_silent_brokers_are_problems(broker: Broker) -> None:
    """And a cluster without a controller."""
    brokers = [BrokerInfo(1, "127.0.0.1", broker.port, None, False), BrokerInfo(7, "127.0.0.1", 1, None, True)]
    with broker.client() as client:
        found = list(cluster_health.broker_problems(client, ClusterInfo("id", -1, brokers)))
    assert found == [("cluster", "no controller is known"), ("broker 7", "fenced")]


def test_waiting_for_a_cluster_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that never comes up is unreachable."""
    monkeypatch.setattr(cluster_health, "WAIT_PAUSE_S", 0.01)
    result = run("cluster", "health", "--wait", "30ms", "-b", "127.0.0.1:1")
    assert result.code == 4 and "no broker at 127.0.0.1:1" in result.err
    assert run("cluster", "health", "--wait", "soon").code == 2
