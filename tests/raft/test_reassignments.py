"""Moving partitions: what a move begins with, when it ends, how it is called off, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.raft.alter_partition import alter_partition
from kafkapy.raft.image import DIRECTORY_UNASSIGNED, MetadataImage, PartitionImage
from kafkapy.raft.reassignments import alter_partition_reassignments
from kafkapy.wire.messages.alter_partition import AlterPartitionRequest, BrokerState, RequestPartition, RequestTopic
from kafkapy.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkapy.wire.metadata_records import ConfigRecord
from tests.raft.clusters import TOPIC_ID, cluster
from tests.raft.worlds import CONFIG, replay

HERE = PartitionImage((1, 2), (1, 2), 1, 5, 5, directories=(b"\1" * 16, b"\2" * 16))


def move(image: MetadataImage, replicas: list[int] | None, number: int = 0, **fields: Any) -> tuple[MetadataImage, int]:
    """The image afterwards, and the code."""
    wanted = ReassignablePartition(partition_index=number, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=[wanted])], **fields)
    decision = alter_partition_reassignments(image, request, CONFIG)
    (answer,) = decision.response.responses[0].partitions
    return replay(image, decision.records) if decision.records else image, answer.error_code


def partition(image: MetadataImage) -> PartitionImage:
    """The one that moves."""
    return image.topics.by_name["t"].partitions[0]


def in_sync(image: MetadataImage, *isr: int) -> tuple[MetadataImage, int]:
    """The leader says who is in sync."""
    now = partition(image)
    wanted = RequestPartition(
        partition_index=0,
        leader_epoch=now.leader_epoch,
        partition_epoch=now.partition_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=one) for one in isr],
    )
    topics = [RequestTopic(topic_id=TOPIC_ID, partitions=[wanted])]
    epoch = image.brokers[now.leader].epoch
    request = AlterPartitionRequest(broker_id=now.leader, broker_epoch=epoch, topics=topics)
    decision = alter_partition(image, request, CONFIG)
    return replay(image, decision.records), decision.response.topics[0].partitions[0].error_code


def test_another_order() -> None:
    """The directories follow their replicas, the leader stays until somebody asks for the preferred one."""
    image, code = move(cluster(HERE), [2, 1])
    after = partition(image)
    assert code == 0
    assert (after.replicas, after.directories) == ((2, 1), (b"\2" * 16, b"\1" * 16))
    assert (after.leader, after.leader_epoch) == (1, 5)
    assert move(image, [2, 1])[0] is image


def test_a_move_ends_when_all_new_replicas_are_in_sync() -> None:
    """Old and new at first; then the old ones go, and the leader with them if it is one of them."""
    image, code = move(cluster(HERE), [3, 4])
    after = partition(image)
    assert code == 0
    assert (after.replicas, after.adding_replicas, after.removing_replicas) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert (after.leader, after.leader_epoch, after.isr) == (1, 5, (1, 2))
    assert after.directories == (b"\3" * 16, b"\4" * 16, b"\1" * 16, b"\2" * 16)
    image, code = in_sync(image, 1, 2, 3)
    assert (code, partition(image).adding_replicas) == (0, (3, 4))
    image, code = in_sync(image, 1, 2, 3, 4)
    after = partition(image)
    assert code == ErrorCode.NEW_LEADER_ELECTED
    assert (after.replicas, after.adding_replicas, after.removing_replicas) == ((3, 4), (), ())
    assert (after.leader, after.leader_epoch, after.isr) == (3, 6, (3, 4))


def test_a_leader_that_stays_opens_an_epoch_when_a_replica_goes() -> None:
    """The removed follower must not count any longer."""
    image, _ = move(cluster(HERE), [1, 3])
    image, code = in_sync(image, 1, 2, 3)
    after = partition(image)
    assert code == 0
    assert (after.replicas, after.isr, after.leader, after.leader_epoch) == ((1, 3), (1, 3), 1, 6)


def test_fewer_replicas() -> None:
    """Nothing is to be copied, so what goes, goes at once."""
    image, code = move(cluster(HERE), [2])
    after = partition(image)
    assert code == 0
    assert (after.replicas, after.isr, after.leader, after.leader_epoch) == ((2,), (2,), 2, 6)


def test_a_move_is_called_off() -> None:
    """The replicas from before are back; one that was not in sync yet leaves no trace."""
    image, _ = move(cluster(HERE), [3, 4])
    image, _ = in_sync(image, 1, 2, 3)
    image, code = move(image, None)
    after = partition(image)
    assert code == 0
    assert (after.replicas, after.isr, after.adding_replicas, after.removing_replicas) == ((1, 2), (1, 2), (), ())
    assert move(image, None)[1] == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_calling_off_loses_nothing_unasked() -> None:
    """Only a new replica is in sync: back to an old one is possible where unclean elections are."""
    stuck = PartitionImage((3, 1), (3,), 3, 5, 5, adding_replicas=(3,), removing_replicas=(1,))
    image = cluster(stuck)
    assert move(image, None)[1] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    allowed = ConfigRecord(resource_type=2, resource_name="t", name="unclean.leader.election.enable", value="true")
    image, code = move(replay(image, [allowed]), None)
    assert (code, partition(image).replicas, partition(image).leader, partition(image).isr) == (0, (1,), 1, (1,))


def test_calling_off_leaves_it_to_an_eligible_replica() -> None:
    """Nobody from before is in sync, but one is eligible: it leads, and nothing is lost."""
    places = tuple(bytes((one,)) * 16 for one in (3, 1, 2))
    moving = PartitionImage((3, 1, 2), (3,), 3, 5, 5, (1, 2), (3,), directories=places, eligible_leader_replicas=(2,))
    image, code = move(cluster(moving, min_insync_replicas=2), None)
    after = partition(image)
    assert (code, after.replicas, after.leader, after.isr, after.leader_recovery_state) == (0, (1, 2), 2, (2,), 0)


def test_another_target_on_the_way() -> None:
    """What was being added and isn't wanted any more is removed."""
    image, _ = move(cluster(HERE), [1, 3])
    image, code = move(image, [1, 4])
    after = partition(image)
    assert code == 0
    assert (after.replicas, after.adding_replicas, after.removing_replicas) == ((1, 4, 2, 3), (4,), (2, 3))


@pytest.mark.parametrize(
    ("replicas", "number", "fields", "code"),
    [
        ([], 0, {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], 0, {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 77], 0, {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 3], 1, {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, 0, {}, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ([1, 2, 3], 0, {"allow_replication_factor_change": False}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ([1, 3], 0, {"allow_replication_factor_change": False}, ErrorCode.NONE),
    ],
)
def test_what_is_refused(replicas: list[int] | None, number: int, fields: dict[str, Any], code: ErrorCode) -> None:
    """Replicas that make no sense, partitions that aren't there, and another replication factor where it is forbidden."""
    assert move(cluster(HERE), replicas, number, **fields)[1] == code


def test_unknown_names_and_repetitions() -> None:
    """An unknown topic; and of two moves of the same partition the second one."""
    wanted = [ReassignablePartition(partition_index=0, replicas=[1, 3])] * 2
    topics = [ReassignableTopic(name=name, partitions=wanted) for name in ("nix", "t")]
    decision = alter_partition_reassignments(cluster(HERE), AlterPartitionReassignmentsRequest(topics=topics), CONFIG)
    codes = [[one.error_code for one in topic.partitions] for topic in decision.response.responses]
    assert codes == [[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2, [0, ErrorCode.INVALID_REQUEST]]


def test_nobody_has_said_where_a_replica_is() -> None:
    """A broker with several directories chooses one itself, and tells it later."""
    image, _ = move(cluster(HERE, directories=2), [1, 2, 3])
    assert partition(image).directories[2] == DIRECTORY_UNASSIGNED
