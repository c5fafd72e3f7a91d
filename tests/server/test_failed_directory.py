"""A log directory fails in a running broker: its leaderships move, the rest of the broker goes on, nothing is lost."""

from __future__ import annotations

import re
from pathlib import Path

from confluent_kafka import Producer

from kafkapy.client.client import Client
from kafkapy.client.replicas import describe_replicas
from kafkapy.testing import Cluster

RECORDS = 1_200


def two_directories(cluster: Cluster, node: int) -> tuple[Path, Path]:
    """Give a node that isn't started yet two directories for its logs."""
    properties = cluster.properties(node)
    folders = (cluster.data(node) / "first", cluster.data(node) / "second")
    text = re.sub(r"(?m)^log\.dirs=.*$", f"log.dirs={folders[0]},{folders[1]}", properties.read_text())
    properties.write_text(text)
    return folders


def test_a_directory_disappears() -> None:
    """The broker notices with the next file that it needs there; producers with acks=all notice nothing."""
    cluster = Cluster(3)
    folders = {node: two_directories(cluster, node) for node in cluster.nodes}
    with cluster:
        cluster.create_topic("t", 6, 3, {"segment.bytes": "1048576"})
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
        acknowledged = 0

        def count(error: object, message: object) -> None:
            nonlocal acknowledged
            acknowledged += error is None

        def produce(number: int) -> None:
            producer.produce("t", bytes(1_000), partition=number % 6, on_delivery=count)
            producer.poll(0)

        for number in range(6):
            produce(number)
        producer.flush(10)
        victim = 2
        lost = {path.name for path in folders[victim][1].glob("t-*")}
        assert 0 < len(lost) < 6

        cluster.wait_in_sync()
        folders[victim][1].rename(folders[victim][1].with_name("gone"))
        for number in range(6 * RECORDS):
            produce(number)
        producer.flush(30)
        assert acknowledged == 6 + 6 * RECORDS

        def moved(client: Client) -> bool | None:
            rows = {str(row.partition): row for row in describe_replicas(client)}
            without = {name for name, row in rows.items() if victim not in row.isr}
            return (without == lost and any(row.leader == victim for row in rows.values())) or None

        cluster.wait_for(moved, "the lost replicas to leave the ISR, and only them")
