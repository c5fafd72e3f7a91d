"""The levers of durability as docs/durability.md tells of them, pulled on real processes with a stock client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError

from kafkapy.client.replicas import describe_replicas
from kafkapy.testing import Cluster
from kafkapy.types import TopicPartition
from tests.cluster.writing import read_all, write

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    """Three nodes for all tests that need no more; each test leaves them running."""
    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def cluster(three: Cluster) -> Iterator[Cluster]:
    """The three nodes, all of them running before and after."""
    yield three
    for node in three.running:
        three.resume(node)
    three.start_all()


def followers(cluster: Cluster, topic: str) -> list[int]:
    """The replicas that do not lead partition 0."""
    leader = cluster.leader(topic)
    with cluster.client() as client:
        (row,) = describe_replicas(client, [topic])
    return [node for node in row.replicas if node != leader]


def test_five_copies_of_which_three_must_be_in_sync_survive_two_deaths() -> None:
    """Factor 5, min.insync.replicas 3: with two nodes dead, reads and writes go on and nothing is lost."""
    with Cluster(5) as cluster:
        cluster.create_topic("orders", 1, 5, {"min.insync.replicas": "3"})
        first = write(cluster.bootstrap, "orders", range(100))
        cluster.kill(cluster.leader("orders"))
        cluster.kill(cluster.leader("orders"))
        second = write(cluster.bootstrap, "orders", range(100, 200), enable_idempotence=True)
        assert first.acked + second.acked == list(range(200))
        assert read_all(cluster.bootstrap, "orders") == list(range(200))


def test_as_many_in_sync_as_there_are_copies_stops_writes_with_the_first_death(cluster: Cluster) -> None:
    """min.insync.replicas equal to the factor: one dead node means NOT_ENOUGH_REPLICAS, and what was acknowledged stays."""
    cluster.create_topic("strict", 1, 3, {"min.insync.replicas": "3"})
    first = write(cluster.bootstrap, "strict", range(50))
    victim = followers(cluster, "strict")[0]
    cluster.kill(victim)
    second = write(cluster.bootstrap, "strict", range(50, 60), timeout_ms=2500, retries=0)
    assert first.acked == list(range(50)) and not second.acked
    # The first may have been written while the dead node still counted: it is not acknowledged, and may be there.
    assert {error.code() for error in second.errors.values()} <= {
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError._MSG_TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
    }
    third = write(cluster.bootstrap, "strict", range(60, 70), timeout_ms=2500, retries=0)
    assert {error.code() for error in third.errors.values()} == {KafkaError.NOT_ENOUGH_REPLICAS}
    assert read_all(cluster.bootstrap, "strict")[:50] == list(range(50))
    cluster.start(victim)
    cluster.wait_in_sync()
    assert write(cluster.bootstrap, "strict", range(70, 80)).acked == list(range(70, 80))


def test_acks_one_may_lose_what_only_the_dead_leader_had(cluster: Cluster) -> None:
    """The leader acknowledges alone while its followers hang, then dies: its successor has never seen the last records."""
    cluster.create_topic("quick", 1, 3, {"min.insync.replicas": "1"})
    assert write(cluster.bootstrap, "quick", range(10)).acked == list(range(10))
    leader = cluster.leader("quick")
    for node in followers(cluster, "quick"):
        cluster.pause(node)
    # What the leader sends in answer to a fetch that was waiting is in a follower's socket already; what comes later is not.
    assert write(cluster.address(leader), "quick", range(10, 20), acks="1").acked == list(range(10, 20))
    assert write(cluster.address(leader), "quick", range(20, 30), acks="1").acked == list(range(20, 30))
    cluster.kill(leader)
    for node in cluster.running:
        cluster.resume(node)
    assert cluster.leader("quick") != leader
    survived = read_all(cluster.bootstrap, "quick")
    assert survived == list(range(len(survived))) and 10 <= len(survived) <= 20
    # The old leader comes back, and what it alone had is cut away: all replicas have one history.
    cluster.start(leader)
    cluster.wait_in_sync()
    assert write(cluster.bootstrap, "quick", range(30, 40)).acked == list(range(30, 40))
    assert read_all(cluster.bootstrap, "quick") == [*survived, *range(30, 40)]


def test_when_all_copies_are_dead_the_last_one_in_sync_is_waited_for(cluster: Cluster) -> None:
    """Another one that comes back earlier lacks records, so it does not lead, until somebody orders that."""
    # Two replicas: the third node keeps the quorum alive with whichever comes back first.
    cluster.create_topic("pair", config={"min.insync.replicas": "1"}, assignment=[[1, 2]])
    assert write(cluster.bootstrap, "pair", range(10)).acked == list(range(10))
    cluster.stop(2)
    assert write(cluster.bootstrap, "pair", range(10, 20)).acked == list(range(10, 20))
    cluster.kill(1)
    cluster.start(2)

    def without_leader(client: object) -> bool | None:
        (row,) = describe_replicas(client, ["pair"])  # type: ignore[arg-type]
        return True if row.partition == TopicPartition("pair", 0) and row.leader == -1 else None

    cluster.wait_for(without_leader, "the partition to have no leader")
    cluster.start(1)
    assert cluster.leader("pair") == 1
    assert read_all(cluster.bootstrap, "pair") == list(range(20))
    cluster.wait_in_sync()
