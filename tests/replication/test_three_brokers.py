"""Three brokers in one loop with real sockets: what clients are answered while records are copied, leaders move and followers serve."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.log.partition import Partition
from kafkapy.types import TopicPartition
from kafkapy.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkapy.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkapy.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.support.cluster import Cluster
from tests.support.requests import batch, fetch, fetch_partition, produce

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Each broker in a rack of its own, and consumers sent to theirs."""
    racks = {node: {"broker.rack": f"rack-{node}"} for node in (1, 2, 3)}
    folder: Path = tmp_path_factory.mktemp("cluster")
    with Cluster(folder, node_config=racks, config={"replica.selector.class": RACK_AWARE}) as running:
        yield running


def create(cluster: Cluster, name: str, *replicas: int, **config: str) -> None:
    """A topic of one partition on these brokers; the first leads."""
    topic = CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()],
    )
    with cluster.connected(1) as wire:
        answer = wire.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    assert not answer.topics[0].error_code
    for node in replicas:
        cluster.wait_for(partial(replica, cluster, node, name))


def replica(cluster: Cluster, node: int, name: str) -> Partition | None:
    """A broker's replica of the topic's partition."""
    return cluster.node(node).replicas.find(name, 0)


def here(cluster: Cluster, node: int, name: str) -> Partition:
    """The same, where there must be one."""
    found = replica(cluster, node, name)
    assert found is not None
    return found


def ends(cluster: Cluster, name: str, node: int) -> tuple[int, int]:
    """(log end, high watermark) on a broker."""
    found = here(cluster, node, name)
    return found.log.log_end_offset, found.high_watermark


def has(cluster: Cluster, name: str, node: int, count: int) -> bool:
    """Whether a broker has so many records, and knows that they are committed."""
    return ends(cluster, name, node) == (count, count)


def send(cluster: Cluster, node: int, name: str, *values: bytes, acks: int = -1, timeout_ms: int = 5000) -> Any:
    """What the broker answers to a Produce of these records."""
    with cluster.connected(node) as wire:
        answer = wire.request(produce(name, batch(*values), acks=acks, timeout_ms=timeout_ms), 12)
    return answer


def code_of(answer: Any) -> int:
    return int(answer.responses[0].partition_responses[0].error_code)


def test_acknowledged_records_are_on_every_replica_in_sync(cluster: Cluster) -> None:
    """When the answer is there the followers have the records, and soon they know that all do."""
    create(cluster, "acknowledged", 1, 2, 3)
    assert not code_of(send(cluster, 1, "acknowledged", b"a", b"b"))
    for node in (1, 2, 3):
        assert cluster.call(partial(ends, cluster, "acknowledged", node))[0] == 2
    for node in (2, 3):
        cluster.wait_for(partial(has, cluster, "acknowledged", node, 2))


def test_refusal_names_the_leader_and_where_it_is(cluster: Cluster) -> None:
    """Produce and Fetch sent to a follower tell whom to ask instead (KIP-951)."""
    create(cluster, "elsewhere", 2, 3, 1)
    answer = send(cluster, 1, "elsewhere", b"a")
    assert code_of(answer) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader = answer.responses[0].partition_responses[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (2, 0)
    assert [(node.node_id, node.port) for node in answer.node_endpoints] == [(2, cluster.ports[2])]
    topic_id = cluster.call(lambda: cluster.node(1).image.topics.get("elsewhere").id)  # type: ignore[union-attr]
    with cluster.connected(1) as wire:
        asked = fetch(topic_id, fetch_partition(current_leader_epoch=7), session_epoch=-1)
        found = wire.request(asked, 16)
        assert found.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert not code_of(send(cluster, 2, "elsewhere", b"a"))


def test_consumers_read_from_the_replica_in_their_rack(cluster: Cluster) -> None:
    """The leader sends them there, and the follower serves what is committed."""
    create(cluster, "near", 1, 2)
    assert not code_of(send(cluster, 1, "near", b"a"))
    cluster.wait_for(lambda: ends(cluster, "near", 2) == (1, 1))
    with cluster.connected(1) as wire:
        told = wire.request(fetch("near", fetch_partition(), rack_id="rack-2"), 12).responses[0].partitions[0]
        assert told.preferred_read_replica == 2 and not told.records and told.high_watermark == 1
        for rack in ("rack-1", "rack-3", ""):
            served = wire.request(fetch("near", fetch_partition(), rack_id=rack), 12).responses[0].partitions[0]
            assert served.preferred_read_replica == -1 and served.records
    with cluster.connected(2) as wire:
        served = wire.request(fetch("near", fetch_partition(), rack_id="rack-2"), 12).responses[0].partitions[0]
        assert served.records and not served.error_code
        beyond = wire.request(fetch("near", fetch_partition(offset=9)), 12).responses[0].partitions[0]
        assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        old = wire.request(fetch("near", fetch_partition()), 10).responses[0].partitions[0]
        assert old.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_consumer_that_waits_at_a_follower_is_woken_there(cluster: Cluster) -> None:
    """What the leader commits wakes it long before its fetch would end."""
    create(cluster, "waiting", 1, 2)
    with cluster.connected(2) as wire:
        wire.send(fetch("waiting", fetch_partition(), max_wait_ms=60_000), 12)
        assert not code_of(send(cluster, 1, "waiting", b"a"))
        assert wire.receive().responses[0].partitions[0].records


def test_records_are_deleted_on_all_replicas_before_the_answer(cluster: Cluster) -> None:
    """DeleteRecords waits for the followers."""
    create(cluster, "deleted", 1, 2, 3)
    for _ in range(3):
        assert not code_of(send(cluster, 1, "deleted", b"a", b"b"))
    topic = DeleteRecordsTopic(name="deleted", partitions=[DeleteRecordsPartition(partition_index=0, offset=4)])
    with cluster.connected(1) as wire:
        answer = wire.request(DeleteRecordsRequest(topics=[topic], timeout_ms=10_000), 2)
    result = answer.topics[0].partitions[0]
    assert (result.error_code, result.low_watermark) == (0, 4)
    for node in (1, 2, 3):
        assert cluster.call(partial(here, cluster, node, "deleted")).log.log_start_offset == 4


def test_dead_follower_leaves_the_isr_and_comes_back(cluster: Cluster) -> None:
    """Writes go on with two of three, stop with min.insync.replicas=3, and the one that returns copies what it has missed."""
    create(cluster, "two-of-three", 1, 2, 3)
    create(cluster, "all-three", 1, 2, 3, min_insync_replicas="3")
    assert not code_of(send(cluster, 1, "all-three", b"a"))
    cluster.kill(3)
    cluster.wait_for(lambda: here(cluster, 1, "two-of-three").isr == (1, 2))
    cluster.wait_for(lambda: here(cluster, 1, "all-three").isr == (1, 2))
    assert not code_of(send(cluster, 1, "two-of-three", b"a", b"b"))
    assert code_of(send(cluster, 1, "all-three", b"b")) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert not code_of(send(cluster, 1, "all-three", b"b", acks=1))
    cluster.start(3)
    cluster.wait_for(lambda: sorted(here(cluster, 1, "all-three").isr) == [1, 2, 3])
    assert cluster.call(lambda: ends(cluster, "two-of-three", 3)[0]) == 2
    assert not code_of(send(cluster, 1, "all-three", b"c"))


def test_new_leader_has_what_was_acknowledged(cluster: Cluster) -> None:
    """The leader dies; another one of the ISR serves the same records, and takes more."""
    create(cluster, "inherited", 2, 3, 1)
    assert not code_of(send(cluster, 2, "inherited", b"a", b"b"))
    cluster.kill(2)
    cluster.wait_for(lambda: here(cluster, 3, "inherited").is_leader)
    assert not code_of(send(cluster, 3, "inherited", b"c"))
    assert cluster.call(lambda: ends(cluster, "inherited", 3)) == (3, 3)
    cluster.start(2)
    cluster.wait_for(lambda: ends(cluster, "inherited", 2)[0] == 3)


def test_moved_replica_is_copied_to_its_new_broker_and_deleted_from_the_old(cluster: Cluster) -> None:
    """A reassignment ends when the new replica is in sync; what it replaces is stopped and its folder goes."""
    create(cluster, "moved", 1, 2)
    assert not code_of(send(cluster, 1, "moved", b"a", b"b"))
    partition = ReassignablePartition(partition_index=0, replicas=[1, 3])
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="moved", partitions=[partition])], timeout_ms=10_000
    )
    with cluster.connected(1) as wire:
        assert not wire.request(request, 0).responses[0].partitions[0].error_code
    cluster.wait_for(lambda: replica(cluster, 3, "moved") is not None and ends(cluster, "moved", 3)[0] == 2)
    cluster.wait_for(lambda: sorted(here(cluster, 1, "moved").isr) == [1, 3])
    cluster.wait_for(lambda: replica(cluster, 2, "moved") is None)
    assert not cluster.call(lambda: cluster.node(2).logs.contains(TopicPartition("moved", 0)))
    assert not code_of(send(cluster, 1, "moved", b"c"))
