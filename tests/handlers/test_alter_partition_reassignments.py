"""AlterPartitionReassignments on one node: what changes nothing succeeds, what can't be done is refused in Apache Kafka's words."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.testing import Broker
from kafkapy.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkapy.wire.messages.metadata import MetadataRequest
from tests.support.wire_client import WireClient

INVALID = ErrorCode.INVALID_REPLICA_ASSIGNMENT
PREFIX = "The manual partition assignment includes"


@pytest.mark.parametrize("version", [0, 1])
def test_one_node(broker: Broker, wire: WireClient, version: int) -> None:
    """Each partition has its own answer."""
    name = f"reassigned-{version}"
    broker.create_topic(name, partitions=1)
    (node,) = wire.request(MetadataRequest(topics=[]), 9).brokers
    me, other = node.node_id, node.node_id + 1
    cases: list[tuple[str, int, list[int] | None, int, str | None]] = [
        (name, 0, [me], 0, None),
        (name, 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None),
        (name, 0, [other], INVALID, f"{PREFIX} broker {other}, but no such broker is registered."),
        (name, 0, [me, me], INVALID, f"{PREFIX} the broker {me} more than once."),
        (name, 0, [], INVALID, f"{PREFIX} an empty replica list."),
        (name, 9, [me], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:9."),
        ("nix", 0, [me], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named nix."),
    ]
    topics = [
        ReassignableTopic(name=topic, partitions=[ReassignablePartition(partition_index=number, replicas=replicas)])
        for topic, number, replicas, _, _ in cases
    ]
    answer = wire.request(AlterPartitionReassignmentsRequest(topics=topics), version)
    told = [(one.name, part.error_code, part.error_message) for one in answer.responses for part in one.partitions]
    assert (answer.error_code, answer.error_message) == (0, None)
    assert told == [(topic, code, message) for topic, _, _, code, message in cases]
