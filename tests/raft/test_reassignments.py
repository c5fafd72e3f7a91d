"""Moving partitions: another order of the same replicas counts at once, a copy is refused."""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.raft.image import PartitionImage
from kafkapy.raft.reassignments import alter_partition_reassignments
from kafkapy.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.raft.test_elections import cluster
from tests.raft.worlds import replay


def test_another_order() -> None:
    """The directories follow their replicas, the leader stays until somebody asks for the preferred one."""
    here = PartitionImage((1, 2), (1, 2), 1, 5, 5, directories=(b"A" * 16, b"B" * 16))
    moving = here._replace(adding_replicas=(2,))
    image = cluster(here, moving)
    wanted = [
        ReassignablePartition(partition_index=number, replicas=replicas)
        for number, replicas in ((0, [2, 1]), (0, [2, 3]), (0, [1, 2]), (1, None))
    ]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=wanted)])
    decision = alter_partition_reassignments(image, request)
    assert [one.error_code for one in decision.response.responses[0].partitions] == [
        0,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        0,
        ErrorCode.INVALID_REQUEST,
    ]
    assert len(decision.records) == 1
    after = replay(image, decision.records).topics.by_name["t"].partitions[0]
    assert (after.replicas, after.directories) == ((2, 1), (b"B" * 16, b"A" * 16))
    assert (after.leader, after.leader_epoch) == (1, 5)
