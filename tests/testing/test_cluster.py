"""`kafkapy.testing.Cluster`: three processes that can be stopped, killed and paused one by one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkapy.client.admin import describe_cluster
from kafkapy.errors import StartError
from kafkapy.testing import Cluster

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Shared by the tests of this module; each leaves all nodes running."""
    with Cluster(3, topics={"orders": 3}, racks=("a", "b")) as cluster:
        yield cluster


def test_all_nodes_are_one_cluster(cluster: Cluster) -> None:
    """With the topics and racks that were asked for."""
    with cluster.client() as client:
        found = describe_cluster(client)
        partitions = client.partitions("orders")
    assert [(broker.id, broker.rack, broker.fenced) for broker in found.brokers] == [
        (1, "a", False),
        (2, "b", False),
        (3, "a", False),
    ]
    assert {len(partition.replica_nodes) for partition in partitions} == {3}
    assert cluster.controller() in cluster.nodes
    assert {cluster.leader("orders", index) for index in range(3)} == {1, 2, 3}


def test_a_killed_node_loses_its_leaderships_and_comes_back(cluster: Cluster) -> None:
    """On the same data and port."""
    victim = cluster.leader("orders", 0)
    cluster.kill(victim)
    assert victim not in cluster.running
    cluster.wait_for(lambda client: cluster.leader("orders", 0) != victim or None, "another leader")
    cluster.start(victim)
    cluster.wait_in_sync()


def test_a_paused_node_loses_its_leaderships_and_goes_on(cluster: Cluster) -> None:
    """Its sockets stay open all the while."""
    victim = cluster.leader("orders", 1)
    cluster.pause(victim)
    cluster.wait_for(lambda client: cluster.leader("orders", 1) != victim or None, "another leader")
    cluster.resume(victim)
    cluster.wait_in_sync()
    assert cluster.exit_code(victim) is None


def test_a_node_that_cannot_start_says_why(cluster: Cluster) -> None:
    """With the end of its log, and without a process left."""
    cluster.stop(3)
    original = cluster.properties(3).read_text()
    cluster.properties(3).write_text(original + "num.partitions=many\n")
    with pytest.raises(StartError, match=r"num\.partitions"):
        cluster.start(3)
    assert cluster.running == [1, 2]
    cluster.properties(3).write_text(original)
    cluster.start(3)
    cluster.wait_in_sync()
