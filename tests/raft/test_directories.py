"""A broker tells where its replicas are."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.directories import assign_replicas
from kafkapy.raft.image import DIRECTORY_UNASSIGNED, PartitionImage
from kafkapy.raft.membership import after
from kafkapy.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectory,
    RequestPartition,
    RequestTopic,
)
from tests.raft.clusters import TOPIC_ID, cluster, directory, partitions_of
from tests.raft.worlds import CONFIG

P = PartitionImage((1, 2), (1, 2), 1, 5, 7, directories=(DIRECTORY_UNASSIGNED, directory(2)))


def request(place: bytes, *numbers: int, topic_id: bytes = TOPIC_ID) -> AssignReplicasToDirsRequest:
    """Broker 1 has put these partitions there."""
    partitions = [RequestPartition(partition_index=number) for number in numbers]
    topics = [RequestTopic(topic_id=topic_id, partitions=partitions)]
    return AssignReplicasToDirsRequest(
        broker_id=1, broker_epoch=10, directories=[RequestDirectory(id=place, topics=topics)]
    )


def test_a_replica_is_assigned() -> None:
    """Nothing else changes; partitions that aren't there or not on the broker are refused."""
    image = cluster(P, P._replace(replicas=(2, 3), directories=(directory(2), directory(3))), directories=2)
    decisions = assign_replicas(image, request(directory(1, 1), 0, 1, 2), CONFIG)
    (answers,) = decisions[-1].response.directories[0].topics
    assert [one.error_code for one in answers.partitions] == [
        0,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    first, _ = partitions_of(after(image, decisions))
    assert first == P._replace(directories=(directory(1, 1), directory(2)), partition_epoch=8)


def test_a_failed_directory() -> None:
    """The replica is there, so it is lost: another one leads."""
    image = cluster(P)
    decisions = assign_replicas(image, request(directory(1, 1), 0), CONFIG)
    (partition,) = partitions_of(after(image, decisions))
    assert (partition.leader, partition.isr, partition.directories[0]) == (2, (2,), directory(1, 1))


def test_what_is_refused() -> None:
    """Topics that aren't there, and processes of before."""
    decisions = assign_replicas(cluster(P), request(directory(1), 0, topic_id=bytes(16)), CONFIG)
    assert decisions[-1].response.directories[0].topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    old = request(directory(1), 0)
    old.broker_epoch = 9
    with pytest.raises(KafkaError) as caught:
        assign_replicas(cluster(P), old, CONFIG)
    assert caught.value.code == ErrorCode.STALE_BROKER_EPOCH
