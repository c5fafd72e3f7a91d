"""Three voters over a network in memory, stepped by hand: the seams hold for more than one voter.

No thread, no clock and no socket: a voter stands for election when the test says so, messages travel when the test pumps them.
"""

from __future__ import annotations

import logging
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from kafkapy.errors import StorageError
from kafkapy.raft.quorum import Outcome, Ticket
from kafkapy.raft.syncobj_quorum import LinkState, SyncObjQuorum
from kafkapy.raft.topics import create_topics
from kafkapy.raft.voter_messages import encode
from kafkapy.raft.voter_session import Standing
from kafkapy.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.raft.support import QueueLoop, RunningNode

VOTERS = (1, 2, 3)


class Network:
    """Who can reach whom."""

    def __init__(self) -> None:
        self.voters: dict[int, Voter] = {}
        self.cut_off: set[int] = set()


class Voter:
    """A node on a quorum that is stepped by hand, and its VoterNetwork."""

    def __init__(self, network: Network, root: Path, node_id: int, **options: Any) -> None:
        self.node_id = node_id
        self.all = network
        self.inbox: deque[tuple[int, bytes]] = deque()
        self.linked: set[int] = set()
        self.standing = Standing.MEMBER
        self.told_caught_up = False
        folder = root / str(node_id) / "__cluster_metadata-0"
        folder.mkdir(parents=True, exist_ok=True)
        others = [voter for voter in VOTERS if voter != node_id]
        self.quorum = SyncObjQuorum(str(folder), node_id, others, wall_clock_ms=lambda: 1000, **options)
        self.quorum.join(self, is_member=True)
        self.quorum.start = self.quorum.attach  # type: ignore[method-assign]
        self.running = RunningNode(str(folder), self.quorum, QueueLoop(), node_id, VOTERS).start()
        self.quorum.open()
        self.quorum._elections.deadline = 1e12  # No elections but those that the test asks for.
        self.quorum._elections._between = lambda limits: 1e12  # type: ignore[method-assign]
        network.voters[node_id] = self

    # VoterNetwork.

    def opened(self) -> None:
        """Nothing waits for it."""

    def send(self, node_id: int, payload: bytes) -> None:
        if node_id in self.linked and node_id in self.all.voters:
            self.all.voters[node_id].inbox.append((self.node_id, payload))

    def backlog_bytes(self, node_id: int) -> int:
        return 0

    def link_state(self, node_id: int) -> LinkState:
        return LinkState.CONNECTED

    def caught_up(self) -> None:
        self.told_caught_up = True

    def closed(self) -> None:
        """Nobody watches."""

    # Steps.

    @property
    def image(self) -> Any:
        return self.running.node.image

    def step(self) -> None:
        cut_off = self.all.cut_off
        reachable = set() if self.node_id in cut_off else set(self.all.voters) - cut_off - {self.node_id}
        for node_id in reachable - self.linked:
            self.quorum.link_up(node_id, self.all.voters[node_id].standing.counts)
        for node_id in self.linked - reachable:
            self.quorum.link_down(node_id)
        self.linked = reachable
        while self.inbox:
            sender, payload = self.inbox.popleft()
            if sender in reachable:
                self.quorum.receive(sender, payload)
        self.quorum._raft._SyncObj__newAppendEntriesTime = 0  # A heartbeat is due.
        self.quorum.step(may_sleep=False)
        self.running.loop.run_all()
        assert not self.running.failures, self.running.failures

    def stand_for_election(self) -> None:
        self.quorum._elections.deadline = 0
        for voter in self.all.voters.values():
            voter.quorum._elections._heard_at = float("-inf")


class Cluster:
    """Three voters."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.network = Network()
        self.root = root
        self.options = options
        self.voters = {node_id: Voter(self.network, root, node_id, **options) for node_id in VOTERS}

    def run(self, rounds: int = 12) -> None:
        for _ in range(rounds):
            for voter in self.voters.values():
                voter.step()

    def elect(self, node_id: int) -> Voter:
        self.run(2)
        self.voters[node_id].stand_for_election()
        self.run()
        leader = self.voters[node_id]
        assert leader.running.controller.is_active
        return leader

    def kill(self, node_id: int) -> None:
        self.network.voters.pop(node_id)
        snapshot_thread = self.voters.pop(node_id).quorum._snapshot_thread
        if snapshot_thread is not None:
            snapshot_thread.join()  # A process that is killed takes its threads along.

    def restart(self, node_id: int) -> Voter:
        voter = self.voters[node_id] = Voter(self.network, self.root, node_id, **self.options)
        return voter

    def assert_equal(self) -> None:
        images = [voter.image for voter in self.voters.values()]
        assert all(image == images[0] for image in images)


def _create(voter: Voter, name: str) -> Ticket:
    controller = voter.running.controller
    request = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])
    decision = create_topics(controller.require_active(), request, voter.running.config, controller.new_uuid)
    assert decision.response.topics[0].error_code == 0, decision.response
    ticket = controller.submit(decision, 1)
    assert ticket is not None
    return ticket


def test_all_voters_follow_the_same_log(tmp_path: Path) -> None:
    """What the leader decides is replayed by everybody, at the same offsets."""
    cluster = Cluster(tmp_path)
    leader = cluster.elect(1)
    ticket = _create(leader, "orders")
    cluster.run()
    assert ticket.outcome is Outcome.COMMITTED
    cluster.assert_equal()
    assert "orders" in cluster.voters[3].image.topics.by_name
    assert [voter.running.controller.is_active for voter in cluster.voters.values()] == [True, False, False]
    logs = {(tmp_path / str(n) / "__cluster_metadata-0" / f"{0:020d}.log").read_bytes() for n in VOTERS}
    assert len(logs) == 1


def test_a_new_leader_opens_the_next_epoch_and_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    """The old leader's acknowledged change outlives it, and the new epoch begins with a LeaderChange."""
    cluster = Cluster(tmp_path)
    ticket = _create(cluster.elect(1), "kept")
    cluster.run()
    assert ticket.outcome is Outcome.COMMITTED
    cluster.kill(1)
    leader = cluster.elect(2)
    assert leader.image.epoch == 2
    assert "kept" in leader.image.topics.by_name
    _create(leader, "new")
    cluster.run()
    cluster.restart(1)
    cluster.run(20)
    cluster.assert_equal()
    assert "new" in cluster.voters[1].image.topics.by_name


def test_a_leader_without_a_quorum_acknowledges_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What it proposed alone is replaced by the log of the majority, and nobody was told that it counts."""
    caplog.set_level(logging.CRITICAL + 1, "pysyncobj.syncobj")
    cluster = Cluster(tmp_path)
    old = cluster.elect(1)
    cluster.network.cut_off = {1}
    lost = _create(old, "lost")
    cluster.run()
    assert lost.outcome is Outcome.PENDING
    new = cluster.elect(2)
    _create(new, "won")
    cluster.run()
    cluster.network.cut_off = set()
    cluster.run(20)
    assert lost.outcome is Outcome.UNKNOWN
    assert not old.running.controller.is_active
    cluster.assert_equal()
    assert set(old.image.topics.by_name) == {"won"}


def test_a_forgotten_vote_is_remembered(tmp_path: Path) -> None:
    """A voter that restarts knows its term and whom it has voted for."""
    cluster = Cluster(tmp_path)
    cluster.elect(1)
    term = cluster.voters[2].quorum._journal.term
    assert (term, cluster.voters[2].quorum._journal.vote) == (1, "1")
    cluster.kill(2)
    again = cluster.restart(2)
    assert (again.quorum._journal.term, again.quorum._journal.vote) == (1, "1")
    assert again.quorum._raft.raftCurrentTerm == 1


def test_a_voter_that_was_away_for_long_is_sent_a_snapshot(tmp_path: Path) -> None:
    """The leader no longer has the entries, so the snapshot takes the place of the follower's whole log."""
    cluster = Cluster(tmp_path, snapshot_bytes=2000)
    leader = cluster.elect(1)
    _create(leader, "old")
    cluster.run()
    cluster.network.cut_off = {3}
    for number in range(40):
        _create(leader, f"topic-{number}")
        cluster.run(4)
        for voter in cluster.voters.values():
            if voter.quorum._snapshot_thread is not None:
                voter.quorum._snapshot_thread.join()
    assert leader.quorum._journal.entries[0].log_index > cluster.voters[3].quorum._journal.entries[-1].log_index
    cluster.network.cut_off = set()
    cluster.run(60)
    cluster.assert_equal()
    _, image = cluster.voters[3].running.published[-1]
    assert len(image.topics) == 41
    cluster.kill(3)
    cluster.restart(3)
    cluster.run(20)
    cluster.assert_equal()


def test_a_snapshot_that_brings_nothing_takes_nothing_away(tmp_path: Path) -> None:
    """One that was sent long ago and arrives now must not cut off what has been acknowledged since."""
    cluster = Cluster(tmp_path, snapshot_bytes=2000)
    leader = cluster.elect(1)
    for number in range(20):
        _create(leader, f"topic-{number}")
        cluster.run(4)
    snapshot = Path(leader.quorum.snapshot_path).read_bytes()
    follower = cluster.voters[2]
    before = list(follower.quorum._journal.entries)
    term = leader.quorum._raft.raftCurrentTerm
    for piece in ((snapshot, True, False), (b"", False, True)):
        message = {"type": "append_entries", "term": term, "commit_index": 99999, "serialized": piece}
        follower.quorum.receive(1, encode(message))
        follower.step()
    assert follower.quorum._journal.entries == before
    cluster.run()
    cluster.assert_equal()


def test_a_voter_that_does_not_count_commits_nothing(tmp_path: Path) -> None:
    """It is sent everything, and told that it has all of that once something was committed without it."""
    cluster = Cluster(tmp_path)
    leader = cluster.elect(1)
    cluster.network.cut_off = {3}
    cluster.run(3)
    rejoined = cluster.voters[3]
    rejoined.standing, rejoined.told_caught_up = Standing.REJOINING, False
    rejoined.quorum.become(Standing.REJOINING)
    cluster.network.cut_off = {2}
    ticket = _create(leader, "waits")
    cluster.run(20)
    assert ticket.outcome is Outcome.PENDING
    assert rejoined.quorum._journal.entries == leader.quorum._journal.entries
    assert not rejoined.told_caught_up
    cluster.network.cut_off = set()
    cluster.run(20)
    assert ticket.outcome is Outcome.COMMITTED
    assert rejoined.told_caught_up


def test_a_log_of_apache_kafkas_is_not_gone_on_with_by_several(tmp_path: Path) -> None:
    """Each of them may have another end of it."""
    folder = tmp_path / "1" / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    (folder / "quorum-state").write_text("{}")
    with pytest.raises(StorageError, match="one at a time"):
        Voter(Network(), tmp_path, 1)
