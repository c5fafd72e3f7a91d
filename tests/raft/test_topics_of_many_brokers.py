"""New topics and partitions in a cluster of several brokers: who gets them, and who is in sync from the beginning."""

from __future__ import annotations

from collections import Counter

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.raft.image import MetadataImage
from kafkapy.raft.topic_changes import create_partitions
from kafkapy.raft.topics import create_topics
from kafkapy.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafkapy.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kafkapy.wire.metadata_records import BrokerRegistrationChangeRecord
from tests.raft.clusters import cluster, directory
from tests.raft.support import counting_uuids
from tests.raft.worlds import CONFIG, replay


def create(image: MetadataImage, *topics: CreatableTopic) -> tuple[MetadataImage, list[int]]:
    """The image afterwards, and the codes."""
    decision = create_topics(image, CreateTopicsRequest(topics=list(topics)), CONFIG, counting_uuids(len(image.topics)))
    codes = [one.error_code for one in decision.response.topics]
    return replay(image, decision.records) if decision.records else image, codes


def automatic(name: str, partitions: int, replicas: int) -> CreatableTopic:
    """Wherever there is room."""
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)


def manual(name: str, *assignments: list[int]) -> CreatableTopic:
    """At these brokers."""
    return CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=brokers)
            for number, brokers in enumerate(assignments)
        ],
    )


def test_topics_with_one_partition_are_spread() -> None:
    """Each begins with the next broker, in one request and in several."""
    image = cluster()
    for turn in range(4):
        image, codes = create(image, *(automatic(f"a{turn}-{number}", 1, 3) for number in range(5)))
        assert codes == [0] * 5
    leaders = Counter(topic.partitions[0].leader for topic in image.topics.by_name.values() if topic.partitions)
    assert leaders == {1: 5, 2: 5, 3: 5, 4: 5}


def test_the_fenced_hold_replicas_at_need() -> None:
    """They are not in sync, and don't lead."""
    image, codes = create(cluster(fenced=(2,)), automatic("few", 6, 3), automatic("all", 6, 4))
    assert codes == [0, 0]
    assert all(2 not in one.replicas for one in image.topics.by_name["few"].partitions)
    for partition in image.topics.by_name["all"].partitions:
        assert partition.replicas[-1] == 2
        assert partition.isr == partition.replicas[:3] and partition.leader == partition.replicas[0]


def test_the_cordoned_and_the_stopping_get_nothing() -> None:
    """A broker with one directory left for new replicas still counts."""
    changes = [
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, in_controlled_shutdown=1),
        BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=20, cordoned_log_dirs=[directory(2), directory(2, 1)]),
        BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=30, cordoned_log_dirs=[directory(3)]),
    ]
    image, codes = create(replay(cluster(directories=2), changes), automatic("two", 2, 2), automatic("three", 2, 3))
    assert codes == [0, ErrorCode.INVALID_REPLICATION_FACTOR]
    assert {one for partition in image.topics.by_name["two"].partitions for one in partition.replicas} == {3, 4}


@pytest.mark.parametrize(
    ("assignments", "code"),
    [
        (([1, 2], [2, 3]), 0),
        (([2, 1],), 0),
        (([2],), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (([1, 2], [3]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (([1, 1],), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (([1, 9],), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (([],), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_by_hand(assignments: tuple[list[int], ...], code: int) -> None:
    """Who is fenced isn't in sync; only fenced brokers won't do."""
    image, codes = create(cluster(fenced=(2,)), manual("m", *assignments))
    assert codes == [code]
    if not code:
        for partition, wanted in zip(image.topics.by_name["m"].partitions, assignments, strict=True):
            assert partition.replicas == tuple(wanted)
            assert partition.isr == tuple(one for one in wanted if one != 2)
            assert partition.leader == partition.isr[0]


def test_more_partitions() -> None:
    """They go on where the topic ended, or stand where they are told to."""
    image, _ = create(cluster(), automatic("a", 3, 2))
    for count, assignments in ((8, None), (9, [[4, 1]]), (10, [[4, 9]])):
        wanted = CreatePartitionsTopic(
            name="a",
            count=count,
            assignments=None
            if assignments is None
            else [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments],
        )
        decision = create_partitions(image, CreatePartitionsRequest(topics=[wanted]))
        image = replay(image, decision.records) if decision.records else image
    partitions = image.topics.by_name["a"].partitions
    assert Counter(one.leader for one in partitions[:8]) == {1: 2, 2: 2, 3: 2, 4: 2}
    assert (len(partitions), partitions[8].replicas) == (9, (4, 1))
