"""Which partitions a command means: `TOPIC`, or `TOPIC:PARTITIONS` such as orders:0, orders:0,2 and orders:0-3,7."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kafkapy.cli.framework import topic_argument
from kafkapy.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kafkapy.client.client import Client
    from kafkapy.client.replicas import Replicas


class Wanted(NamedTuple):
    """A topic and its partitions; None for all of them."""

    topic: str
    partitions: tuple[int, ...] | None


def _parse(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[Wanted]:
    return [_wanted(value) for value in values]


def _wanted(text: str) -> Wanted:
    topic, colon, listed = text.partition(":")
    if not colon:
        return Wanted(topic, None)
    numbers: set[int] = set()
    for part in listed.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise click.BadParameter(f"{text!r}: write TOPIC or TOPIC:PARTITIONS, such as orders:0,2 or orders:0-3")
        numbers.update(range(int(first), int(last or first) + 1))
    return Wanted(topic, tuple(sorted(numbers)))


def partitions_argument(**kwargs: Any) -> Any:
    """The argument TOPIC[:PARTITIONS]...; the shell completes topics."""
    return topic_argument("wanted", metavar="TOPIC[:PARTITIONS]...", nargs=-1, callback=_parse, **kwargs)


def selected(client: Client, wanted: Sequence[Wanted]) -> list[Replicas]:
    """The partitions that are meant, in order; without a word all of the cluster."""
    from kafkapy.client.replicas import describe_replicas

    found = describe_replicas(client, [topic for topic, _ in wanted] if wanted else None)
    if not wanted:
        return found
    chosen: list[Replicas] = []
    for topic, numbers in wanted:
        rows = [row for row in found if row.partition.topic == topic]
        missing = sorted(set(numbers or ()) - {row.partition.partition for row in rows})
        if missing:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic} has no partition {', '.join(map(str, missing))}",
            )
        chosen += [row for row in rows if numbers is None or row.partition.partition in numbers]
    return sorted(set(chosen))


def broker_list(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """The callback of an option like --to 1,2,3."""
    if value is None:
        return None
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isdecimal() for part in parts) or len(set(parts)) != len(parts):
        raise click.BadParameter(f"{value!r}: write the ids of brokers, each once, such as 1,2,3")
    return tuple(map(int, parts))
