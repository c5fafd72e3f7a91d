"""Where partitions begin and end, and which offset a point in time has: ListOffsets, asked of each partition's leader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from kafkapy.client.client import Client
from kafkapy.errors import KafkaError
from kafkapy.types import TopicPartition
from kafkapy.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

# Questions that are no point in time.
END = -1
START = -2
MAX_TIMESTAMP = -3

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


class FoundOffset(NamedTuple):
    """-1 stands for "there is none": no record is that late, or the question was not about a record."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def list_offsets(
    client: Client, questions: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
) -> tuple[dict[TopicPartition, FoundOffset], dict[TopicPartition, KafkaError]]:
    """The answer per partition to a time in ms or one of the questions above; and the partitions that have failed."""

    def build(partitions: list[TopicPartition]) -> ListOffsetsRequest:
        topics = [
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(partition_index=item.partition, timestamp=questions[item]) for item in items
                ],
            )
            for name, items in by_topic(partitions)
        ]
        timeout_ms = int(client.timeout_s * 1000)
        return ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics, timeout_ms=timeout_ms)

    def read(answer: Any) -> Iterator[tuple[TopicPartition, int, FoundOffset]]:
        for topic in answer.topics:
            for row in topic.partitions:
                found = FoundOffset(row.offset, row.timestamp, row.leader_epoch)
                yield TopicPartition(topic.name, row.partition_index), row.error_code, found

    return client.on_leaders(questions, build, read)


def list_offsets_of_all(
    client: Client, questions: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
) -> dict[TopicPartition, int]:
    """Only the offsets, and the first failure as an exception."""
    found, failed = list_offsets(client, questions, isolation_level=isolation_level)
    for error in failed.values():
        raise error
    return {partition: answer.offset for partition, answer in found.items()}


def by_topic(partitions: Iterable[TopicPartition]) -> Iterator[tuple[str, list[TopicPartition]]]:
    """Requests nest partitions in topics."""
    for name, items in groupby(sorted(partitions), key=lambda item: item.topic):
        yield name, list(items)
