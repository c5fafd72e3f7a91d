"""Three processes: leaders move away from a broker that dies or stops, and come back to it."""

from __future__ import annotations

from kafkapy.client.client import Client
from kafkapy.client.replicas import describe_replicas
from kafkapy.testing import Cluster


def test_a_broker_dies_returns_and_leads_again() -> None:
    """Others lead at once; when it is back it is in sync again and gets its leaderships without being asked for."""
    with Cluster(3, config={"leader.imbalance.check.interval.seconds": "1"}) as cluster:
        cluster.create_topic("t", 3, 3)

        def led(node: int, count: int) -> bool | None:
            def found(client: Client) -> bool | None:
                return sum(row.leader == node for row in describe_replicas(client)) == count or None

            return cluster.wait_for(found, f"node {node} to lead {count} partitions")

        victim = next(node for node in cluster.nodes if node != cluster.controller())
        assert led(victim, 1)
        cluster.kill(victim)
        assert led(victim, 0)
        cluster.start(victim)
        cluster.wait_in_sync(timeout_s=10)
        assert led(victim, 1)
