"""`kafkapy cluster`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkapy.cli import cluster
from kafkapy.client.admin import BrokerInfo, ClusterInfo
from kafkapy.testing.broker import Broker
from kafkapy.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
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


def test_problems_of_partitions_are_named() -> None:
    """Without a leader, or with replicas that lag."""
    partitions = [
        MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1, 2]),
        MetadataResponsePartition(partition_index=1, leader_id=-1, replica_nodes=[1], isr_nodes=[]),
        MetadataResponsePartition(partition_index=2, leader_id=1, replica_nodes=[1, 2, 3], isr_nodes=[1]),
    ]
    topic = MetadataResponseTopic(name="a", partitions=partitions)
    assert list(cluster._partition_problems([topic])) == [
        ("a-1", "no leader"),
        ("a-2", "2 of 3 replicas not in sync"),
    ]


def test_fenced_and_silent_brokers_are_problems(broker: Broker) -> None:
    """And a cluster without a controller."""
    brokers = [BrokerInfo(1, "127.0.0.1", broker.port, None, False), BrokerInfo(7, "127.0.0.1", 1, None, True)]
    with broker.client() as client:
        found = list(cluster._broker_problems(client, ClusterInfo("id", -1, brokers)))
    assert found == [("cluster", "no controller is known"), ("broker 7", "fenced")]


def test_waiting_for_a_cluster_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that never comes up is unreachable."""
    monkeypatch.setattr(cluster, "WAIT_PAUSE_S", 0.01)
    result = run("cluster", "health", "--wait", "30ms", "-b", "127.0.0.1:1")
    assert result.code == 4 and "no broker at 127.0.0.1:1" in result.err
    assert run("cluster", "health", "--wait", "soon").code == 2
