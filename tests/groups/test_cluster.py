"""Groups on three brokers: their coordinator dies, and nobody loses a position."""

from __future__ import annotations

from pathlib import Path

from kafkapy.errors import ErrorCode
from kafkapy.wire.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.wire.messages.heartbeat import HeartbeatRequest
from kafkapy.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kafkapy.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.cluster import Cluster
from tests.support.patient_client import GROUP, PatientClient, codes_of


def commit(client: PatientClient, group: str, offset: int, member: str = "", generation: int = -1) -> set[ErrorCode]:
    """Commit for partition 0 of topic t."""
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    request = OffsetCommitRequest(
        group_id=group,
        member_id=member,
        generation_id_or_member_epoch=generation,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[row])],
    )
    return codes_of(client.of_group(group, request, 8))


def committed(client: PatientClient, group: str) -> int:
    """What the group has committed there."""
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
    answer = client.of_group(group, request, 8)
    assert not codes_of(answer)
    return int(answer.groups[0].topics[0].partitions[0].committed_offset)


def enter(client: PatientClient, group: str) -> tuple[str, int]:
    """Become the group's only member: its id and the generation."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"any")]
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    request.member_id = client.of_group(group, request, 9).member_id
    joined = client.of_group(group, request, 9)
    assert not joined.error_code
    share = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")]
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=share,
    )
    assert not client.of_group(group, sync, 5).error_code
    return str(joined.member_id), int(joined.generation_id)


def test_a_group_survives_the_death_of_its_coordinator(tmp_path: Path) -> None:
    """Its offsets, its members and its generation are there again at the next coordinator, and after that one's clean stop at the third."""
    with Cluster(tmp_path, config={"min.insync.replicas": "1"}) as cluster, PatientClient(cluster) as client:
        client.create_topic("t", 1)
        member, generation = enter(client, "g")
        for offset in range(1, 6):
            assert commit(client, "g", offset, member, generation) == set()
        first = client.coordinator(GROUP, "g")
        cluster.kill(first)
        assert committed(client, "g") == 5
        beat = HeartbeatRequest(group_id="g", member_id=member, generation_id=generation)
        assert client.of_group("g", beat, 4).error_code == ErrorCode.NONE
        assert commit(client, "g", 6, member, generation) == set()
        second = client.coordinator(GROUP, "g")
        assert second != first
        cluster.start(first)
        cluster.wait_for(lambda: _in_sync(cluster, second) == {1, 2, 3})
        cluster.stop(second)
        assert committed(client, "g") == 6
        assert client.of_group("g", beat, 4).error_code == ErrorCode.NONE
        assert client.coordinator(GROUP, "g") != second


def _in_sync(cluster: Cluster, node: int) -> set[int]:
    """The brokers that have all of the offsets topic."""
    topic = cluster.node(node).image.topics.get("__consumer_offsets")
    assert topic is not None
    return set.intersection(*[set(one.isr) for one in topic.partitions])


def test_a_commit_waits_for_the_followers(tmp_path: Path) -> None:
    """With too few of them the commit is refused for the moment, and nothing of it is seen; when they are back it works again."""
    with Cluster(tmp_path, config={"min.insync.replicas": "3"}) as cluster, PatientClient(cluster) as client:
        client.create_topic("t", 1)
        assert commit(client, "g", 1) == set()
        node = client.coordinator(GROUP, "g")
        victim = next(one for one in cluster.broker_ids if one != node)
        cluster.kill(victim)
        cluster.wait_for(lambda: victim not in _in_sync(cluster, node))
        row = OffsetCommitRequestPartition(partition_index=0, committed_offset=2, committed_metadata="")
        request = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[row])])
        answer = client.ask_once(client.coordinator(GROUP, "g"), request, 8)
        assert codes_of(answer) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert committed(client, "g") == 1
        cluster.start(victim)
        assert commit(client, "g", 3) == set()
        assert committed(client, "g") == 3


def test_internal_topics_have_their_own_number_of_copies(tmp_path: Path) -> None:
    """As configured for them; while there are too few brokers for that there is no coordinator, and none with fewer copies."""
    with Cluster(tmp_path) as cluster, PatientClient(cluster) as client:
        for kind, name in ((0, "__consumer_offsets"), (1, "__transaction_state")):
            client.coordinator(kind, "any")
            topic = cluster.call(lambda name=name: cluster.node(1).image.topics.get(name))  # type: ignore[misc]
            assert topic is not None and {len(one.replicas) for one in topic.partitions} == {3}


def test_no_coordinator_with_too_few_brokers(tmp_path: Path) -> None:
    """FindCoordinator answers COORDINATOR_NOT_AVAILABLE, and clients ask again until there are enough."""
    settings = {"offsets.topic.replication.factor": "3", "transaction.state.log.replication.factor": "3"}
    with Cluster(tmp_path, brokers=1, config=settings) as cluster, cluster.connected(1) as wire:
        for kind in (0, 1):
            answer = wire.request(FindCoordinatorRequest(key_type=kind, coordinator_keys=["any"]), 4)
            assert answer.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
