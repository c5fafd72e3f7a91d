"""Creating, growing, deleting and configuring topics."""

from __future__ import annotations

from compat_tests.differential.cases import case
from compat_tests.differential.probe import UNKNOWN_ID, Probe
from kafkapy.wire.messages.alter_configs import AlterableConfig as Replacement
from kafkapy.wire.messages.alter_configs import AlterConfigsRequest
from kafkapy.wire.messages.alter_configs import AlterConfigsResource as ReplacedResource
from kafkapy.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafkapy.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkapy.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkapy.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.wire.messages.list_config_resources import ListConfigResourcesRequest

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def creation(name: str, partitions: int = 1, replicas: int = 1, **options: object) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, **options)


def creations(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=5000, validate_only=validate_only)


def configs(**values: str | None) -> list[CreatableTopicConfig]:
    return [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in values.items()]


@case
def create_topics_every_version(probe: Probe) -> None:
    probe.ask_all("plain", lambda version: creations(creation(f"ct-{version}", 2)))
    probe.ask_all("again", lambda version: creations(creation(f"ct-{version}", 2)))
    probe.ask_all("validate", lambda version: creations(creation(f"ct-v-{version}", 2), validate_only=True))
    probe.ask_all("defaults", lambda version: creations(creation(f"ct-d-{version}", -1, -1)))


@case
def create_topics_refused(probe: Probe) -> None:
    assigned = [CreatableReplicaAssignment(partition_index=index, broker_ids=[1]) for index in (0, 1)]
    bad = {
        "no partitions": creation("ct-bad", 0),
        "partitions -2": creation("ct-bad", -2),
        "no replicas": creation("ct-bad", 1, 0),
        "replicas -2": creation("ct-bad", 1, -2),
        "too many replicas": creation("ct-bad", 1, 2),
        "empty name": creation(""),
        "dot": creation("."),
        "bad name": creation("a b"),
        "long name": creation("a" * 250),
        "the metadata log": creation("__cluster_metadata"),
        "unknown config": creation("ct-bad", configs=configs(no_such_thing="1")),
        "bad value": creation("ct-bad", configs=configs(retention_ms="soon")),
        "bad policy": creation("ct-bad", configs=configs(cleanup_policy="burn")),
        "null value": creation("ct-bad", configs=configs(retention_ms=None)),
        "small segment": creation("ct-bad", configs=configs(segment_bytes="1")),
        "too big min isr": creation("ct-bad", configs=configs(min_insync_replicas="3")),
        "assigned and counted": creation("ct-bad", 2, 1, assignments=assigned),
        "assigned with a gap": creation("ct-bad", -1, -1, assignments=assigned[1:]),
        "assigned to nobody": creation("ct-bad", -1, -1, assignments=[CreatableReplicaAssignment(partition_index=0)]),
        "assigned to a stranger": creation(
            "ct-bad", -1, -1, assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[9])]
        ),
        "assigned twice": creation(
            "ct-bad", -1, -1, assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 1])]
        ),
        "assigned with a count": creation("ct-bad", 2, -1, assignments=assigned),
    }
    for label, topic in bad.items():
        for version in (4, 7):
            probe.ask(label, creations(topic), version)
            probe.ask(f"validate {label}", creations(topic, validate_only=True), version)
    probe.ask("assigned", creations(creation("ct-assigned", -1, -1, assignments=assigned)), 7)
    probe.ask("nothing", creations(), 7)
    probe.ask("twice", creations(creation("ct-twice"), creation("ct-twice"), creation("ct-once")), 7)
    probe.create_topic("ct.collides")
    probe.ask("collides", creations(creation("ct_collides")), 7)
    probe.ask("old version and defaults", creations(creation("ct-old", -1, 1)), 3)


@case
def delete_topics(probe: Probe) -> None:
    for version in range(1, 6):
        probe.create_topic(f"dl-{version}")
        probe.ask("known", DeleteTopicsRequest(topic_names=[f"dl-{version}", "dl-nope"], timeout_ms=5000), version)
        probe.ask("again", DeleteTopicsRequest(topic_names=[f"dl-{version}"], timeout_ms=5000), version)
    ids = [probe.create_topic(f"dl-6-{number}") for number in range(3)]

    def ask(label: str, *topics: DeleteTopicState) -> None:
        probe.ask(label, DeleteTopicsRequest(topics=list(topics), timeout_ms=5000), 6)

    ask("by id", DeleteTopicState(topic_id=ids[0]))
    ask("by name", DeleteTopicState(name="dl-6-1"))
    ask("by both", DeleteTopicState(name="dl-6-2", topic_id=ids[2]))
    ask("by neither", DeleteTopicState())
    ask("unknown id", DeleteTopicState(topic_id=UNKNOWN_ID))
    ask("unknown name", DeleteTopicState(name="dl-nope"))
    ask("twice", DeleteTopicState(name="dl-6-2"), DeleteTopicState(name="dl-6-2"))
    ask("by name and by id", DeleteTopicState(name="dl-6-2"), DeleteTopicState(topic_id=ids[2]))
    ask("nothing")
    ask("empty name", DeleteTopicState(name=""))


@case
def create_partitions(probe: Probe) -> None:
    for version in range(4):
        probe.create_topic(f"cp-{version}", 2)
        for count in (2, 1, 0, -1, 4, 4, 3):
            request = CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=f"cp-{version}", count=count, assignments=None)], timeout_ms=5000
            )
            probe.ask(f"count {count}", request, version)
    probe.create_topic("cp-more", 1)

    def ask(label: str, *topics: CreatePartitionsTopic, validate_only: bool = False) -> None:
        probe.ask(label, CreatePartitionsRequest(topics=list(topics), timeout_ms=5000, validate_only=validate_only), 3)

    def to(count: int, *assigned: list[int], name: str = "cp-more") -> CreatePartitionsTopic:
        assignments = [CreatePartitionsAssignment(broker_ids=one) for one in assigned] or None
        return CreatePartitionsTopic(name=name, count=count, assignments=assignments)

    ask("unknown", to(3, name="cp-nope"))
    ask("twice", to(3), to(4))
    ask("validate", to(3), validate_only=True)
    ask("too few assigned", to(3, [1]))
    ask("too many assigned", to(2, [1], [1]))
    ask("a stranger", to(2, [9]))
    ask("nobody", to(2, []))
    ask("the same twice", to(2, [1, 1]))
    ask("assigned", to(2, [1]))
    ask("nothing")


@case
def describe_configs(probe: Probe) -> None:
    probe.create_topic("dc-topic", config={"retention.ms": "1000", "cleanup.policy": "compact"})
    keys = ["retention.ms", "cleanup.policy", "compression.type", "no.such.key", "min.insync.replicas"]

    def request(kind: int, name: str, wanted: list[str] | None, version: int) -> DescribeConfigsRequest:
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=wanted)
        return DescribeConfigsRequest(resources=[resource], include_synonyms=True)

    probe.ask_all("some", lambda version: request(TOPIC, "dc-topic", keys, version))
    for version in (1, 4):
        for kind, name in (
            (TOPIC, "dc-nope"),
            (TOPIC, "a b"),
            (TOPIC, ""),
            (BROKER, "2"),
            (BROKER, "x"),
            (LOGGER, ""),
            (0, "x"),
            (1, "x"),
            (3, "x"),
            (GROUP, ""),
            (CLIENT_METRICS, ""),
        ):
            probe.ask(f"{kind} {name!r}", request(kind, name, None, version), version)
        probe.ask("a group", request(GROUP, "dc-group", None, version), version)
        probe.ask("metrics", request(CLIENT_METRICS, "dc-metrics", None, version), version)
        probe.ask("default broker", request(BROKER, "", None, version), version)
    answer = probe.quietly(request(TOPIC, "dc-topic", None, 4), 4)
    probe.note("all of a topic", answer.to_json(4))


@case
def alter_configs(probe: Probe) -> None:
    probe.create_topic("ac-topic", config={"retention.ms": "1000"})

    def ask(
        label: str,
        kind: int,
        name: str,
        *changes: tuple[str, int, str | None],
        version: int = 1,
        validate_only: bool = False,
    ) -> None:
        altered = [
            AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in changes
        ]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=altered)
        probe.ask(label, IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only), version)

    def overrides(label: str) -> None:
        resource = DescribeConfigsResource(resource_type=TOPIC, resource_name="ac-topic", configuration_keys=None)
        answer = probe.quietly(DescribeConfigsRequest(resources=[resource]), 4)
        probe.note(label, sorted([one.name, one.value] for one in answer.results[0].configs if one.config_source == 1))

    for version in (0, 1):
        ask("set", TOPIC, "ac-topic", ("retention.ms", 0, "2000"), version=version)
        ask("delete", TOPIC, "ac-topic", ("retention.ms", 1, None), version=version)
    ask("append", TOPIC, "ac-topic", ("cleanup.policy", 2, "compact"))
    overrides("after append")
    ask("append again", TOPIC, "ac-topic", ("cleanup.policy", 2, "compact"))
    ask("subtract", TOPIC, "ac-topic", ("cleanup.policy", 3, "delete"))
    ask("subtract what is not there", TOPIC, "ac-topic", ("cleanup.policy", 3, "delete"))
    overrides("after subtract")
    ask("append to no list", TOPIC, "ac-topic", ("retention.ms", 2, "5"))
    ask("operation 9", TOPIC, "ac-topic", ("retention.ms", 9, "5"))
    ask("set null", TOPIC, "ac-topic", ("retention.ms", 0, None))
    ask("bad value", TOPIC, "ac-topic", ("retention.ms", 0, "soon"))
    ask("unknown key", TOPIC, "ac-topic", ("no.such.key", 0, "1"))
    ask("delete unknown key", TOPIC, "ac-topic", ("no.such.key", 1, None))
    ask("the same key twice", TOPIC, "ac-topic", ("retention.ms", 0, "1"), ("retention.ms", 0, "2"))
    ask("unknown topic", TOPIC, "ac-nope", ("retention.ms", 0, "1"))
    ask("empty topic", TOPIC, "", ("retention.ms", 0, "1"))
    ask("validate", TOPIC, "ac-topic", ("retention.ms", 0, "77"), validate_only=True)
    ask("validate bad", TOPIC, "ac-topic", ("retention.ms", 0, "soon"), validate_only=True)
    ask("broker key of this node", BROKER, "1", ("log.cleaner.threads", 0, "2"))
    ask("reset it", BROKER, "1", ("log.cleaner.threads", 1, None))
    ask("broker key of another node", BROKER, "7", ("log.cleaner.threads", 0, "2"))
    ask("read-only broker key", BROKER, "", ("broker.rack", 0, "x"))
    ask("unknown broker key", BROKER, "", ("no.such.key", 0, "x"))
    ask("broker x", BROKER, "x", ("log.cleaner.threads", 0, "2"))
    ask("group", GROUP, "ac-group", ("consumer.session.timeout.ms", 0, "50000"))
    ask("group bad", GROUP, "ac-group", ("consumer.session.timeout.ms", 0, "1"))
    ask("unknown type", 3, "x", ("a", 0, "b"))
    overrides("in the end")
    probe.ask("nothing", IncrementalAlterConfigsRequest(), 1)
    for version in range(3):
        for label, key, value in (
            ("replace", "retention.ms", "3000"),
            ("bad", "retention.ms", "soon"),
            ("unknown", "no.such.key", "1"),
        ):
            resource = ReplacedResource(
                resource_type=TOPIC, resource_name="ac-topic", configs=[Replacement(name=key, value=value)]
            )
            probe.ask(label, AlterConfigsRequest(resources=[resource]), version)
            overrides(f"after {label} v{version}")


@case
def list_config_resources(probe: Probe) -> None:
    for kinds in ([], [TOPIC], [BROKER], [GROUP], [CLIENT_METRICS], [LOGGER], [1], [TOPIC, 99]):
        answer = probe.quietly(ListConfigResourcesRequest(resource_types=kinds), 1)
        names = [one.resource_name for one in answer.config_resources if one.resource_type != TOPIC]
        probe.note(f"types {kinds}", [answer.error_code, sorted(names)])
    probe.ask("old", ListConfigResourcesRequest(), 0)
