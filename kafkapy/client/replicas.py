"""Where the replicas of partitions are, how they move, who leads them, and the quorum that decides it. Plain functions over a Client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kafkapy.client.client import Client, error_of
from kafkapy.client.offsets import by_topic
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.types import CLUSTER_METADATA_TOPIC, TopicPartition

DESCRIBE_TOPIC_PARTITIONS_KEY = 75

PREFERRED = 0
UNCLEAN = 1


class Replicas(NamedTuple):
    """One partition. `elr` is None where the cluster does not tell: who may still lead without loss although not in sync."""

    partition: TopicPartition
    leader: int
    epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] | None
    last_known_elr: tuple[int, ...] | None
    offline: tuple[int, ...]


class Move(NamedTuple):
    """A reassignment that is under way: all replicas, the new ones among them, and those that will go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas once it is done."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)


class QuorumReplica(NamedTuple):
    """A voter or an observer of the metadata log; -1 where the leader does not know."""

    node: int
    directory_id: bytes
    log_end: int
    last_fetch_ms: int
    last_caught_up_ms: int


class Quorum(NamedTuple):
    """The metadata quorum as its leader sees it."""

    leader: int
    epoch: int
    high_watermark: int
    voters: list[QuorumReplica]
    observers: list[QuorumReplica]


def describe_replicas(client: Client, topics: Sequence[str] | None = None) -> list[Replicas]:
    """All partitions of these topics (None: of all), in order. KafkaError if a topic does not exist."""
    if topics is not None and not topics:
        return []
    if client.any_broker().serves(DESCRIBE_TOPIC_PARTITIONS_KEY):
        return _described(client, topics)
    answer = client.metadata(None if topics is None else list(topics))
    return _sorted_rows(answer.topics)


def _described(client: Client, topics: Sequence[str] | None) -> list[Replicas]:
    from kafkapy.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest

    asked = [TopicRequest(name=name) for name in sorted(set(topics or ()))]
    found: list[Any] = []
    cursor: Cursor | None = None
    while True:
        answer = client.request(DescribeTopicPartitionsRequest(topics=asked, cursor=cursor))
        found += answer.topics
        if answer.next_cursor is None:
            return _sorted_rows(found)
        cursor = Cursor(topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index)


def _sorted_rows(topics: Iterable[Any]) -> list[Replicas]:
    rows = []
    for topic in topics:
        if topic.error_code:
            raise error_of(topic.error_code, f"topic {topic.name}")
        for row in topic.partitions:
            elr = getattr(row, "eligible_leader_replicas", None)
            last = getattr(row, "last_known_elr", None)
            rows.append(
                Replicas(
                    TopicPartition(topic.name, row.partition_index),
                    row.leader_id,
                    row.leader_epoch,
                    tuple(row.replica_nodes),
                    tuple(row.isr_nodes),
                    None if elr is None else tuple(elr),
                    None if last is None else tuple(last),
                    tuple(row.offline_replicas),
                )
            )
    return sorted(rows)


def list_moves(client: Client, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, Move]:
    """The reassignments under way among these partitions (None: among all)."""
    from kafkapy.wire.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsTopics,
    )

    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=[item.partition for item in items])
            for name, items in by_topic(partitions)
        ]
    request = ListPartitionReassignmentsRequest(topics=topics, timeout_ms=_timeout_ms(client))
    answer = client.on_controller(request, lambda answer: [answer.error_code])
    if answer.error_code:
        raise error_of(answer.error_code, "reassignments", answer.error_message)
    return {
        TopicPartition(topic.name, row.partition_index): Move(
            tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
        )
        for topic in answer.topics
        for row in topic.partitions
    }


def move_replicas(
    client: Client, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, KafkaError | None]:
    """Begin moving partitions to these brokers; None calls a move off. Returns what became of each."""
    from kafkapy.wire.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
        ReassignableTopic,
    )

    topics = []
    for name, items in by_topic(targets):
        partitions = []
        for item in items:
            target = targets[item]
            replicas = None if target is None else list(target)
            partitions.append(ReassignablePartition(partition_index=item.partition, replicas=replicas))
        topics.append(ReassignableTopic(name=name, partitions=partitions))
    request = AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=_timeout_ms(client))
    answer = client.on_controller(request, lambda answer: [answer.error_code])
    if answer.error_code:
        raise error_of(answer.error_code, "reassignment", answer.error_message)
    results: dict[TopicPartition, KafkaError | None] = {}
    for topic in answer.responses:
        for row in topic.partitions:
            key = TopicPartition(topic.name, row.partition_index)
            results[key] = error_of(row.error_code, str(key), row.error_message) if row.error_code else None
    return results


def elect_leaders(
    client: Client, partitions: Iterable[TopicPartition] | None, kind: int
) -> dict[TopicPartition, KafkaError | None]:
    """Elect leaders of these partitions (None: of all; only those that change are named then). ELECTION_NOT_NEEDED is no failure."""
    from kafkapy.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

    topics = None
    if partitions is not None:
        topics = [
            TopicPartitions(topic=name, partitions=[item.partition for item in items])
            for name, items in by_topic(partitions)
        ]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=_timeout_ms(client))
    answer = client.on_controller(request, lambda answer: [answer.error_code])
    if answer.error_code:
        raise error_of(answer.error_code, "election")
    results: dict[TopicPartition, KafkaError | None] = {}
    for topic in answer.replica_election_results:
        for row in topic.partition_result:
            key = TopicPartition(topic.topic, row.partition_id)
            results[key] = error_of(row.error_code, str(key), row.error_message) if row.error_code else None
    return results


def min_in_sync(client: Client, topics: Sequence[str]) -> dict[str, int]:
    """min.insync.replicas of each topic."""
    from kafkapy.client.admin import TOPIC
    from kafkapy.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    resources = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=["min.insync.replicas"])
        for name in topics
    ]
    if not resources:
        return {}
    answer = client.request(DescribeConfigsRequest(resources=resources))
    return {
        result.resource_name: int(row.value)
        for result in answer.results
        for row in result.configs
        if row.name == "min.insync.replicas" and row.value is not None
    }


def describe_quorum(client: Client, *, patient: bool = True) -> Quorum:
    """The metadata quorum. A cluster without a leader does not know, and is asked again while there is time if we are patient."""
    from kafkapy.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartition, RequestTopic

    request = DescribeQuorumRequest(
        topics=[RequestTopic(topic_name=CLUSTER_METADATA_TOPIC, partitions=[RequestPartition()])]
    )
    for is_last in client.attempts():
        answer = client.request(request)
        rows = [row for topic in answer.topics for row in topic.partitions]
        code = answer.error_code or next((row.error_code for row in rows if row.error_code), 0)
        if not code:
            break
        error = error_of(code, "quorum", answer.error_message or next((row.error_message for row in rows), None))
        if is_last or not patient or not (error.code.retriable or error.code is ErrorCode.NOT_CONTROLLER):
            raise error
    (row,) = rows
    voters = [_quorum_replica(replica) for replica in row.current_voters]
    observers = [_quorum_replica(replica) for replica in row.observers]
    return Quorum(row.leader_id, row.leader_epoch, row.high_watermark, sorted(voters), sorted(observers))


def _quorum_replica(row: Any) -> QuorumReplica:
    return QuorumReplica(
        row.replica_id,
        row.replica_directory_id,
        row.log_end_offset,
        row.last_fetch_timestamp,
        row.last_caught_up_timestamp,
    )


def _timeout_ms(client: Client) -> int:
    return int(client.timeout_s * 1000)
