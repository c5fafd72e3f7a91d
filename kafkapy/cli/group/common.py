"""What the commands about groups share: lag, which topics are meant, and where partitions end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from kafkapy.cli.session import Session
from kafkapy.client.client import Client
from kafkapy.client.offsets import END, list_offsets
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.client.groups import Committed


def _complete_topic(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return ctx.ensure_object(Session).topics_for_completion(incomplete)


def topic_option(**kwargs: Any) -> Any:
    """`--topic`, as often as wanted; the shell completes the names."""
    return click.option(
        "-t", "--topic", "topics", metavar="TOPIC", multiple=True, shell_complete=_complete_topic, **kwargs
    )


def existing(client: Client, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Those that are there: a group may have offsets of topics that have been deleted since."""
    wanted = set(partitions)
    if not wanted:
        return []
    answer = client.metadata(sorted({item.topic for item in wanted}))
    there = {
        TopicPartition(topic.name or "", row.partition_index) for topic in answer.topics for row in topic.partitions
    }
    return sorted(wanted & there)


def end_offsets(client: Client, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Where the partitions end. Deleted ones and those without a leader are left out: nobody knows."""
    found, _ = list_offsets(client, dict.fromkeys(existing(client, partitions), END))
    return {partition: answer.offset for partition, answer in found.items()}


def lag_of(committed: Mapping[TopicPartition, Committed], ends: Mapping[TopicPartition, int]) -> int | None:
    """Records that the group has still to read, in all partitions whose end is known; None if it has read nothing."""
    known = [max(ends[item] - place.offset, 0) for item, place in committed.items() if item in ends]
    return sum(known) if known else None
