"""Moving partitions to other brokers: a pure decision on an image, with Apache Kafka's codes and sentences.

What takes effect here is what needs no copy: replicas in another order, with the first of them preferred from then on. A move to brokers
that have no replica yet is refused, because nobody would carry it out. So a move in progress can only come with a metadata log that
Apache Kafka has begun; it stays as it is.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.decision import DECISION_RECORDS_MAX, Decision
from kafkapy.raft.image import DIRECTORY_UNASSIGNED, MetadataImage
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


def alter_partition_reassignments(image: MetadataImage, request: AlterPartitionReassignmentsRequest) -> Decision:
    """Each partition is moved or refused by itself."""
    records: list[Record] = []
    responses: list[ReassignableTopicResponse] = []
    for topic in request.topics:
        answers: list[ReassignablePartitionResponse] = []
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=answers))
        for wanted in topic.partitions:
            answer = ReassignablePartitionResponse(partition_index=wanted.partition_index, error_message=None)
            answers.append(answer)
            try:
                changed = _reassign(image, topic.name, wanted)
                if len(records) + len(changed) > DECISION_RECORDS_MAX:
                    raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of moves per request.")
            except KafkaError as error:
                answer.error_code, answer.error_message = error.code, error.message
            else:
                records += changed
    return Decision(
        records,
        AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_message=None if request.topics else "",
            responses=responses,
        ),
    )


def _reassign(image: MetadataImage, name: str, wanted: ReassignablePartition) -> list[Record]:
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    number = wanted.partition_index
    if not 0 <= number < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{number}.")
    partition = topic.partitions[number]
    if wanted.replicas is None:
        if partition.adding_replicas or partition.removing_replicas:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "The move was begun by another controller and cannot be called off."
            )
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    check_manual_assignment(image, wanted.replicas, None)
    if tuple(wanted.replicas) == partition.replicas:
        return []
    if set(wanted.replicas) != set(partition.replicas):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The brokers of this cluster do not copy replicas.")
    places = dict(zip(partition.replicas, partition.directories, strict=False))
    directories = [places.get(one, DIRECTORY_UNASSIGNED) for one in wanted.replicas]
    return [
        PartitionChangeRecord(
            partition_id=number, topic_id=topic.id, replicas=list(wanted.replicas), directories=directories
        )
    ]
