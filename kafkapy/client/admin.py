"""What administrators ask of a cluster: topics, their configuration, their partitions, and the brokers. Plain functions over a Client.

Functions that change several things return one result per thing, with its error or None: the others have been done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kafkapy.client.client import Client, error_of
from kafkapy.client.offsets import by_topic
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.types import TopicPartition

TOPIC = 2
BROKER = 4
DESCRIBE_CLUSTER_KEY = 60

# The numbers of DescribeConfigs, in the words that Kafka's own tools print.
CONFIG_SOURCES = {
    0: "unknown",
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "file",
    5: "default",
    6: "logger",
    7: "client metrics",
    8: "group",
}
CONFIG_TYPES = {
    0: "unknown",
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}

SET = 0
DELETE = 1


class TopicResult(NamedTuple):
    """What became of one topic of a request. Partitions and replicas are -1 where the broker does not tell."""

    name: str
    error: KafkaError | None
    partitions: int = -1
    replicas: int = -1


class NewTopic(NamedTuple):
    """A topic to create; -1 leaves a number to the broker's defaults. `assignment`: the brokers of each partition, in place of numbers."""

    name: str
    partitions: int = -1
    replicas: int = -1
    configs: Mapping[str, str] = {}
    assignment: Sequence[Sequence[int]] = ()


class ConfigEntry(NamedTuple):
    """One setting and where its value comes from. The value of a password is None."""

    name: str
    value: str | None
    source: str
    type: str
    read_only: bool
    sensitive: bool
    documentation: str | None


class BrokerInfo(NamedTuple):
    """One broker as the cluster announces it."""

    id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


class ClusterInfo(NamedTuple):
    """The cluster and its brokers."""

    cluster_id: str | None
    controller_id: int
    brokers: list[BrokerInfo]


class LogDir(NamedTuple):
    """A data directory of a broker, with the size of each replica in it."""

    broker: int
    path: str
    error: KafkaError | None
    total_bytes: int
    usable_bytes: int
    sizes: dict[TopicPartition, int]


# Topics


def create_topics(client: Client, topics: Sequence[NewTopic], *, validate_only: bool = False) -> list[TopicResult]:
    """Create topics; when this returns, the broker that we ask knows their leaders."""
    from kafkapy.wire.messages.create_topics import (
        CreatableReplicaAssignment,
        CreatableTopic,
        CreatableTopicConfig,
        CreateTopicsRequest,
    )

    asked = [
        CreatableTopic(
            name=topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replicas,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
                for index, brokers in enumerate(topic.assignment)
            ],
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
        )
        for topic in topics
    ]
    request = CreateTopicsRequest(topics=asked, timeout_ms=_timeout_ms(client), validate_only=validate_only)
    answer = client.on_controller(request, lambda answer: (row.error_code for row in answer.topics))
    results = [
        TopicResult(
            row.name,
            _error(row.error_code, f"topic {row.name}", row.error_message),
            row.num_partitions,
            row.replication_factor,
        )
        for row in answer.topics
    ]
    if not validate_only:
        for result in results:
            if result.error is None:
                client.topic(result.name, create=True)
    return _in_order(results, [topic.name for topic in topics])


def delete_topics(client: Client, names: Sequence[str]) -> list[TopicResult]:
    """Delete topics with everything in them."""
    from kafkapy.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names],
        topic_names=list(names),
        timeout_ms=_timeout_ms(client),
    )
    answer = client.on_controller(request, lambda answer: (row.error_code for row in answer.responses))
    results = [
        TopicResult(row.name or "", _error(row.error_code, f"topic {row.name}", row.error_message))
        for row in answer.responses
    ]
    return _in_order(results, names)


def create_partitions(client: Client, totals: Mapping[str, int], *, validate_only: bool = False) -> list[TopicResult]:
    """Raise topics to these numbers of partitions."""
    from kafkapy.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic

    topics = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in totals.items()]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=_timeout_ms(client), validate_only=validate_only)
    answer = client.on_controller(request, lambda answer: (row.error_code for row in answer.results))
    results = [
        TopicResult(row.name, _error(row.error_code, f"topic {row.name}", row.error_message), totals[row.name])
        for row in answer.results
    ]
    return _in_order(results, list(totals))


def delete_records(
    client: Client, offsets: Mapping[TopicPartition, int]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, KafkaError]]:
    """Delete everything before these offsets (-1: everything); returns where the logs begin now, and what has failed."""
    from kafkapy.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

    def build(partitions: list[TopicPartition]) -> DeleteRecordsRequest:
        topics = [
            DeleteRecordsTopic(
                name=name,
                partitions=[
                    DeleteRecordsPartition(partition_index=item.partition, offset=offsets[item]) for item in items
                ],
            )
            for name, items in by_topic(partitions)
        ]
        return DeleteRecordsRequest(topics=topics, timeout_ms=_timeout_ms(client))

    def read(answer: Any) -> Iterator[tuple[TopicPartition, int, int]]:
        for topic in answer.topics:
            for row in topic.partitions:
                yield TopicPartition(topic.name, row.partition_index), row.error_code, row.low_watermark

    return client.on_leaders(offsets, build, read)


# Configuration


def describe_configs(
    client: Client, resource_type: int, name: str, keys: Sequence[str] | None = None, *, documentation: bool = False
) -> list[ConfigEntry]:
    """The settings of a topic or broker, by name."""
    from kafkapy.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    resource = DescribeConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configuration_keys=None if keys is None else list(keys),
    )
    request = DescribeConfigsRequest(resources=[resource], include_documentation=documentation)
    node = int(name) if resource_type == BROKER and name else None
    (result,) = client.request(request, node=node).results
    _raise(result.error_code, f"topic {name}" if resource_type == TOPIC else f"broker {name}", result.error_message)
    return sorted(
        ConfigEntry(
            row.name,
            row.value,
            CONFIG_SOURCES.get(row.config_source, "unknown"),
            CONFIG_TYPES.get(row.config_type, "unknown"),
            row.read_only,
            row.is_sensitive,
            row.documentation,
        )
        for row in result.configs
    )


def alter_configs(
    client: Client,
    resource_type: int,
    names: Sequence[str],
    changes: Mapping[str, str | None],
    *,
    validate_only: bool = False,
) -> list[TopicResult]:
    """Set these keys on each of the topics or brokers; None takes a key back to its default."""
    from kafkapy.wire.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    configs = [
        AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
        for key, value in changes.items()
    ]
    resources = [
        AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs) for name in names
    ]
    if resource_type == BROKER and any(names):
        # A broker refuses to change another one's configuration.
        requests = [
            (
                int(resource.resource_name),
                IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only),
            )
            for resource in resources
        ]
        rows = [row for node, request in requests for row in client.request(request, node=node).responses]
    else:
        request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
        answer = client.on_controller(request, lambda answer: (row.error_code for row in answer.responses))
        rows = answer.responses
    results = [
        TopicResult(row.resource_name, _error(row.error_code, row.resource_name, row.error_message)) for row in rows
    ]
    return _in_order(results, names)


# The cluster


def describe_cluster(client: Client) -> ClusterInfo:
    """The brokers, fenced ones included where the cluster tells, and the controller."""
    from kafkapy.wire.messages.describe_cluster import DescribeClusterRequest

    connection = client.any_broker()
    if not connection.serves(DESCRIBE_CLUSTER_KEY):
        metadata = client.metadata([])
        brokers = [BrokerInfo(row.node_id, row.host, row.port, row.rack, False) for row in metadata.brokers]
        return ClusterInfo(metadata.cluster_id, metadata.controller_id, sorted(brokers))
    answer = connection.request(DescribeClusterRequest(include_fenced_brokers=True))
    _raise(answer.error_code, "cluster", answer.error_message)
    brokers = [BrokerInfo(row.broker_id, row.host, row.port, row.rack, row.is_fenced) for row in answer.brokers]
    return ClusterInfo(answer.cluster_id, answer.controller_id, sorted(brokers))


def describe_log_dirs(client: Client, node: int) -> list[LogDir]:
    """The data directories of one broker."""
    from kafkapy.wire.messages.describe_log_dirs import DescribeLogDirsRequest

    answer = client.request(DescribeLogDirsRequest(topics=None), node=node)
    _raise(answer.error_code, f"log directories of broker {node}", None)
    return [
        LogDir(
            node,
            row.log_dir,
            _error(row.error_code, row.log_dir, None),
            row.total_bytes,
            row.usable_bytes,
            {
                TopicPartition(topic.name, partition.partition_index): partition.partition_size
                for topic in row.topics
                for partition in topic.partitions
                if not partition.is_future_key
            },
        )
        for row in answer.results
    ]


def _in_order(results: list[TopicResult], names: Sequence[str]) -> list[TopicResult]:
    """Brokers answer in any order; people expect the one in which they asked."""
    places = {name: place for place, name in enumerate(names)}
    return sorted(results, key=lambda result: places.get(result.name, len(places)))


def _timeout_ms(client: Client) -> int:
    return int(client.timeout_s * 1000)


def _error(code: int, subject: str, message: str | None) -> KafkaError | None:
    return error_of(code, subject, message) if code else None


def _raise(code: int, subject: str, message: str | None) -> None:
    if code != ErrorCode.NONE:
        raise error_of(code, subject, message)
