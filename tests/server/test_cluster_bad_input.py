"""Nodes that have no place in a cluster are refused, with a line that says why, and nothing changes."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kafkapy.errors import ErrorCode, StartError
from kafkapy.log.checkpoints import format_uuid
from kafkapy.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kafkapy.wire.messages.broker_registration import BrokerRegistrationRequest
from kafkapy.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.wire.messages.envelope import EnvelopeRequest
from kafkapy.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.wire.messages.produce import ProduceRequest
from tests.support.cluster import Cluster

OTHER_CLUSTER = format_uuid(bytes(range(1, 17)))
METADATA_TOPIC_ID = bytes(15) + b"\1"


def test_a_second_node_with_the_same_id_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While the first one lives; the second one says what is wrong and gives up when its time to register is over."""
    early = {"initial.broker.registration.timeout.ms": "300"}
    with Cluster(tmp_path, brokers=3, voters=1, node_config={3: early}) as cluster:
        cluster.stop(3)
        epoch = cluster.call(lambda: cluster.node(1).image.brokers[2].epoch)
        cluster.settings(3)["node.id"] = "2"
        cluster.settings(3)["log.dirs"] = str(tmp_path / "another")
        cluster.begin(3)
        with (
            caplog.at_level(logging.WARNING),
            pytest.raises(StartError, match=r"another process with node\.id 2 is alive"),
        ):
            cluster.wait_until_ready(3)
        assert "another process with node.id 2 is alive" in caplog.text
        assert cluster.call(lambda: cluster.node(1).image.brokers[2].epoch) == epoch


def test_a_node_of_another_cluster_is_refused(tmp_path: Path) -> None:
    """A broker whose folder belongs to another cluster does not join this one."""
    with Cluster(tmp_path, brokers=2, voters=1) as cluster:
        cluster.stop(2)
        properties = tmp_path / "node-2" / "meta.properties"
        cluster_id = cluster.call(lambda: cluster.node(1).cluster_id)
        properties.write_text(properties.read_text().replace(cluster_id, OTHER_CLUSTER))
        cluster.begin(2)
        with pytest.raises(StartError, match=f"another cluster than {OTHER_CLUSTER}"):
            cluster.wait_until_ready(2)


def test_requests_of_an_earlier_life_are_refused(tmp_path: Path) -> None:
    """A heartbeat with an old epoch, and a registration for another cluster."""
    with Cluster(tmp_path, brokers=1) as cluster, cluster.connected_to_controller(1) as wire:
        stale = wire.request(BrokerHeartbeatRequest(broker_id=1, broker_epoch=0), 1)
        assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
        unknown = wire.request(BrokerHeartbeatRequest(broker_id=99, broker_epoch=0), 1)
        assert unknown.error_code == ErrorCode.STALE_BROKER_EPOCH
        foreign = wire.request(BrokerRegistrationRequest(broker_id=99, cluster_id=OTHER_CLUSTER), 4)
        assert foreign.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert cluster.call(lambda: sorted(cluster.node(1).image.brokers)) == [1]


def test_the_controller_listener_serves_its_own_requests_only(tmp_path: Path) -> None:
    """What clients ask brokers closes the connection there, as in Kafka, and so does the reverse."""
    with Cluster(tmp_path, brokers=1) as cluster:
        with cluster.connected_to_controller(1) as wire:
            wire.send(ProduceRequest(), 9)
            assert wire.is_closed()
        with cluster.connected(1) as wire:
            wire.send(BrokerHeartbeatRequest(broker_id=1), 1)
            assert wire.is_closed()
        with cluster.connected_to_controller(1) as wire:
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            answer = wire.request(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
            assert answer.topics[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    "data", [b"", b"\0\x13\0\7\0\0\0\1\0\1a", b"\0\x00\0\x09\0\0\0\1\xff\xff\0", b"\x7f\xff\0\0\0\0\0\0\0\0"]
)
def test_an_envelope_with_nonsense_is_refused(tmp_path: Path, data: bytes) -> None:
    """A cut request, one that may not be forwarded, and one that doesn't exist."""
    with Cluster(tmp_path, brokers=1) as cluster, cluster.connected_to_controller(1) as wire:
        answer = wire.request(EnvelopeRequest(request_data=data, client_host_address=b"\x7f\0\0\1"), 0)
        assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_the_metadata_log_is_fetched_by_itself_and_by_this_cluster(tmp_path: Path) -> None:
    """Another cluster's id, another topic, and an epoch that is over have their own answers."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    topics = [FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])]
    with Cluster(tmp_path, brokers=1) as cluster, cluster.connected_to_controller(1) as wire:
        assert (
            wire.request(FetchRequest(cluster_id=OTHER_CLUSTER, topics=topics), 17).error_code
            == ErrorCode.INCONSISTENT_CLUSTER_ID
        )
        other = [FetchTopic(topic_id=bytes(16), partitions=[partition])]
        assert wire.request(FetchRequest(topics=other), 17).error_code == ErrorCode.INVALID_REQUEST
        answer = wire.request(FetchRequest(topics=topics), 17).responses[0].partitions[0]
        assert (answer.error_code, answer.current_leader.leader_id) == (ErrorCode.NONE, 1)
        assert answer.records[:8] == bytes(8)
        partition.current_leader_epoch = answer.current_leader.leader_epoch + 1
        answer = wire.request(FetchRequest(topics=topics), 17).responses[0].partitions[0]
        assert answer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        partition.current_leader_epoch = 0
        answer = wire.request(FetchRequest(topics=topics), 17).responses[0].partitions[0]
        assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
        partition.current_leader_epoch, partition.fetch_offset, partition.last_fetched_epoch = -1, 1_000_000, 1
        answer = wire.request(FetchRequest(topics=topics), 17).responses[0].partitions[0]
        assert answer.diverging_epoch.end_offset == cluster.call(lambda: cluster.node(1).image.next_offset)
