"""Random lives of a partition: appends, leader changes, broken connections. In the end all logs are the leader's, and nothing committed is gone."""

from __future__ import annotations

import random

import pytest

from kafkapy.log.partition import Partition
from kafkapy.replication.follower import FetchSettings
from tests.replication.support import Clock, Node, Wire, contents, send

IDS = (1, 2, 3)


class Cluster:
    """Three replicas of one partition; the metadata is this test, which elects only who is in sync."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = Clock()
        self.nodes = {node_id: Node(node_id, self.clock, min_insync_replicas=2) for node_id in IDS}
        self.replicas: dict[int, Partition] = {node_id: node.add() for node_id, node in self.nodes.items()}
        settings = FetchSettings(max_bytes=self.random.choice((300, 1 << 20)))
        self.wires = {
            (follower, leader): Wire(self.nodes[follower], self.nodes[leader], settings)
            for follower in IDS
            for leader in IDS
            if follower != leader
        }
        self.epoch = self.leader = 0
        self.committed = b""
        self.elect(1)

    def elect(self, leader: int) -> None:
        """A new leader; the brokers hear of it in any order, which here means that some act on the old word for a while."""
        self.epoch += 1
        self.leader = leader
        order = list(IDS)
        self.random.shuffle(order)
        for node_id in order:
            partition = self.replicas[node_id]
            if node_id == leader:
                for other in IDS:
                    if other != leader:
                        self.wires[node_id, other].fetcher.unfollow(partition)
                partition.make_leader(self.epoch, IDS, IDS, now_ms=self.clock.now_ms)
            else:
                partition.make_follower(leader, self.epoch, IDS, IDS)
                for other in IDS:
                    if other not in (node_id, leader):
                        self.wires[node_id, other].fetcher.unfollow(partition)
                self.wires[node_id, leader].fetcher.follow(partition)
            if self.random.random() < 0.5:
                self.move()

    def move(self) -> None:
        """A step of one connection."""
        wire = self.wires[self.random.choice(list(self.wires))]
        action = self.random.randrange(4)
        if action == 0:
            wire.send()
        elif action == 1:
            wire.settle()
        elif action == 2:
            wire.receive()
        elif self.random.random() < 0.1:
            wire.break_off()

    def step(self) -> None:
        """Anything may happen."""
        what = self.random.random()
        if what < 0.3:
            send(self.replicas[self.leader], self.random.randint(1, 4), size=self.random.randint(1, 40))
        elif what < 0.32:
            self.elect(self.random.choice(IDS))
        elif what < 0.4:
            self.clock.now_ms += self.random.choice((20, 500))
        else:
            for _ in range(self.random.choice((1, 5, 30))):
                self.move()
        self.check()

    def check(self) -> None:
        """What was committed is a prefix of the leader's log, for ever; no follower shows more than is committed."""
        leader = self.replicas[self.leader]
        now = contents(leader)
        assert now.startswith(self.committed), "committed records are gone"
        if leader.high_watermark:
            committed = leader.log.read(0, 1 << 30, upper_offset=leader.high_watermark).read_bytes()
            if len(committed) > len(self.committed):
                self.committed = committed
        for node_id, partition in self.replicas.items():
            if partition.high_watermark:
                shown = partition.log.read(0, 1 << 30, upper_offset=partition.high_watermark).read_bytes()
                assert self.committed.startswith(shown), f"{node_id} shows what is not committed"

    def calm_down(self) -> None:
        """Nothing goes wrong any more."""
        for _ in range(12):
            self.clock.now_ms += 500
            for wire in self.wires.values():
                wire.run()
            self.check()


@pytest.mark.parametrize("seed", range(25))
def test_logs_become_the_leaders_and_keep_what_was_committed(seed: int) -> None:
    """All that the ISR acknowledged stays, whoever of it leads; what only an old leader had goes."""
    cluster = Cluster(seed)
    for _ in range(250):
        cluster.step()
    assert cluster.committed, "a life in which nothing was committed shows nothing"
    cluster.calm_down()
    leader = cluster.replicas[cluster.leader]
    expected = contents(leader)
    assert all(contents(partition) == expected for partition in cluster.replicas.values())
    assert all(partition.high_watermark == leader.log.log_end_offset for partition in cluster.replicas.values())
    entries = leader.log.epochs.entries
    for partition in cluster.replicas.values():
        known = {entry.epoch: entry.start_offset for entry in partition.log.epochs.entries}
        assert all(known.get(entry.epoch, entry.start_offset) == entry.start_offset for entry in entries)
