"""Electing leaders on demand: pure decisions on an image, with Apache Kafka's codes and sentences.

A preferred election gives a partition back to its first replica, an unclean one gives a partition without a leader to any living
replica, at the price of records that only the missing ones have. Neither changes a partition that doesn't need it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.decision import DECISION_RECORDS_MAX, Decision
from kafkapy.raft.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from kafkapy.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kafkapy.wire.metadata_records import PartitionChangeRecord
from kafkapy.wire.schema import Record

PREFERRED, UNCLEAN = 0, 1

# What a partition's leader_recovery_state says of a leader that was elected without being in sync.
RECOVERING = 1


def elect_leaders(image: MetadataImage, request: ElectLeadersRequest) -> Decision:
    """Elect in these partitions, or in all; of all, those are left out that need no election."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    records: list[Record] = []
    results: list[ReplicaElectionResult] = []
    wanted: list[tuple[str, Sequence[int]]]
    if request.topic_partitions is None:
        wanted = [(name, range(len(image.topics.by_name[name].partitions))) for name in sorted(image.topics.by_name)]
    else:
        wanted = [(one.topic, one.partitions) for one in request.topic_partitions]
    elected: set[tuple[str, int]] = set()
    for name, numbers in wanted:
        result = ReplicaElectionResult(topic=name)
        results.append(result)
        for number in numbers:
            outcome = PartitionResult(partition_id=number)
            try:
                if (name, number) in elected:
                    raise _not_needed()
                record = _elect(image, name, number, request.election_type)
                if len(records) == DECISION_RECORDS_MAX:
                    raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of elections per request.")
            except KafkaError as error:
                if request.topic_partitions is None and error.code == ErrorCode.ELECTION_NOT_NEEDED:
                    continue
                outcome.error_code, outcome.error_message = error.code, error.message
            else:
                records.append(record)
                elected.add((name, number))
            result.partition_result.append(outcome)
    return Decision(records, ElectLeadersResponse(replica_election_results=results))


def _elect(image: MetadataImage, name: str, number: int, election_type: int) -> Record:
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if not 0 <= number < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}")
    partition = topic.partitions[number]
    if election_type == PREFERRED:
        return _elect_preferred(image, topic, number, partition)
    return _elect_unclean(image, topic, number, partition)


def _elect_preferred(image: MetadataImage, topic: TopicImage, number: int, partition: PartitionImage) -> Record:
    preferred = partition.replicas[0]
    if partition.leader == preferred:
        raise _not_needed()
    if preferred not in partition.isr or not _is_active(image, preferred):
        raise KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            "The preferred leader was not available.",
        )
    return PartitionChangeRecord(partition_id=number, topic_id=topic.id, leader=preferred)


def _elect_unclean(image: MetadataImage, topic: TopicImage, number: int, partition: PartitionImage) -> Record:
    """A replica in sync is preferred over one that isn't: then nothing is lost, and nothing has to be recovered from."""
    if partition.leader != NO_LEADER:
        raise _not_needed()
    living = [one for one in partition.replicas if _is_active(image, one)]
    if not living:
        raise KafkaError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "Eligible topic partition leaders are not available.",
        )
    clean = [one for one in living if one in partition.isr or one in partition.eligible_leader_replicas]
    leader = (clean or living)[0]
    record = PartitionChangeRecord(partition_id=number, topic_id=topic.id, leader=leader)
    if leader not in partition.isr:
        record.isr = [leader]
    if not clean:
        record.leader_recovery_state = RECOVERING
    if partition.eligible_leader_replicas:
        rest = [one for one in partition.eligible_leader_replicas if one != leader] if clean else []
        record.eligible_leader_replicas = rest
    if partition.last_known_elr:
        record.last_known_elr = []
    return record


def _is_active(image: MetadataImage, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.is_active


def _not_needed() -> KafkaError:
    return KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
