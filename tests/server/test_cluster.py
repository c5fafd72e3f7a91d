"""Several nodes as one cluster: they find each other, share the metadata, and go on without those that die."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.raft.delta import MetadataDelta
from kafkapy.raft.image import BROKER, BROKER_LOGGER, MetadataImage
from kafkapy.server.lifecycle import Lifecycle
from kafkapy.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.wire.messages.delete_topics import DeleteTopicsRequest
from kafkapy.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartition, RequestTopic
from kafkapy.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.cluster import Cluster


def create(cluster: Cluster, node: int, name: str, partitions: int = 3) -> int:
    """Ask this broker for a topic with as many replicas as there are brokers; the error code."""
    return create_with(cluster, node, name, partitions)


def create_with(cluster: Cluster, node: int, name: str, partitions: int = 3, replicas: int = -1) -> int:
    """The same with another number of replicas."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
    with cluster.connected(node) as wire:
        answer = wire.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    return int(answer.topics[0].error_code)


def test_every_broker_takes_admin_requests_and_shows_their_effect(tmp_path: Path) -> None:
    """A topic created through any of three brokers is there for the next request to the same broker."""
    with Cluster(tmp_path) as cluster:
        for node in cluster.broker_ids:
            assert create(cluster, node, f"through-{node}") == ErrorCode.NONE
            with cluster.connected(node) as wire:
                answer = wire.request(MetadataRequest(topics=None), 12)
            found = {topic.name: topic for topic in answer.topics}
            partitions = found[f"through-{node}"].partitions
            assert sorted(one.leader_id for one in partitions) == [1, 2, 3]
            assert all(sorted(one.isr_nodes) == [1, 2, 3] for one in partitions)
            assert [broker.node_id for broker in answer.brokers] == [1, 2, 3]


def test_a_dead_broker_is_fenced_and_its_leaderships_move(tmp_path: Path) -> None:
    """After a kill the others lead what the dead one led, long before its session would end; when it is back it is counted on again."""
    with Cluster(tmp_path, config={"broker.session.timeout.ms": "60000"}) as cluster:
        assert create(cluster, 1, "t", 6) == ErrorCode.NONE
        victim = cluster.controller()
        alive = next(node for node in cluster.broker_ids if node != victim)
        cluster.kill(victim)

        def moved() -> bool:
            image = cluster.node(alive).image
            topic = image.topics.get("t")
            assert topic is not None
            return image.brokers[victim].fenced and all(one.leader not in (victim, -1) for one in topic.partitions)

        cluster.wait_for(moved)
        cluster.start(victim)
        cluster.wait_for(lambda: not cluster.node(alive).image.brokers[victim].fenced)


def test_a_stopping_broker_hands_over_first(tmp_path: Path) -> None:
    """A clean stop ends as a fenced broker that leads nothing, and the cluster never had a partition without a leader."""
    with Cluster(tmp_path) as cluster:
        assert create(cluster, 2, "t", 6) == ErrorCode.NONE
        leaderless: list[int] = []

        def watch() -> None:
            topic = cluster.node(1).image.topics.get("t")
            assert topic is not None
            leaderless.extend(one.leader for one in topic.partitions if one.leader < 0)

        watching = cluster.node(1)
        original = watching.replica_manager.publish

        def publish(delta: object, image: object) -> None:
            original(delta, image)  # type: ignore[arg-type]
            cluster.node(1).waiting.wake("watched")
            topic = image.topics.get("t")  # type: ignore[attr-defined]
            leaderless.extend(one.leader for one in topic.partitions if one.leader < 0)

        watching.replica_manager.publish = publish  # type: ignore[method-assign]
        cluster.stop(3)
        cluster.wait_for(lambda: cluster.node(1).image.brokers[3].fenced)
        topic = cluster.call(lambda: cluster.node(1).image.topics.get("t"))
        assert topic is not None
        assert all(one.leader in (1, 2) and 3 not in one.isr for one in topic.partitions)
        assert leaderless == []


@pytest.mark.parametrize("voters", [3, 2])
def test_all_nodes_may_stop_at_once_and_come_back(tmp_path: Path, voters: int) -> None:
    """After a stop of everything the metadata is there again."""
    with Cluster(tmp_path, voters=voters) as cluster:
        assert create(cluster, 1, "kept") == ErrorCode.NONE
        cluster.stop(1, 2, 3)
        cluster.start(1, 2, 3)
        for node in (1, 2, 3):
            assert cluster.call(lambda node=node: cluster.node(node).image.topics.get("kept")) is not None  # type: ignore[misc]


def test_a_topic_that_a_client_names_is_created_through_any_broker(tmp_path: Path) -> None:
    """The answer to Metadata has the new topic with its leaders, also from a broker that must ask the controller for it."""
    with Cluster(tmp_path) as cluster:
        for node in cluster.broker_ids:
            asked = [MetadataRequestTopic(name=f"new-{node}")]
            with cluster.connected(node) as wire:
                answer = wire.request(MetadataRequest(topics=asked, allow_auto_topic_creation=True), 12)
            assert [(topic.name, topic.error_code) for topic in answer.topics] == [(f"new-{node}", ErrorCode.NONE)]
            assert all(one.leader_id > 0 for one in answer.topics[0].partitions)


@pytest.mark.parametrize(("voters", "controllers"), [(1, 0), (2, 0), (0, 1)])
def test_brokers_without_a_vote_follow_the_controllers(tmp_path: Path, voters: int, controllers: int) -> None:
    """They register, take admin requests and see what happens, as those with a vote do; also after a restart."""
    with Cluster(tmp_path, voters=voters, controllers=controllers) as cluster:
        assert create(cluster, 3, "t") == ErrorCode.NONE
        with cluster.connected(3) as wire:
            answer = wire.request(MetadataRequest(topics=None), 12)
        assert [topic.name for topic in answer.topics] == ["t"]
        assert [broker.node_id for broker in answer.brokers] == [1, 2, 3]
        cluster.stop(3)
        assert create(cluster, 1, "meanwhile") == ErrorCode.INVALID_REPLICATION_FACTOR
        cluster.start(3)
        assert create(cluster, 3, "later") == ErrorCode.NONE


def test_a_broker_that_was_away_for_long_takes_the_controllers_snapshot(tmp_path: Path) -> None:
    """The log no longer reaches back to where it stopped, so it goes on from a snapshot, and follows from there."""
    often = {"metadata.log.max.record.bytes.between.snapshots": "2000"}
    with Cluster(tmp_path, brokers=2, voters=1, node_config={1: often}) as cluster:
        assert create(cluster, 2, "before") == ErrorCode.NONE
        cluster.stop(2)
        end = cluster.call(lambda: cluster.node(1).image.next_offset)
        for number in range(100):
            topic = CreatableTopic(name=f"meanwhile-{number}", num_partitions=5, replication_factor=1)
            with cluster.connected(1) as wire:
                wire.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
            if cluster.call(lambda: cluster.node(1).metadata.log.start_offset) > end:
                break
        cluster.wait_for(lambda: cluster.node(1).metadata.log.start_offset > end)
        cluster.start(2)
        names = [set(cluster.call(lambda node=node: cluster.node(node).image.topics.by_name)) for node in (1, 2)]  # type: ignore[misc]
        assert names[0] == names[1] >= {"before", "meanwhile-0"}
        assert create(cluster, 2, "after") == ErrorCode.NONE


def test_an_admin_request_outlives_the_controller(tmp_path: Path) -> None:
    """Asked while nobody decides, it is carried out by the next controller."""
    with Cluster(tmp_path) as cluster:
        victim = cluster.controller()
        alive = next(node for node in cluster.broker_ids if node != victim)
        cluster.kill(victim)
        assert create_with(cluster, alive, "t", replicas=1) == ErrorCode.NONE
        with cluster.connected(alive) as wire:
            answer = wire.request(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)
        assert answer.topics[0].error_code == ErrorCode.NONE


def test_a_broker_that_was_fenced_for_its_silence_is_counted_on_when_it_is_heard(tmp_path: Path) -> None:
    """In the same life: it doesn't register anew."""
    with Cluster(tmp_path, brokers=2, voters=1) as cluster:
        epoch = cluster.call(lambda: cluster.node(1).image.brokers[2].epoch)
        fenced: list[bool] = []

        def publish(delta: MetadataDelta, image: MetadataImage) -> None:
            fenced.append(image.brokers[2].fenced)

        def silence() -> None:
            loader = cluster.node(1).metadata._loader
            loader._publishers = (*loader._publishers, publish)
            cluster.node(1).controller.sessions.broken(2)
            # What the next tick does when a session has ended.
            membership = cluster.node(1).cluster
            assert isinstance(membership, Lifecycle) and membership._duties is not None
            membership._duties._fence(2, "a test")

        cluster.call(silence)
        cluster.wait_for(lambda: True in fenced and not fenced[-1])
        assert cluster.call(lambda: cluster.node(1).image.brokers[2].epoch) == epoch


def test_what_was_deleted_while_a_broker_was_dead_is_set_aside_there(tmp_path: Path) -> None:
    """It comes back after a crash with partitions that the cluster doesn't know any more, and starts all the same."""
    with Cluster(tmp_path) as cluster:
        assert create(cluster, 1, "gone") == ErrorCode.NONE
        assert create(cluster, 1, "kept") == ErrorCode.NONE
        cluster.wait_for(lambda: cluster.node(3).replicas.find("gone", 0) is not None)
        cluster.kill(3)
        with cluster.connected(1) as wire:
            answer = wire.request(DeleteTopicsRequest(topic_names=["gone"], timeout_ms=10_000), 5)
        assert answer.responses[0].error_code == ErrorCode.NONE
        cluster.start(3)
        assert cluster.call(lambda: sorted(cluster.node(3).replicas.topics)) == ["kept"]


def test_a_cluster_of_one_that_names_its_controller_keeps_its_leaderships(tmp_path: Path) -> None:
    """It stops and starts without asking anybody, and leads what it led in the same epoch."""
    with Cluster(tmp_path, brokers=1) as cluster:
        assert create(cluster, 1, "t") == ErrorCode.NONE
        before = cluster.call(lambda: cluster.node(1).image.topics.get("t"))
        cluster.stop(1)
        cluster.start(1)
        assert cluster.call(lambda: cluster.node(1).image.topics.get("t")) == before
        cluster.kill(1)
        cluster.start(1)
        after = cluster.call(lambda: cluster.node(1).image.topics.get("t"))
        assert after is not None and [one.leader for one in after.partitions] == [1, 1, 1]


def test_loggers_change_where_they_are_and_the_rest_where_it_is_decided(tmp_path: Path) -> None:
    """One request for both, to a broker that is not the controller: each part takes effect, and both are answered."""
    with Cluster(tmp_path) as cluster:
        node = next(one for one in cluster.broker_ids if one != cluster.controller())
        level = AlterableConfig(name="kafkapy.peers", value="WARN")
        retention = AlterableConfig(name="log.retention.ms", value="777000")
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(resource_type=BROKER_LOGGER, resource_name=str(node), configs=[level]),
                AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[retention]),
            ]
        )
        before = logging.getLogger("kafkapy.peers").level
        try:
            with cluster.connected(node) as wire:
                answer = wire.request(request, 1)
            assert logging.getLogger("kafkapy.peers").level == logging.WARNING
        finally:
            logging.getLogger("kafkapy.peers").setLevel(before)
        assert sorted((one.resource_type, one.error_code) for one in answer.responses) == [
            (BROKER, 0),
            (BROKER_LOGGER, 0),
        ]
        for one in cluster.broker_ids:
            cluster.wait_for(lambda one=one: cluster.node(one).config.log_retention_ms == 777_000)  # type: ignore[misc]


def test_any_broker_tells_of_the_quorum(tmp_path: Path) -> None:
    """A broker that doesn't lead it asks the one that does."""
    asked = [RequestTopic(topic_name="__cluster_metadata", partitions=[RequestPartition(partition_index=0)])]
    with Cluster(tmp_path) as cluster:
        leader = cluster.controller()
        for node in cluster.broker_ids:
            with cluster.connected(node) as wire:
                answer = wire.request(DescribeQuorumRequest(topics=asked), 2)
            partition = answer.topics[0].partitions[0]
            assert (partition.leader_id, sorted(one.replica_id for one in partition.current_voters)) == (
                leader,
                [1, 2, 3],
            )
