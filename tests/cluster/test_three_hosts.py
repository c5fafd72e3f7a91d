"""Three hosts, each in a network namespace of its own, started from three plain server.properties."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.network import CLIENTS, Network, why_not
from kafkapy.client.admin import describe_cluster
from kafkapy.client.replicas import describe_quorum
from kafkapy.config.local_cluster import Address
from kafkapy.testing import Cluster
from tests.cluster.writing import read_all, write

REASON = why_not()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(REASON is not None, reason=f"no network namespaces on this machine: {REASON}"),
]

PROPERTIES = """
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:9092,CONTROLLER://{host}:9093
advertised.listeners=PLAINTEXT://{host}:9092
log.dirs={data}
kafkapy.quorum.secret=one-secret-for-all-three
offsets.topic.replication.factor=3
default.replication.factor=3
min.insync.replicas=2
"""


@pytest.fixture
def network() -> Iterator[Network]:
    """Three namespaces, a router, and nothing else."""
    with Network(3) as network:
        yield network


def test_three_hosts_are_a_cluster_and_survive_the_loss_of_one(network: Network, tmp_path: Path) -> None:
    """With the same port on each; one is cut off from everybody, and comes back."""
    hosts = {node: network.address(node) for node in (1, 2, 3)}
    addresses = {node: Address(host, 9092, 9093) for node, host in hosts.items()}
    with Cluster(3, data_dir=tmp_path, addresses=addresses, prefix=network.prefix, start=False) as cluster:
        voters = ",".join(f"{node}@{host}:9093" for node, host in hosts.items())
        for node, host in hosts.items():
            text = PROPERTIES.format(node=node, host=host, voters=voters, data=cluster.data(node))
            cluster.properties(node).write_text(text)
        cluster.start_all()
        with cluster.client() as client:
            assert [(broker.id, broker.host) for broker in describe_cluster(client).brokers] == list(hosts.items())
            assert [voter.node for voter in describe_quorum(client).voters] == [1, 2, 3]
        cluster.create_topic("orders", 1, 3)
        assert write(cluster.bootstrap, "orders", range(50)).acked == list(range(50))
        lost = cluster.leader("orders")
        network.cut_both_ways([lost], [*(node for node in hosts if node != lost), CLIENTS])
        cluster.wait_for(lambda client: cluster.leader("orders") != lost or None, "another leader")
        second = write(cluster.bootstrap, "orders", range(50, 100), enable_idempotence=True)
        assert second.acked == list(range(50, 100))
        network.heal()
        cluster.wait_in_sync()
        assert read_all(cluster.bootstrap, "orders") == list(range(100))
