"""The admin client: topics, partitions, configuration, records, offsets, cluster."""

from __future__ import annotations

import pytest
from confluent_kafka import IsolationLevel, KafkaError, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicMetadata,
)

from compat_tests.confluent.support import WAIT_S, code, consumer, produce, until

BASE_MS = 1_700_000_000_000


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    """An admin client."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def configs(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    """All configuration of a resource."""
    resource = ConfigResource(kind, name)
    return admin.describe_configs([resource])[resource].result(WAIT_S)


def partitions(admin: AdminClient, name: str) -> int:
    """How many partitions a topic has, as far as the broker has heard."""
    return len(admin.list_topics(timeout=WAIT_S).topics.get(name, TopicMetadata()).partitions or ())


def broker_value(admin: AdminClient, key: str) -> tuple[str, ConfigSource]:
    """What a broker's key has now, and from where."""
    found = configs(admin, ResourceType.BROKER, "1")[key]
    return found.value, ConfigSource(found.source)


def test_create_and_delete_topics(admin: AdminClient, unique) -> None:
    """Several at once; what is created is seen, what is deleted is not."""
    names = [unique("made") for _ in range(3)]
    for future in admin.create_topics([NewTopic(name, num_partitions=3) for name in names]).values():
        future.result(WAIT_S)
    until(lambda: [partitions(admin, name) for name in names] == [3, 3, 3])
    for future in admin.delete_topics(names, operation_timeout=10).values():
        future.result(WAIT_S)
    until(lambda: not set(names) & set(admin.list_topics(timeout=WAIT_S).topics))


def test_create_topic_errors(admin: AdminClient, topic: str, unique) -> None:
    """Exists already, bad name, bad partition count, too many replicas, unknown key, bad value."""
    cases = {
        NewTopic(topic, num_partitions=1): KafkaError.TOPIC_ALREADY_EXISTS,
        NewTopic("bad name", num_partitions=1): KafkaError.TOPIC_EXCEPTION,
        NewTopic(unique("t"), num_partitions=0): KafkaError.INVALID_PARTITIONS,
        NewTopic(unique("t"), num_partitions=1, replication_factor=3): KafkaError.INVALID_REPLICATION_FACTOR,
        NewTopic(unique("t"), num_partitions=1, config={"no.such.key": "1"}): KafkaError.INVALID_CONFIG,
        NewTopic(unique("t"), num_partitions=1, config={"retention.ms": "soon"}): KafkaError.INVALID_CONFIG,
        NewTopic(unique("t"), num_partitions=1, config={"cleanup.policy": "burn"}): KafkaError.INVALID_CONFIG,
    }
    for new, expected in cases.items():
        assert code(admin.create_topics([new])[new.topic]) == expected, new


def test_validate_only(admin: AdminClient, unique) -> None:
    """A dry run creates nothing."""
    name = unique("dry")
    admin.create_topics([NewTopic(name, num_partitions=2)], validate_only=True)[name].result(WAIT_S)
    assert name not in admin.list_topics(timeout=WAIT_S).topics


def test_manual_assignment(admin: AdminClient, unique) -> None:
    """Replicas chosen by the caller; a broker that is not there is refused."""
    name = unique("placed")
    admin.create_topics([NewTopic(name, num_partitions=2, replica_assignment=[[1], [1]])])[name].result(WAIT_S)
    until(lambda: partitions(admin, name) == 2)
    other = unique("placed")
    refused = admin.create_topics([NewTopic(other, num_partitions=1, replica_assignment=[[77]])])[other]
    assert code(refused) == KafkaError.INVALID_REPLICA_ASSIGNMENT


def test_delete_unknown_topic(admin: AdminClient, unique) -> None:
    """UNKNOWN_TOPIC_OR_PART."""
    name = unique("nowhere")
    assert code(admin.delete_topics([name])[name]) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_create_partitions(admin: AdminClient, topic: str, unique) -> None:
    """Growing works, shrinking and standing still do not."""
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(WAIT_S)
    until(lambda: partitions(admin, topic) == 5)
    for total in (5, 3):
        assert code(admin.create_partitions([NewPartitions(topic, total)])[topic]) == KafkaError.INVALID_PARTITIONS
    name = unique("nowhere")
    assert code(admin.create_partitions([NewPartitions(name, 5)])[name]) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_describe_topics(admin: AdminClient, topic: str, unique) -> None:
    """Ids, leaders, replicas; an unknown one is an error of its own."""
    nowhere = unique("nowhere")
    futures = admin.describe_topics(TopicCollection([topic, nowhere]))
    found = futures[topic].result(WAIT_S)
    assert (found.name, found.is_internal, len(found.partitions)) == (topic, False, 2)
    assert [(p.id, p.leader.id, [r.id for r in p.replicas], [r.id for r in p.isr]) for p in found.partitions] == [
        (n, 1, [1], [1]) for n in (0, 1)
    ]
    assert str(found.topic_id) not in ("", "AAAAAAAAAAAAAAAAAAAAAA")
    assert code(futures[nowhere]) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_describe_cluster(admin: AdminClient) -> None:
    """Id, controller and nodes."""
    found = admin.describe_cluster(include_authorized_operations=True).result(WAIT_S)
    assert len(found.cluster_id) == 22 and found.controller.id == 1
    assert [node.id for node in found.nodes] == [1]


def test_describe_topic_configs(admin: AdminClient, topic: str) -> None:
    """Every key, with where it comes from."""
    found = configs(admin, ResourceType.TOPIC, topic)
    assert {"cleanup.policy", "retention.ms", "segment.bytes", "max.message.bytes", "min.insync.replicas"} <= set(found)
    assert (found["cleanup.policy"].value, found["retention.ms"].value) == ("delete", "604800000")
    assert (
        found["cleanup.policy"].is_default
        and ConfigSource(found["cleanup.policy"].source) == ConfigSource.DEFAULT_CONFIG
    )
    assert not found["cleanup.policy"].is_read_only and not found["cleanup.policy"].is_sensitive


def test_topic_config_keys(admin: AdminClient, topic: str) -> None:
    """Exactly the keys that Apache Kafka 4.3 has for a topic."""
    assert sorted(configs(admin, ResourceType.TOPIC, topic)) == TOPIC_KEYS


def test_describe_broker_configs(admin: AdminClient) -> None:
    """The broker's own, with its static source."""
    found = configs(admin, ResourceType.BROKER, "1")
    assert (found["num.partitions"].value, found["node.id"].value) == ("2", "1")
    assert ConfigSource(found["num.partitions"].source) == ConfigSource.STATIC_BROKER_CONFIG
    assert found["node.id"].is_read_only


def test_describe_unknown_resources(admin: AdminClient, unique) -> None:
    """A topic and a broker that are not there."""
    gone, other = ConfigResource(ResourceType.TOPIC, unique("nowhere")), ConfigResource(ResourceType.BROKER, "1")
    assert code(admin.describe_configs([gone])[gone]) == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert admin.describe_configs([other])[other].result(WAIT_S)


def test_incremental_alter_configs(admin: AdminClient, topic: str) -> None:
    """Set, append, subtract, delete; in effect at once."""

    def alter(key: str, operation: AlterConfigOpType, value: str | None) -> None:
        entry = ConfigEntry(key, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(WAIT_S)

    alter("retention.ms", AlterConfigOpType.SET, "1234567")
    alter("cleanup.policy", AlterConfigOpType.APPEND, "compact")
    until(lambda: "compact" in configs(admin, ResourceType.TOPIC, topic)["cleanup.policy"].value)
    found = configs(admin, ResourceType.TOPIC, topic)
    assert found["retention.ms"].value == "1234567"
    assert ConfigSource(found["retention.ms"].source) == ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert sorted(found["cleanup.policy"].value.split(",")) == ["compact", "delete"]
    alter("cleanup.policy", AlterConfigOpType.SUBTRACT, "delete")
    alter("retention.ms", AlterConfigOpType.DELETE, None)
    until(lambda: configs(admin, ResourceType.TOPIC, topic)["retention.ms"].is_default)
    found = configs(admin, ResourceType.TOPIC, topic)
    assert (found["cleanup.policy"].value, found["retention.ms"].value) == ("compact", "604800000")


@pytest.mark.filterwarnings("ignore:alter_configs:DeprecationWarning")
def test_alter_configs(admin: AdminClient, topic: str) -> None:
    """The old call replaces everything that was set."""
    for wanted in ({"retention.ms": "1000"}, {"segment.bytes": "2000000"}):
        resource = ConfigResource(ResourceType.TOPIC, topic, set_config=wanted)
        admin.alter_configs([resource])[resource].result(WAIT_S)
    until(lambda: configs(admin, ResourceType.TOPIC, topic)["segment.bytes"].value == "2000000")
    found = configs(admin, ResourceType.TOPIC, topic)
    assert (found["retention.ms"].value, found["segment.bytes"].value) == ("604800000", "2000000")


def test_alter_configs_errors(admin: AdminClient, topic: str) -> None:
    """Unknown keys and bad values are INVALID_CONFIG."""
    for key, value in (("no.such.key", "1"), ("retention.ms", "soon"), ("min.insync.replicas", "0")):
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        assert code(admin.incremental_alter_configs([resource])[resource]) == KafkaError.INVALID_CONFIG, key


def test_dynamic_broker_config(admin: AdminClient) -> None:
    """A broker's key changed and taken back."""
    for operation, value, source in (
        (AlterConfigOpType.SET, "1500000", ConfigSource.DYNAMIC_BROKER_CONFIG),
        (AlterConfigOpType.DELETE, None, ConfigSource.DEFAULT_CONFIG),
    ):
        entry = ConfigEntry("message.max.bytes", value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
        until(lambda expected=(value or "1048588", source): broker_value(admin, "message.max.bytes") == expected)


def test_list_offsets(admin: AdminClient, topic: str) -> None:
    """Earliest, latest, by time, and the highest timestamp."""
    for number, stamp in enumerate((0, 50_000, 10_000)):
        produce(admin_bootstrap(admin), topic, [b"%d" % number], partition=0, timestamp=BASE_MS + stamp)
    partition = TopicPartition(topic, 0)
    expected = {
        OffsetSpec.earliest(): (0, -1),
        OffsetSpec.latest(): (3, -1),
        OffsetSpec.max_timestamp(): (1, BASE_MS + 50_000),
        OffsetSpec.for_timestamp(BASE_MS + 1): (1, BASE_MS + 50_000),
        OffsetSpec.for_timestamp(BASE_MS + 60_000): (-1, -1),
    }
    for spec, (offset, timestamp) in expected.items():
        for level in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED):
            found = admin.list_offsets({partition: spec}, isolation_level=level)[partition].result(WAIT_S)
            assert (found.offset, found.timestamp) == (offset, timestamp), spec


def test_delete_records(admin: AdminClient, topic: str, unique) -> None:
    """Up to an offset, up to the end; beyond it is an error; readers start behind it."""
    produce(admin_bootstrap(admin), topic, [b"%d" % number for number in range(10)], partition=0)
    found = admin.delete_records([TopicPartition(topic, 0, 4)])
    assert next(iter(found.values())).result(WAIT_S).low_watermark == 4
    source = consumer(admin_bootstrap(admin), unique("g"))
    assert source.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S) == (4, 10)
    beyond = admin.delete_records([TopicPartition(topic, 0, 11)])
    assert code(next(iter(beyond.values()))) == KafkaError.OFFSET_OUT_OF_RANGE
    rest = admin.delete_records([TopicPartition(topic, 0, -1)])
    assert next(iter(rest.values())).result(WAIT_S).low_watermark == 10
    source.close()


def admin_bootstrap(admin: AdminClient) -> str:
    """Where the admin client is connected."""
    node = admin.describe_cluster().result(WAIT_S).controller
    return f"{node.host}:{node.port}"


TOPIC_KEYS = sorted(
    [
        "cleanup.policy",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "index.interval.bytes",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "preallocate",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
        "unclean.leader.election.enable",
    ]
)
