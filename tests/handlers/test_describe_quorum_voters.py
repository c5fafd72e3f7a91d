"""DescribeQuorum with several voters and with nodes that only follow: what the leader has heard of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kafkapy.errors import ErrorCode
from kafkapy.handlers.describe_quorum import OBSERVER_FORGOTTEN_MS, handle
from kafkapy.raft.node import Observed
from kafkapy.raft.quorum import VoterProgress
from kafkapy.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartition, RequestTopic

NOW_MS = 1_000_000
ASK = DescribeQuorumRequest(
    topics=[RequestTopic(topic_name="__cluster_metadata", partitions=[RequestPartition(partition_index=0)])]
)


def context(epoch: int | None = 7, version: int = 2) -> Any:
    """Node 1 of three voters, which leads; node 2 has been heard of, node 3 has not; brokers 4 and 5 follow."""
    places = {1: ("a", 9093), 2: ("b", 9093), 3: ("c", 9093)}
    registered = SimpleNamespace(listeners=(SimpleNamespace(name="CONTROLLER", host="other", port=1),))
    metadata = SimpleNamespace(
        settings=SimpleNamespace(node_id=1, voters=(3, 1, 2)),
        image=SimpleNamespace(next_offset=40, controllers={2: registered}),
        quorum=SimpleNamespace(progress={2: VoterProgress(39, 999_900, 999_800)}),
        observers={
            5: Observed(b"d" * 16, 38, NOW_MS - 10, NOW_MS - 20),
            4: Observed(b"e" * 16, 3, NOW_MS - OBSERVER_FORGOTTEN_MS, -1),
        },
        voter_address=places.get,
    )
    controller = SimpleNamespace(epoch=epoch, image=SimpleNamespace(next_offset=42))
    config = SimpleNamespace(controller_listener_names=("controller",))
    broker = SimpleNamespace(metadata=metadata, controller=controller, config=config)
    return SimpleNamespace(broker=broker, now_ms=NOW_MS, api_version=version)


def test_voters_and_observers_are_told_as_far_as_they_are_known() -> None:
    """The leader is where it is, another one where it was last heard of, and one that hasn't been heard of is nowhere."""
    partition = handle(context(), ASK).topics[0].partitions[0]
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 7, 40)
    voters = [
        (one.replica_id, one.log_end_offset, one.last_fetch_timestamp, one.last_caught_up_timestamp)
        for one in partition.current_voters
    ]
    assert voters == [(1, 42, NOW_MS, NOW_MS), (2, 39, 999_900, 999_800), (3, -1, -1, -1)]
    observers = [(one.replica_id, one.replica_directory_id, one.log_end_offset) for one in partition.observers]
    assert observers == [(5, b"d" * 16, 38)]


def test_nodes_are_told_with_their_listeners() -> None:
    """As registered, else as configured; only where the version has them."""
    nodes = handle(context(), ASK).nodes
    listeners = [(one.node_id, [(at.name, at.host, at.port) for at in one.listeners]) for one in nodes]
    assert listeners == [
        (1, [("CONTROLLER", "a", 9093)]),
        (2, [("CONTROLLER", "other", 1)]),
        (3, [("CONTROLLER", "c", 9093)]),
    ]
    assert handle(context(version=1), ASK).nodes == []


def test_only_the_leader_knows() -> None:
    """Another voter says so."""
    partition = handle(context(epoch=None), ASK).topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
