"""Administration where it cannot be seen from the command line's tests."""

from __future__ import annotations

from kafkapy.client import admin
from kafkapy.client.offsets import list_offsets
from kafkapy.testing.broker import Broker
from kafkapy.types import TopicPartition
from tests.client.fakes import FakeCluster


def test_a_cluster_that_lacks_describe_cluster_is_described_by_its_metadata() -> None:
    """Brokers before Kafka 2.8."""
    fake = FakeCluster(1)
    fake.unserved = {admin.DESCRIBE_CLUSTER_KEY}
    with fake.client() as client:
        found = admin.describe_cluster(client)
    assert [broker.id for broker in found.brokers] == [1, 2, 3]
    assert found.controller_id == 1


def test_a_topic_lives_and_dies() -> None:
    """Created, grown, configured, described and deleted, with a result for each."""
    with Broker() as broker, broker.client() as client:
        topics = [admin.NewTopic("a", 2, configs={"retention.ms": "1000"}), admin.NewTopic("")]
        good, bad = sorted(admin.create_topics(client, topics), key=lambda result: result.name, reverse=True)
        assert (good.error, good.partitions, good.replicas) == (None, 2, 1)
        assert bad.error is not None
        assert [result.error for result in admin.create_partitions(client, {"a": 3})] == [None]
        assert [result.error for result in admin.alter_configs(client, admin.TOPIC, ["a"], {"flush.ms": "5"})] == [None]
        found = {entry.name: entry for entry in admin.describe_configs(client, admin.TOPIC, "a", documentation=True)}
        assert (found["flush.ms"].value, found["flush.ms"].source) == ("5", "topic")
        assert found["retention.ms"].documentation
        partitions = [TopicPartition("a", index) for index in range(3)]
        offsets, failed = list_offsets(client, dict.fromkeys(partitions, -1))
        assert [offsets[partition].offset for partition in partitions] == [0, 0, 0] and not failed
        starts, failed = admin.delete_records(client, dict.fromkeys(partitions, -1))
        assert starts == dict.fromkeys(partitions, 0) and not failed
        (log_dir,) = admin.describe_log_dirs(client, 1)
        assert set(partitions) <= set(log_dir.sizes)
        entries = admin.describe_configs(client, admin.BROKER, "1", ["log.dirs"])
        assert [entry.name for entry in entries] == ["log.dirs"]
        assert [result.error for result in admin.delete_topics(client, ["a"])] == [None]
        assert client.metadata().topics == []
