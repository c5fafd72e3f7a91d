"""What the commands about transactions share: durations, moments, and which partitions are meant."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from kafkapy.cli.offset_spec import parse_duration_ms
from kafkapy.client.client import Client
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.types import TopicPartition

# Kafka's transaction.max.timeout.ms: what is open for longer cannot be somebody at work.
OLDER_THAN_DEFAULT = "15m"

PARTITION_OPTION = click.option(
    "-p", "--partition", "chosen", metavar="N", type=click.IntRange(0), multiple=True, help="Only this one."
)


def duration_ms(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """The callback of an option like --longer-than 5m."""
    if value is None:
        return None
    found = parse_duration_ms(value)
    if found is None:
        raise click.BadParameter(f"{value!r} is no duration such as 90s, 15m or 2h", ctx, param)
    return found


def moment(timestamp_ms: int) -> str | None:
    """A time for people and for parsers; None for "never"."""
    if timestamp_ms < 0:
        return None
    text = datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def partitions_of(client: Client, topics: Sequence[str], chosen: Sequence[int]) -> list[TopicPartition]:
    """All partitions of these topics (of every topic, if none is named), or those with the chosen numbers."""
    if topics:
        found = [TopicPartition(name, row.partition_index) for name in topics for row in client.partitions(name)]
    else:
        found = [
            TopicPartition(topic.name or "", row.partition_index)
            for topic in client.metadata().topics
            for row in topic.partitions
        ]
    if not chosen:
        return found
    for name in topics:
        missing = sorted(set(chosen) - {item.partition for item in found if item.topic == name})
        if missing:
            numbers = ", ".join(map(str, missing))
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} has no partition {numbers}")
    return [item for item in found if item.partition in chosen]


def row_of(partition: TopicPartition, producer: Any) -> dict[str, Any]:
    """A producer in a partition, under the names that all commands use."""
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "producer_id": producer.producer_id,
        "epoch": producer.producer_epoch,
        "last_sequence": producer.last_sequence if producer.last_sequence >= 0 else None,
        "last_write": moment(producer.last_timestamp_ms),
        "coordinator_epoch": producer.coordinator_epoch,
        "start_offset": producer.start_offset if producer.start_offset >= 0 else None,
    }
