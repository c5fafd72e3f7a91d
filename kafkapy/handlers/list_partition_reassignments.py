"""ListPartitionReassignments (key 46, v0): the partitions that are moving to other brokers. kafka-reassign-partitions, kafka-topics, UIs.

A partition is moving while replicas are being added or removed. What isn't moving, or isn't there, is left out, as in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkapy.handlers.context import RequestContext
from kafkapy.raft.image import PartitionImage, TopicImage
from kafkapy.raft.reassignments import is_moving
from kafkapy.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(context: RequestContext, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    """Answer from the image."""
    topics = context.broker.image.topics
    found: list[OngoingTopicReassignment] = []
    if request.topics is None:
        for name in sorted(topics.by_name):
            topic = topics.by_name[name]
            found += _moving(topic, range(len(topic.partitions)))
    else:
        for asked in request.topics:
            wanted = topics.get(asked.name)
            if wanted is not None:
                found += _moving(wanted, asked.partition_indexes)
    return ListPartitionReassignmentsResponse(error_message=None, topics=found)


def _moving(topic: TopicImage, numbers: Iterable[int]) -> list[OngoingTopicReassignment]:
    """The topic with those of these partitions that are moving; nothing where none is."""
    partitions = [
        _ongoing(number, topic.partitions[number])
        for number in numbers
        if 0 <= number < len(topic.partitions) and is_moving(topic.partitions[number])
    ]
    return [OngoingTopicReassignment(name=topic.name, partitions=partitions)] if partitions else []


def _ongoing(number: int, partition: PartitionImage) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=number,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
    )
