"""Moving partitions to other brokers: a pure decision on an image, with Apache Kafka's codes and sentences.

A move begins with all replicas at once, the old and the new; the new ones copy, and join the ISR. When all of them are in it the old ones
go (`leadership.py` notices, whatever brings the ISR about). A move that is called off goes back to the replicas from before.
"""

from __future__ import annotations

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.decision import DECISION_RECORDS_MAX, Decision
from kafkapy.raft.image import MetadataImage, PartitionImage, TopicImage
from kafkapy.raft.leadership import Election, Leadership, Wanted
from kafkapy.raft.topics import check_manual_assignment
from kafkapy.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kafkapy.wire.metadata_records import PartitionChangeRecord
from kafkapy.wire.schema import Record


def alter_partition_reassignments(
    image: MetadataImage, request: AlterPartitionReassignmentsRequest, config: BrokerConfig
) -> Decision:
    """Each partition is moved or refused by itself."""
    leadership = Leadership(image, config)
    records: list[Record] = []
    responses: list[ReassignableTopicResponse] = []
    changed: set[tuple[str, int]] = set()
    for topic in request.topics:
        answers: list[ReassignablePartitionResponse] = []
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=answers))
        for wanted in topic.partitions:
            answer = ReassignablePartitionResponse(partition_index=wanted.partition_index, error_message=None)
            answers.append(answer)
            try:
                if (topic.name, wanted.partition_index) in changed:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "The request names the partition more than once.")
                if len(records) == DECISION_RECORDS_MAX:
                    raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of moves per request.")
                record = _reassign(leadership, topic.name, wanted, request.allow_replication_factor_change)
            except KafkaError as error:
                answer.error_code, answer.error_message = error.code, error.message
            else:
                if record is not None:
                    changed.add((topic.name, wanted.partition_index))
                    records.append(record)
    return Decision(
        records,
        AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_message=None if request.topics else "",
            responses=responses,
        ),
        leadership.told(),
    )


def is_moving(partition: PartitionImage) -> bool:
    """Whether a reassignment of the partition is on its way."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def _reassign(
    leadership: Leadership, name: str, wanted: ReassignablePartition, may_resize: bool
) -> PartitionChangeRecord | None:
    topic = leadership.image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    number = wanted.partition_index
    if not 0 <= number < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{number}.")
    if wanted.replicas is None:
        return _cancel(leadership, topic, number)
    partition = topic.partitions[number]
    check_manual_assignment(leadership.image, wanted.replicas, None)
    if not may_resize:
        _check_same_size(partition, len(wanted.replicas))
    adding = sorted(set(wanted.replicas).difference(partition.replicas))
    removing = sorted(set(partition.replicas).difference(wanted.replicas))
    return leadership.change(
        topic,
        number,
        Wanted(replicas=[*wanted.replicas, *removing], adding=adding or None, removing=removing or None),
        Election.ONLINE,
    )


def _check_same_size(partition: PartitionImage, wanted: int) -> None:
    now = len({*partition.replicas, *partition.adding_replicas}.difference(partition.removing_replicas))
    if now != wanted:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor is changed from {now} to {wanted}"
        )


def _cancel(leadership: Leadership, topic: TopicImage, number: int) -> PartitionChangeRecord | None:
    """Take out what was being added; what was being removed stays."""
    partition = topic.partitions[number]
    if not is_moving(partition):
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = [one for one in partition.replicas if one not in partition.adding_replicas]
    isr = [one for one in partition.isr if one not in partition.adding_replicas]
    if not isr and not set(partition.eligible_leader_replicas).intersection(replicas):
        # Only new replicas have all records: going back to an old one loses what it hasn't got.
        if not leadership.allows_unclean(topic.name):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic.name}:{number} because it would require an unclean leader election.",
            )
        isr = replicas[:1]
        leadership.notes.append(
            f"UNCLEAN CANCELLATION: broker {isr[0]} counts as in sync of {topic.name}-{number} again, which it is not: "
            f"acknowledged records may be lost (in sync were {list(partition.isr)})"
        )
    return leadership.change(topic, number, Wanted(isr=isr, replicas=replicas, adding=(), removing=()))
