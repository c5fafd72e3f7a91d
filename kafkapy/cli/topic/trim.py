"""`kafkapy topic trim`."""

from __future__ import annotations

import time

import click

from kafkapy.cli.framework import command, topic_argument
from kafkapy.cli.offset_spec import OffsetSpecError, ask_bounds, parse_span, resolve
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.session import Session
from kafkapy.cli.terminal import confirm
from kafkapy.cli.topic.results import MESSAGE, STATUS, TOPIC, outcome, print_results
from kafkapy.errors import ErrorCode, KafkaError

TRIMMED = Shape(
    "What became of each partition",
    TOPIC,
    Column("partition", "its number", "integer"),
    Column("start", "offset of its first record now", "integer"),
    STATUS,
    MESSAGE,
)


@command(
    "trim",
    short_help="Delete the oldest records of a topic.",
    examples="""
        kafkapy topic trim orders -o -10 --yes
        kafkapy topic trim orders -o @7d --yes
        kafkapy topic trim orders -o 2 --partition 0 --yes
        """,
)
@topic_argument("topic")
@click.option("-o", "--offset", required=True, metavar="OFFSET", help="The first record to keep: 47, -3, @1h, end ...")
@click.option("-p", "--partition", "chosen", metavar="N", type=click.IntRange(0), multiple=True, help="Only this one.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output(TRIMMED)
@click.pass_obj
def trim(session: Session, topic: str, offset: str, chosen: tuple[int, ...], yes: bool, out: Output) -> None:
    """Delete the oldest records of a topic.

    OFFSET is what `kafkapy consume -o` takes, but no range. A partition that ends before a given number is left alone, and so
    are partitions that start later.
    """
    from kafkapy.client.admin import delete_records
    from kafkapy.client.offsets import list_offsets_of_all
    from kafkapy.types import TopicPartition

    client = session.client
    try:
        span = parse_span(offset, time.time_ns() // 1_000_000)
    except OffsetSpecError as error:
        raise click.UsageError(str(error)) from None
    if span.last is not None:
        raise click.UsageError(f"{offset!r} is a range; give the first record to keep")
    there = [partition.partition_index for partition in client.partitions(topic)]
    missing = sorted(set(chosen) - set(there))
    if missing:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} has no partition {', '.join(map(str, missing))}"
        )
    bounds = ask_bounds(
        (TopicPartition(topic, index) for index in chosen or there), lambda asked: list_offsets_of_all(client, asked)
    )
    offsets = resolve(span.first, bounds, lambda asked: list_offsets_of_all(client, asked))
    count = sum(max(min(offsets[item], bound.end) - bound.start, 0) for item, bound in bounds.items())
    confirm(f"Delete {count} records of {topic}?", yes)
    changed = {item: offsets[item] for item, bound in bounds.items() if bound.start < offsets[item] <= bound.end}
    starts, failed = delete_records(client, changed)
    rows = []
    for item, bound in sorted(bounds.items()):
        done = "trimmed" if item in changed else "unchanged"
        start = starts.get(item, bound.start)
        rows.append({"topic": topic, "partition": item.partition, "start": start, **outcome(failed.get(item), done)})
    print_results(out, rows, [failed.get(item) for item in bounds])
