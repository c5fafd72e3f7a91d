"""Electing leaders on demand and by the clock: pure decisions on an image, with Apache Kafka's codes and sentences.

A preferred election gives a partition back to its first replica, an unclean one gives a partition without a leader to any living
replica, at the price of records that only the missing ones have. Neither changes a partition that doesn't need it. Who becomes leader is
decided in `leadership.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.decision import DECISION_RECORDS_MAX, Decision
from kafkapy.raft.image import BROKER, NO_LEADER, TOPIC, MetadataImage
from kafkapy.raft.leadership import (
    ELR_FEATURE,
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION,
    Election,
    Leadership,
    all_partitions,
)
from kafkapy.raft.membership import after
from kafkapy.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kafkapy.wire.metadata_records import ClearElrRecord, ConfigRecord, FeatureLevelRecord, PartitionChangeRecord
from kafkapy.wire.schema import Record

PREFERRED, UNCLEAN = 0, 1

# As many leaderships go back to their preferred replicas at a time; the rest follows with the next look.
BALANCED_AT_A_TIME_MAX = 1000


def elect_leaders(image: MetadataImage, request: ElectLeadersRequest, config: BrokerConfig) -> Decision:
    """Elect in these partitions, or in all; of all, those are left out that need no election."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    leadership = Leadership(image, config)
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
                if len(records) == DECISION_RECORDS_MAX:
                    raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of elections per request.")
                record = _elect(leadership, name, number, request.election_type)
            except KafkaError as error:
                if request.topic_partitions is None and error.code == ErrorCode.ELECTION_NOT_NEEDED:
                    continue
                outcome.error_code, outcome.error_message = error.code, error.message
            else:
                records.append(record)
                elected.add((name, number))
            result.partition_result.append(outcome)
    return Decision(records, ElectLeadersResponse(replica_election_results=results), leadership.told())


def _elect(leadership: Leadership, name: str, number: int, election_type: int) -> PartitionChangeRecord:
    topic = leadership.image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if not 0 <= number < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}")
    partition = topic.partitions[number]
    preferred = election_type == PREFERRED
    if partition.leader == partition.replicas[0] if preferred else partition.leader != NO_LEADER:
        raise _not_needed()
    record = leadership.change(topic, number, election=Election.PREFERRED if preferred else Election.UNCLEAN)
    if record is not None:
        return record
    if preferred:
        raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.")


def preferred_elections(image: MetadataImage, config: BrokerConfig) -> list[Decision]:
    """Leaderships go back to the first replicas, where those are in sync again. Due every leader.imbalance.check.interval.seconds."""
    leadership = Leadership(image, config)
    records: list[Record] = []
    for topic, number, partition in all_partitions(image):
        preferred = partition.replicas[0]
        if partition.leader != preferred and preferred in partition.isr and leadership.may_lead(partition, preferred):
            record = leadership.change(topic, number, election=Election.PREFERRED)
            if record is not None:
                records.append(record)
                if len(records) == BALANCED_AT_A_TIME_MAX:
                    break
    return leadership.decisions(records) if records else []


def unclean_elections(image: MetadataImage, config: BrokerConfig) -> list[Decision]:
    """Any living replica leads partitions without a leader, in topics that are configured so. Due every unclean.leader.election.interval.ms."""
    leadership = Leadership(image, config)
    records: list[Record] = []
    for name in sorted(image.topics.by_name):
        topic = image.topics.by_name[name]
        if not leadership.allows_unclean(name):
            continue
        for number, partition in enumerate(topic.partitions):
            if partition.leader == NO_LEADER:
                record = leadership.change(topic, number)
                if record is not None:
                    records.append(record)
    return leadership.decisions(records) if records else []


def eligible_no_longer(image: MetadataImage, changes: Iterable[Record]) -> list[Record]:
    """What follows for eligible replicas when min.insync.replicas changes: from now on something may be acknowledged that they haven't got.

    So it is when they are introduced: who was eligible long ago is not any longer. A partition without anybody in sync keeps them: it has no
    leader that could acknowledge anything, and they are who it is waiting for.
    """
    names: set[str] = set()
    enabled = bool(image.features.get(ELR_FEATURE))
    for change in changes:
        if isinstance(change, FeatureLevelRecord) and change.name == ELR_FEATURE and change.feature_level:
            names.update(image.topics.by_name)
        elif enabled and isinstance(change, ConfigRecord) and change.name == MIN_INSYNC_REPLICAS:
            if change.resource_type == TOPIC:
                names.add(change.resource_name)
            elif change.resource_type == BROKER:
                names.update(image.topics.by_name)
    records: list[Record] = []
    for name in sorted(names):
        topic = image.topics.get(name)
        partitions = () if topic is None else topic.partitions
        eligible = [number for number, one in enumerate(partitions) if one.eligible_leader_replicas]
        if topic is None or not eligible:
            continue
        if all(partitions[number].isr for number in eligible):
            records.append(ClearElrRecord(topic_name=name))
            continue
        records += [
            PartitionChangeRecord(partition_id=number, topic_id=topic.id, eligible_leader_replicas=[])
            for number in eligible
            if partitions[number].isr
        ]
    return records


def with_consequences(image: MetadataImage, changes: list[Record], response: object, config: BrokerConfig) -> Decision:
    """Changes of the configuration with what follows for partitions.

    Where a replica that isn't in sync may lead from now on it does so at once; what one decision cannot hold is left to the next look.
    """
    records = [*changes, *eligible_no_longer(image, changes)]
    notes: tuple[str, ...] = ()
    if any(isinstance(one, ConfigRecord) and one.name == UNCLEAN_LEADER_ELECTION for one in changes):
        for decision in unclean_elections(after(image, [Decision(records, None)]), config):
            records += decision.records[: DECISION_RECORDS_MAX - len(records)]
            notes += decision.notes
    return Decision(records, response, notes)


def _not_needed() -> KafkaError:
    return KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
