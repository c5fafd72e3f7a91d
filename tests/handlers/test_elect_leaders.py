"""ElectLeaders and ListPartitionReassignments on one node: every leader is the preferred one, and nothing moves."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.testing import Broker
from kafkapy.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafkapy.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.support.wire_client import WireClient


@pytest.mark.parametrize("version", [0, 1, 2])
def test_nothing_to_elect(broker: Broker, wire: WireClient, version: int) -> None:
    """Partitions with their leader need no election; others are unknown."""
    broker.create_topic(f"elect-{version}", partitions=2)
    asked = [
        TopicPartitions(topic=f"elect-{version}", partitions=[0, 7]),
        TopicPartitions(topic="nix", partitions=[0]),
    ]
    answer = wire.request(ElectLeadersRequest(topic_partitions=asked), version)
    told = [
        (one.topic, [(part.partition_id, part.error_code) for part in one.partition_result])
        for one in answer.replica_election_results
    ]
    assert told == [
        (f"elect-{version}", [(0, ErrorCode.ELECTION_NOT_NEEDED), (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
        ("nix", [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
    ]
    everything = wire.request(ElectLeadersRequest(topic_partitions=None), version)
    assert everything.error_code == 0
    assert all(not one.partition_result for one in everything.replica_election_results)


def test_unknown_election_type(wire: WireClient) -> None:
    """It is refused as a whole and for each partition."""
    asked = [TopicPartitions(topic="t", partitions=[0])]
    answer = wire.request(ElectLeadersRequest(election_type=5, topic_partitions=asked), 2)
    result = answer.replica_election_results[0].partition_result[0]
    assert answer.error_code == result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message == "Unknown election type 5"


def test_nothing_moves(broker: Broker, wire: WireClient) -> None:
    """No partition is being reassigned, whether all are asked for or some."""
    broker.create_topic("stays", partitions=1)
    named = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 9]) for name in ("stays", "nix")]
    for topics in (None, [], named):
        answer = wire.request(ListPartitionReassignmentsRequest(topics=topics), 0)
        assert (answer.error_code, answer.error_message, answer.topics) == (0, None, [])
