"""Elections on demand: which partitions get which leader, and what the others are told."""

from __future__ import annotations

from typing import Any

import pytest

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.configs import incremental_alter_configs
from kafkapy.raft.elections import PREFERRED, UNCLEAN, elect_leaders, preferred_elections, unclean_elections
from kafkapy.raft.image import NO_LEADER, BrokerRegistration, MetadataImage, PartitionImage
from kafkapy.raft.image_records import broker_record, partition_record
from kafkapy.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafkapy.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.wire.metadata_records import ClearElrRecord, PartitionChangeRecord, TopicRecord
from tests.raft.clusters import cluster as many_brokers
from tests.raft.support import CLUSTER_ID
from tests.raft.worlds import CONFIG, replay

TOPIC_ID = b"T" * 16


def cluster(*partitions: PartitionImage, fenced: tuple[int, ...] = ()) -> MetadataImage:
    """Brokers 1, 2 and 3, and one topic with these partitions."""
    brokers = [BrokerRegistration(one, one, bytes(16), fenced=one in fenced) for one in (1, 2, 3)]
    numbered = [partition_record(TOPIC_ID, number, one) for number, one in enumerate(partitions)]
    topic = TopicRecord(name="t", topic_id=TOPIC_ID)
    return replay(MetadataImage(CLUSTER_ID), [*map(broker_record, brokers), topic, *numbered])


def elect(image: MetadataImage, election_type: int, *numbers: int, name: str = "t") -> tuple[MetadataImage, Any]:
    """The image afterwards, and what each partition was told; without numbers all partitions are asked for."""
    wanted = [TopicPartitions(topic=name, partitions=list(numbers))] if numbers else None
    decision = elect_leaders(image, ElectLeadersRequest(election_type=election_type, topic_partitions=wanted), CONFIG)
    told = [
        (one.partition_id, one.error_code)
        for topic in decision.response.replica_election_results
        for one in topic.partition_result
    ]
    return replay(image, decision.records) if decision.records else image, told


def test_preferred() -> None:
    """The first replica leads again if it is in sync and alive."""
    moved = PartitionImage((1, 2), (2, 1), 2, 5, 5)
    behind = PartitionImage((1, 2), (2,), 2, 5, 5)
    fine = PartitionImage((1, 2), (1, 2), 1, 5, 5)
    image, told = elect(cluster(moved, behind, fine), PREFERRED, 0, 1, 2, 3, 0)
    assert told == [
        (0, 0),
        (1, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (2, ErrorCode.ELECTION_NOT_NEEDED),
        (3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, ErrorCode.ELECTION_NOT_NEEDED),
    ]
    partitions = image.topics.by_name["t"].partitions
    assert [(one.leader, one.leader_epoch) for one in partitions] == [(1, 6), (2, 5), (1, 5)]


def test_all_leaves_out_what_needs_nothing() -> None:
    """Of all partitions only those are told of that an election would change, or could not."""
    fine = PartitionImage((1, 2), (1, 2), 1, 5, 5)
    _, told = elect(cluster(fine, PartitionImage((2, 1), (1, 2), 1, 5, 5)), PREFERRED)
    assert told == [(1, 0)]


def test_unclean() -> None:
    """A partition without a leader gets one that is in sync if there is one, else any that lives, which must then recover."""
    lost = PartitionImage((3, 2), (3,), NO_LEADER, 5, 5)
    dead = PartitionImage((3,), (3,), NO_LEADER, 5, 5)
    eligible = PartitionImage((1, 2), (), NO_LEADER, 5, 5, eligible_leader_replicas=(2,))
    led = PartitionImage((1, 2), (2,), 2, 5, 5)
    image, told = elect(cluster(lost, dead, eligible, led, fenced=(3,)), UNCLEAN, 0, 1, 2, 3)
    assert told == [(0, 0), (1, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE), (2, 0), (3, ErrorCode.ELECTION_NOT_NEEDED)]
    first, _, third, _ = image.topics.by_name["t"].partitions
    assert (first.leader, first.isr, first.leader_recovery_state) == (2, (2,), 1)
    assert (third.leader, third.isr, third.leader_recovery_state) == (2, (2,), 0)
    assert third.eligible_leader_replicas == ()


def test_unknown_names_and_types() -> None:
    """A topic that isn't there, and an election that nobody knows."""
    assert elect(cluster(), PREFERRED, 0, name="nix")[1] == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    with pytest.raises(KafkaError, match="Unknown election type 5"):
        elect(cluster(), 5, 0)


def test_balance() -> None:
    """Leaderships go back to the first replicas that are in sync and alive; a thousand at a time."""
    moved = PartitionImage((1, 2), (2, 1), 2, 5, 5)
    image = cluster(
        moved,
        moved._replace(isr=(2,)),
        moved._replace(leader=1),
        moved._replace(replicas=(3, 2), isr=(2, 3)),
        fenced=(3,),
    )
    (decision,) = preferred_elections(image, CONFIG)
    assert [one.leader for one in replay(image, decision.records).topics.by_name["t"].partitions] == [1, 2, 1, 2]
    assert preferred_elections(replay(image, decision.records), CONFIG) == []
    (decision,) = preferred_elections(cluster(*[moved] * 1_200), CONFIG)
    assert len(decision.records) == 1_000


def test_unclean_elections_where_they_are_allowed() -> None:
    """By the topic's own configuration, and only where nobody else can lead; what has lost records is named."""
    lost = PartitionImage((3, 2), (3,), NO_LEADER, 5, 5)
    image = cluster(lost, PartitionImage((1, 2), (1, 2), 1, 5, 5), fenced=(3,))
    assert unclean_elections(image, CONFIG) == []
    change = AlterableConfig(name="unclean.leader.election.enable", config_operation=0, value="true")
    resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[change])
    decision = incremental_alter_configs(image, IncrementalAlterConfigsRequest(resources=[resource]), CONFIG)
    first, second = replay(image, decision.records).topics.by_name["t"].partitions
    assert (first.leader, first.isr, first.leader_recovery_state) == (2, (2,), 1)
    assert (second.leader, second.leader_epoch) == (1, 5)
    assert len(decision.notes) == 1 and "UNCLEAN" in decision.notes[0]
    (decision,) = unclean_elections(replay(image, decision.records[:1]), CONFIG)
    assert len(decision.records) == 1


@pytest.mark.parametrize("resource", [(2, "t"), (4, "")])
def test_another_min_insync_replicas(resource: tuple[int, str]) -> None:
    """Who was eligible is not any longer, except where a partition waits for them."""
    eligible = PartitionImage((1, 2), (1,), 1, 5, 5, eligible_leader_replicas=(2,))
    waiting = PartitionImage((3,), (), NO_LEADER, 5, 5, eligible_leader_replicas=(3,))
    for partitions, kind in (((eligible,), ClearElrRecord), ((eligible, waiting), PartitionChangeRecord)):
        image = many_brokers(*partitions, fenced=(3,))
        change = AlterableConfig(name="min.insync.replicas", config_operation=0, value="2")
        wanted = AlterConfigsResource(resource_type=resource[0], resource_name=resource[1], configs=[change])
        decision = incremental_alter_configs(image, IncrementalAlterConfigsRequest(resources=[wanted]), CONFIG)
        assert isinstance(decision.records[-1], kind)
        first, *rest = replay(image, decision.records).topics.by_name["t"].partitions
        assert (first.eligible_leader_replicas, first.partition_epoch) == ((), 6)
        assert all(one.eligible_leader_replicas == (3,) for one in rest)
