"""What the controller answers, held against Apache Kafka 4.3.1's answers to the same requests."""

from __future__ import annotations

from typing import Any

import pytest

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.raft.cluster import (
    INITIAL_FEATURES,
    bootstrap,
    elect_returning_broker,
    register_broker,
    stopped_cleanly,
    unfence_broker,
)
from kafkapy.raft.configs import alter_configs, incremental_alter_configs
from kafkapy.raft.decision import Decision
from kafkapy.raft.image import MetadataImage
from kafkapy.raft.topic_changes import create_partitions, delete_topics
from kafkapy.raft.topics import create_topics
from kafkapy.types import ZERO_UUID
from kafkapy.wire.messages import alter_configs as old_configs
from kafkapy.wire.messages import incremental_alter_configs as configs
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
from kafkapy.wire.metadata_records import PartitionChangeRecord
from tests.raft.clusters import cluster
from tests.raft.support import CLUSTER_ID, counting_uuids, identity
from tests.raft.worlds import replay

SET, DELETE, APPEND, SUBTRACT = range(4)
CONFIG = BrokerConfig({"num.partitions": "2"})


class World:
    """A cluster of one broker whose decisions take effect at once."""

    def __init__(self) -> None:
        self.new_uuid = counting_uuids()
        self.image = MetadataImage(CLUSTER_ID)
        self._take(bootstrap(self.image, 1))
        self._take(register_broker(self.image, identity()))
        self._take(unfence_broker(self.image, identity()))

    def _take(self, decision: Decision) -> Any:
        if decision.records:
            self.image = replay(self.image, decision.records)
        return decision.response

    def create(self, *topics: CreatableTopic, validate_only: bool = False) -> Any:
        request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
        return self._take(create_topics(self.image, request, CONFIG, self.new_uuid)).topics

    def grow(self, name: str, count: int, *assignments: list[int], by_hand: bool = False) -> tuple[int, str | None]:
        by_hand = by_hand or bool(assignments)
        given = [CreatePartitionsAssignment(broker_ids=one) for one in assignments] if by_hand else None
        topic = CreatePartitionsTopic(name=name, count=count, assignments=given)
        result = self._take(create_partitions(self.image, CreatePartitionsRequest(topics=[topic]))).results[0]
        return result.error_code, result.error_message

    def delete(self, *states: DeleteTopicState) -> list[tuple[Any, int, str | None]]:
        response = self._take(delete_topics(self.image, DeleteTopicsRequest(topics=list(states))))
        return [(one.name, one.error_code, one.error_message) for one in response.responses]

    def alter(self, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False) -> Any:
        values = [configs.AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in changes]
        resource = configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=values)
        request = configs.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        result = self._take(incremental_alter_configs(self.image, request, CONFIG)).responses[0]
        return result.error_code, result.error_message

    def replace(self, kind: int, name: str, *values: tuple[str, str | None]) -> Any:
        given = [old_configs.AlterableConfig(name=key, value=value) for key, value in values]
        resource = old_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=given)
        result = self._take(alter_configs(self.image, old_configs.AlterConfigsRequest(resources=[resource]), CONFIG))
        return result.responses[0].error_code, result.responses[0].error_message


def topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    settings: dict[str, str | None] | None = None,
    by_hand: list[tuple[int, list[int]]] | None = None,
) -> CreatableTopic:
    """A topic as a request names it; by hand the counts are -1."""
    return CreatableTopic(
        name=name,
        num_partitions=-1 if by_hand is not None and partitions == 1 else partitions,
        replication_factor=-1 if by_hand is not None and replicas == 1 else replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (settings or {}).items()],
        assignments=[CreatableReplicaAssignment(partition_index=n, broker_ids=ids) for n, ids in by_hand or []],
    )


UNREACHABLE = (
    "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because only 1 broker(s) are registered "
    "or some brokers have all their log directories cordoned."
)

REFUSED_TOPICS = [
    (topic("there"), 36, "Topic 'there' already exists."),
    (topic("there", 0, 0, {"nope": "1"}), 36, "Topic 'there' already exists."),
    (topic(""), 17, "Topic name is invalid: the empty string is not allowed"),
    (topic("."), 17, "Topic name is invalid: '.' is not allowed"),
    (topic(".."), 17, "Topic name is invalid: '..' is not allowed"),
    (
        topic("a" * 250),
        17,
        f"Topic name is invalid: the length of '{'a' * 250}' is longer than the max allowed length 249",
    ),
    (
        topic("a b"),
        17,
        "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
    ),
    (topic("dot_ted"), 17, "Topic 'dot_ted' collides with existing topic: dot.ted"),
    (topic("__cluster_metadata"), 42, "Creation of internal topic __cluster_metadata is prohibited."),
    (topic("t", 0), 37, "Number of partitions was set to an invalid non-positive value."),
    (topic("t", -2), 37, "Number of partitions was set to an invalid non-positive value."),
    (topic("t", 1, 0), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
    (topic("t", 1, -2), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
    (topic("t", 1, 2), 38, UNREACHABLE),
    (topic("t", 10_001), 44, "Excessively large number of partitions per request."),
    (topic("t", 0, 0, {"nope": "1"}), 40, "Unknown topic config name: nope"),
    (
        topic("t", settings={"retention.ms": "x"}),
        40,
        "Invalid value x for configuration retention.ms: Not a number of type LONG",
    ),
    (topic("t", settings={"retention.ms": None}), 40, "Null value not supported for topic configs: retention.ms"),
    (topic("t", settings={"nope": None}), 40, "Null value not supported for topic configs: nope"),
    (
        topic("t", settings={"cleanup.policy": "bad"}),
        40,
        "Invalid value bad for configuration cleanup.policy: String must be one of: compact, delete",
    ),
    (
        topic("t", settings={"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "1"}),
        40,
        "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (1)",
    ),
    (
        topic("t", 2, by_hand=[(0, [1])]),
        42,
        "A manual partition assignment was specified, but numPartitions was not set to -1.",
    ),
    (
        topic("t", 2, 2, by_hand=[(0, [1])]),
        42,
        "A manual partition assignment was specified, but replication factor was not set to -1.",
    ),
    (
        topic("t", by_hand=[(0, [7])]),
        39,
        "The manual partition assignment includes broker 7, but no such broker is registered.",
    ),
    (topic("t", by_hand=[(0, [1, 1])]), 39, "The manual partition assignment includes the broker 1 more than once."),
    (topic("t", by_hand=[(0, [])]), 39, "The manual partition assignment includes an empty replica list."),
    (topic("t", by_hand=[(1, [1])]), 39, "partitions should be a consecutive 0-based integer sequence"),
    (topic("t", by_hand=[(0, [1]), (2, [1])]), 39, "partitions should be a consecutive 0-based integer sequence"),
    (topic("t", by_hand=[(0, [1]), (0, [1])]), 39, "Found multiple manual partition assignments for partition 0"),
]


@pytest.mark.parametrize(("asked", "code", "message"), REFUSED_TOPICS, ids=[case[2][:50] for case in REFUSED_TOPICS])
def test_a_topic_that_is_refused(asked: CreatableTopic, code: int, message: str) -> None:
    """The code and the sentence are Kafka's; nothing is created, and the counts are unknown."""
    world = World()
    world.create(topic("there"), topic("dot.ted"))
    before = world.image
    (result,) = world.create(asked)
    assert (result.error_code, result.error_message) == (code, message)
    assert (result.topic_id, result.num_partitions, result.replication_factor, result.configs) == (
        ZERO_UUID,
        -1,
        -1,
        [],
    )
    assert world.image is before


def test_a_topic_that_is_created() -> None:
    """Defaults fill in what is -1; the answer tells id, counts and all settings with their sources."""
    world = World()
    (result,) = world.create(topic("t", -1, -1, {"retention.ms": "5"}))
    created = world.image.topics.get("t")
    assert created is not None
    assert (result.error_code, result.error_message, result.topic_id) == (0, None, created.id)
    assert (result.num_partitions, result.replication_factor, len(created.partitions)) == (2, 1, 2)
    shown = {one.name: (one.value, one.config_source) for one in result.configs}
    assert len(shown) == 33
    assert list(shown) == sorted(shown)
    assert shown["retention.ms"] == ("5", 1)
    assert shown["cleanup.policy"] == ("delete", 5)
    assert world.image.config(2, "t") == {"retention.ms": "5"}
    partition = created.partitions[0]
    assert (partition.replicas, partition.isr, partition.leader, partition.leader_epoch) == ((1,), (1,), 1, 0)
    assert partition.directories == (b"D" * 16,)


def test_topics_of_one_request_stand_for_themselves() -> None:
    """One that is refused doesn't stop the others; a name that comes twice is refused once."""
    world = World()
    results = world.create(
        topic("a"), topic("b", 0), topic("dup"), topic("dup"), topic("c", by_hand=[(1, [1]), (0, [1])])
    )
    assert [(one.name, one.error_code) for one in results] == [("a", 0), ("b", 37), ("c", 0), ("dup", 42)]
    assert results[-1].error_message == "Duplicate topic name."
    assert set(world.image.topics.by_name) == {"a", "c"}


def test_validating_creates_nothing() -> None:
    """The answer is that of the real thing."""
    world = World()
    (result,) = world.create(topic("t", 3), validate_only=True)
    assert (result.error_code, result.num_partitions) == (0, 3)
    assert len(world.image.topics) == 0


def test_growing_topics() -> None:
    """More partitions by count or by hand, and each refusal."""
    world = World()
    world.create(topic("t"))
    assert world.grow("t", 3) == (0, None)
    assert world.grow("t", 3) == (37, "Topic already has 3 partition(s).")
    assert world.grow("t", 0) == (37, "The topic t currently has 3 partition(s); 0 would not be an increase.")
    assert world.grow("nope", 2) == (3, None)
    short = "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."
    assert world.grow("t", 5, [1]) == (39, short)
    assert world.grow("t", 5, by_hand=True) == (39, short.replace("only 1", "only 0"))
    assert world.grow("t", 5, [1], [1]) == (0, None)
    assert world.grow("t", 6, [9])[0] == 39
    assert world.grow("t", 6, [])[1] == "The manual partition assignment includes an empty replica list."
    assert world.grow("t", 20_000)[0] == 44
    grown = world.image.topics.get("t")
    assert grown is not None and len(grown.partitions) == 5


def test_deleting_topics() -> None:
    """By name and by id; unknown ones and contradictions are refused in Kafka's words; settings go with the topic."""
    world = World()
    world.create(topic("a", settings={"retention.ms": "1"}), topic("b"), topic("c"))
    b = world.image.topics.get("b")
    c = world.image.topics.get("c")
    assert b is not None and c is not None
    name, by_id = DeleteTopicState, lambda topic_id: DeleteTopicState(name=None, topic_id=topic_id)
    assert world.delete(name(name="a")) == [("a", 0, None)]
    assert world.image.config(2, "a") == {}
    assert world.delete(name(name="a")) == [("a", 3, "This server does not host this topic-partition.")]
    assert world.delete(by_id(b.id)) == [("b", 0, None)]
    assert world.delete(by_id(b.id)) == [(None, 100, "This server does not host this topic ID.")]
    assert world.delete(by_id(ZERO_UUID)) == [(None, 42, "Neither topic name nor id were specified.")]
    assert world.delete(name(name="c", topic_id=c.id)) == [
        ("c", 42, "You may not specify both topic name and topic id.")
    ]
    assert world.delete(name(name="c"), name(name="c")) == [("c", 42, "Duplicate topic name.")]
    assert world.delete(by_id(c.id), name(name="c")) == [(None, 42, "Duplicate topic id.")]
    assert list(world.image.topics.by_name) == ["c"]


REFUSED_CONFIGS = [
    (2, "nope", [("retention.ms", SET, "1")], 3, "The topic 'nope' does not exist."),
    (2, "..", [("retention.ms", SET, "1")], 17, "Topic name is invalid: '..' is not allowed"),
    (2, "", [("retention.ms", SET, "1")], 42, "Default topic resources are not allowed."),
    (2, "t", [("nope", SET, "1")], 40, "Unknown topic config name: nope"),
    (2, "t", [("retention.ms", SET, None)], 42, "Null value not supported for : retention.ms"),
    (2, "t", [("retention.ms", APPEND, "1")], 40, "Can't APPEND to key retention.ms because its type is not LIST."),
    (2, "t", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")], 42, "Error due to duplicate config keys"),
    (3, "t", [("retention.ms", SET, "1")], 42, "Unknown resource type 3"),
    (4, "7", [("log.cleaner.threads", SET, "2")], 42, "Unexpected broker id, expected 1, but received 7"),
    (4, "x", [("log.cleaner.threads", SET, "2")], 42, "Node id must be an integer, but it is: x"),
    (4, "1", [("node.id", SET, "2")], 42, "Cannot update these configs dynamically: [node.id]"),
    (
        4,
        "1",
        [("min.insync.replicas", SET, "1")],
        40,
        "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
    ),
    (
        4,
        "",
        [("min.insync.replicas", DELETE, None)],
        40,
        "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
    ),
    (16, "", [("interval.ms", SET, "1000")], 42, "Subscription name can't be empty"),
    (32, "", [("consumer.session.timeout.ms", SET, "46000")], 42, "Default group resources are not allowed."),
    (32, "g", [("nope", SET, "1")], 40, "Unknown group config name: nope"),
]


@pytest.mark.parametrize(
    ("kind", "name", "changes", "code", "message"), REFUSED_CONFIGS, ids=[case[4][:50] for case in REFUSED_CONFIGS]
)
def test_a_change_that_is_refused(
    kind: int, name: str, changes: list[tuple[str, int, str | None]], code: int, message: str
) -> None:
    """The code and the sentence are Kafka's, and nothing changes."""
    world = World()
    world.create(topic("t"))
    before = world.image
    assert world.alter(kind, name, *changes) == (code, message)
    assert world.image is before


def test_changing_configurations() -> None:
    """Set, append, subtract and delete; what is the same already needs no record."""
    world = World()
    world.create(topic("t"))
    assert world.alter(2, "t", ("retention.ms", SET, "5"), ("cleanup.policy", APPEND, "compact")) == (0, None)
    assert world.image.config(2, "t") == {"retention.ms": "5", "cleanup.policy": "delete,compact"}
    assert world.alter(2, "t", ("cleanup.policy", SUBTRACT, "delete"), ("nope", DELETE, None)) == (0, None)
    assert world.alter(2, "t", ("retention.ms", SET, "9"), validate_only=True) == (0, None)
    assert world.image.config(2, "t") == {"retention.ms": "5", "cleanup.policy": "compact"}
    before = world.image
    assert world.alter(2, "t", ("retention.ms", SET, "5")) == (0, None)
    assert world.image is before
    assert world.alter(4, "", ("log.cleaner.threads", SET, "2")) == (0, None)
    assert world.image.config(4, "") == {"min.insync.replicas": "1", "log.cleaner.threads": "2"}


def test_replacing_configurations() -> None:
    """The older request names all values; those that it leaves out are gone."""
    world = World()
    world.create(topic("t", settings={"retention.ms": "1", "segment.ms": "2"}))
    assert world.replace(2, "t", ("retention.ms", "6")) == (0, None)
    assert world.image.config(2, "t") == {"retention.ms": "6"}
    assert world.replace(2, "t", ("retention.ms", None)) == (42, "Null value not supported for : retention.ms")
    assert world.replace(8, "1", ("root", "INFO")) == (42, "Unknown resource type 8")
    assert world.replace(2, "t") == (0, None)
    assert world.image.config(2, "t") == {}


def test_a_resource_that_comes_twice_is_refused_twice() -> None:
    """Which of the two was meant cannot be known."""
    world = World()
    world.create(topic("t"))
    resource = configs.AlterConfigsResource(resource_type=2, resource_name="t")
    request = configs.IncrementalAlterConfigsRequest(resources=[resource, resource])
    responses = incremental_alter_configs(world.image, request, CONFIG).response.responses
    assert [(one.error_code, one.error_message) for one in responses] == [
        (42, "Each resource must appear at most once.")
    ] * 2


def test_the_controller_changes_what_another_broker_has_passed_on() -> None:
    """A broker of the cluster may be changed through whichever node is the controller; one that nobody knows may not."""
    image = cluster()
    for name, expected in (("2", 0), ("9", 42), ("x", 42)):
        value = configs.AlterableConfig(name="log.cleaner.threads", config_operation=SET, value="2")
        resource = configs.AlterConfigsResource(resource_type=4, resource_name=name, configs=[value])
        request = configs.IncrementalAlterConfigsRequest(resources=[resource])
        decision = incremental_alter_configs(image, request, CONFIG)
        assert decision.response.responses[0].error_code == expected
        assert len(decision.records) == (not expected)


def test_a_value_too_long_for_a_record_is_refused() -> None:
    """A value of 32 KiB is more than Kafka stores."""
    world = World()
    code, message = world.alter(16, "m", ("metrics", SET, "m" * 40_000))
    assert code == 40 and "32767 bytes" in message


def test_the_first_records_of_a_cluster() -> None:
    """The features of a new Apache Kafka 4.3 cluster, once, and min.insync.replicas for all brokers."""
    image = MetadataImage(CLUSTER_ID)
    image = replay(image, bootstrap(image, 2).records)
    assert image.features == INITIAL_FEATURES
    assert image.config(4, "") == {"min.insync.replicas": "2"}
    assert bootstrap(image, 2).records == []


def test_a_broker_is_known_by_the_offset_of_its_registration() -> None:
    """Its epoch is where its record lands; it leads nothing before it is unfenced."""
    world = World()
    decision = register_broker(world.image, identity(2))
    assert decision.response == world.image.next_offset
    image = replay(world.image, decision.records)
    assert image.brokers[2].epoch == world.image.next_offset
    assert [broker.id for broker in image.active_brokers()] == [1]
    image = replay(image, unfence_broker(image, identity(2)).records)
    assert [broker.id for broker in image.active_brokers()] == [1, 2]


def _leaders(image: MetadataImage) -> list[tuple[int, int, tuple[int, ...]]]:
    partitions = [one for name in sorted(image.topics.by_name) for one in image.topics.by_name[name].partitions]
    return [(one.leader, one.leader_epoch, one.isr) for one in partitions]


def _return(image: MetadataImage, clean: bool) -> MetadataImage:
    for decision in elect_returning_broker(image, 1, clean):
        image = replay(image, decision.records)
    return image


def test_a_broker_that_died_leads_in_another_epoch() -> None:
    """Offsets may be taken again after a crash, and consumers notice by the epoch; after a clean stop nothing changes."""
    world = World()
    world.create(topic("a", 2), topic("b"))
    assert _leaders(_return(world.image, clean=True)) == [(1, 0, (1,))] * 3
    assert _leaders(_return(world.image, clean=False)) == [(1, 1, (1,))] * 3


@pytest.mark.parametrize(
    ("isr", "eligible", "last_known", "leads"),
    [
        ([1], [], [], True),
        ([], [1], [1], True),
        ([], [], [1], True),
        ([], [2], [1], False),
        ([2], [1], [], False),
        ([], [], [], False),
    ],
)
def test_a_partition_without_a_leader_gets_one_that_lost_nothing(
    isr: list[int], eligible: list[int], last_known: list[int], leads: bool
) -> None:
    """As Apache Kafka leaves partitions behind when it stops: no leader, nobody in sync, the broker eligible."""
    world = World()
    world.create(topic("a"))
    found = world.image.topics.get("a")
    assert found is not None
    record = PartitionChangeRecord(
        partition_id=0,
        topic_id=found.id,
        leader=-1,
        replicas=[1, 2],
        isr=isr,
        eligible_leader_replicas=eligible,
        last_known_elr=last_known,
    )
    image = _return(replay(world.image, [record]), clean=True)
    partition = image.topics.partition("a", 0)
    assert partition is not None
    assert (partition.leader == 1) == leads
    if leads:
        assert (partition.isr, partition.eligible_leader_replicas, partition.last_known_elr) == ((1,), (), ())
        assert partition.leader_epoch == 2


def test_a_clean_stop_is_known_by_its_epoch() -> None:
    """A mark of an earlier life, or none, is no clean stop."""
    world = World()
    epoch = world.image.brokers[1].epoch
    assert stopped_cleanly(world.image, identity()._replace(stopped_broker_epoch=epoch))
    assert not stopped_cleanly(world.image, identity()._replace(stopped_broker_epoch=epoch - 1))
    assert not stopped_cleanly(world.image, identity())
    assert not stopped_cleanly(world.image, identity(9)._replace(stopped_broker_epoch=-1))
