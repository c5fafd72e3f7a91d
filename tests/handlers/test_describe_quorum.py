"""DescribeQuorum: the one voter of a cluster of one, and only for the metadata log."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartition, RequestTopic
from tests.support.wire_client import WireClient

METADATA = "__cluster_metadata"


def quorums(*topics: tuple[str, tuple[int, ...]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            RequestTopic(topic_name=name, partitions=[RequestPartition(partition_index=one) for one in numbers])
            for name, numbers in topics
        ]
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_one_voter_leads(wire: WireClient, version: int) -> None:
    """The broker leads, and its log ends where everything is committed."""
    answer = wire.request(quorums((METADATA, (0,))), version)
    partition = answer.topics[0].partitions[0]
    assert (answer.error_code, partition.error_code) == (0, 0)
    assert partition.leader_epoch >= 1 and partition.high_watermark > 0
    voter = partition.current_voters[0]
    assert (len(partition.current_voters), partition.observers) == (1, [])
    assert (voter.replica_id, voter.log_end_offset) == (partition.leader_id, partition.high_watermark)
    assert (voter.last_fetch_timestamp > 0) == (version >= 1)
    assert [node.node_id for node in answer.nodes] == ([partition.leader_id] if version >= 2 else [])


@pytest.mark.parametrize(
    "topics",
    [
        ((METADATA, (1,)),),
        ((METADATA, (0, 1)),),
        (("other", (0,)),),
        ((METADATA, (0,)), ("other", (0,))),
        ((METADATA, ()),),
        (),
    ],
)
def test_nothing_else_has_a_quorum(wire: WireClient, topics: tuple[tuple[str, tuple[int, ...]], ...]) -> None:
    """Whatever isn't exactly the metadata log's partition isn't here, not even that one beside it."""
    answer = wire.request(quorums(*topics), 2)
    assert (answer.error_code, answer.nodes) == (0, [])
    assert [(one.topic_name, [part.partition_index for part in one.partitions]) for one in answer.topics] == [
        (name, list(numbers)) for name, numbers in topics
    ]
    codes = {part.error_code for one in answer.topics for part in one.partitions}
    assert codes <= {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
