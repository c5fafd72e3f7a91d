"""`kafkapy group seek`."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkapy.cli.failures import Failure, finish
from kafkapy.cli.framework import command
from kafkapy.cli.group.common import existing, topic_option
from kafkapy.cli.offset_spec import Ask, Kind, OffsetSpecError, Point, ask_bounds, parse_span, resolve
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.session import Session
from kafkapy.cli.terminal import confirm, note
from kafkapy.cli.txn.common import PARTITION_OPTION, partitions_of
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.client.client import Client
    from kafkapy.client.groups import Committed

PLANNED = Shape(
    "Where the group goes on reading",
    Column("topic", "the topic's name"),
    Column("partition", "the partition's number", "integer"),
    Column("prior", "the offset committed until now; null without one", "integer"),
    Column("new", "the offset from now on", "integer"),
)


@command(
    "seek",
    short_help="Set where a group goes on reading.",
    examples="""
        kafkapy group seek billing --to start --dry-run
        kafkapy group seek billing --to @1h --yes
        kafkapy group seek billing --to 2 -t orders -p 0 --yes
        kafkapy group seek billing --shift -1 --yes
        kafkapy group seek billing --to-group audit --yes
        kafkapy group seek billing --to-file offsets.txt --yes
        """,
)
@click.argument("group")
@click.option("--to", "where", metavar="WHERE", help="start, end, an offset, or the first record at @TIME.")
@click.option("--shift", metavar="N", type=int, help="Go N records forward, or back with -N.")
@click.option("--to-group", "other", metavar="GROUP", help="Where another group is.")
@click.option(
    "--to-file",
    "file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with a line TOPIC PARTITION OFFSET per partition; commas do as well.",
)
@topic_option(help="Only this topic, all of its partitions; may be given again.  [default: what is committed]")
@PARTITION_OPTION
@click.option("--dry-run", is_flag=True, help="Only show what would be set.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output(PLANNED)
@click.pass_obj
def seek(
    session: Session,
    group: str,
    where: str | None,
    shift: int | None,
    other: str | None,
    file: Path | None,
    topics: tuple[str, ...],
    chosen: tuple[int, ...],
    dry_run: bool,
    yes: bool,
    out: Output,
) -> None:
    """Set where a group goes on reading.

    The group must have no members, or not exist yet. Prior and new offsets are shown first. TIME is what `kafkapy consume -o` takes: 1h (an hour
    ago), 2026-01-31, 2026-01-31T08:00:00Z, milliseconds. Offsets outside of a partition become its start or end.
    """
    from kafkapy.client.groups import commit_offsets, committed_offsets

    if sum(option is not None for option in (where, shift, other, file)) != 1:
        raise click.UsageError("say one of --to, --shift, --to-group and --to-file")
    client = session.client
    point = None if where is None else _point(where)
    committed = committed_offsets(client, group)
    if other is not None or file is not None:
        given = _of_group(client, other) if other is not None else _of_file(file or Path())
        wanted = {
            item: offset
            for item, offset in given.items()
            if (not topics or item.topic in topics) and (not chosen or item.partition in chosen)
        }
        new = _within(client, wanted)
    else:
        new = _moved(client, _partitions(client, group, committed, topics, chosen), committed, point, shift or 0)
    if not new:
        raise Failure(f"there is nothing to set for group {group}")
    rows = []
    for item in sorted(new):
        prior = committed.get(item)
        row = {"topic": item.topic, "partition": item.partition, "prior": prior and prior.offset, "new": new[item]}
        rows.append(row)
    out.rows(rows)
    if dry_run:
        note("nothing was changed")
        return
    confirm(f"Set these offsets of {group}?", yes)
    _finish(commit_offsets(client, group, new))


def _finish(results: Mapping[TopicPartition, KafkaError | None]) -> None:
    """A group with members refuses all partitions alike; once is enough to say so."""
    busy = [error for error in results.values() if error and error.code is ErrorCode.UNKNOWN_MEMBER_ID]
    if busy:
        raise Failure(
            f"{busy[0].code.name}: the group is not empty, so nothing was changed",
            hint="stop its members first; `kafkapy group describe GROUP` shows them",
        )
    finish(results[item] for item in sorted(results))


def _point(where: str) -> Point:
    try:
        span = parse_span(where, time.time_ns() // 1_000_000)
    except OffsetSpecError:
        raise click.UsageError(f"{where!r} is no place; write start, end, 47, @1h or @2026-01-31T08:00:00Z") from None
    if span.last is not None:
        raise click.UsageError(f"{where!r} is a range; give one place")
    if where[0] in "+-":
        raise click.UsageError(f"--to {where} could mean two things; for a step from where the group is, say --shift")
    return span.first


def _partitions(
    client: Client,
    group: str,
    committed: Mapping[TopicPartition, Committed],
    topics: tuple[str, ...],
    chosen: tuple[int, ...],
) -> list[TopicPartition]:
    """All of the named topics; else what is committed, as far as it still exists."""
    if topics:
        return partitions_of(client, topics, chosen)
    if not committed:
        raise Failure(f"group {group} has no offsets", hint="name what it shall read with --topic")
    return [item for item in existing(client, committed) if not chosen or item.partition in chosen]


def _ask_of(client: Client) -> Ask:
    from kafkapy.client.offsets import list_offsets_of_all

    return lambda asked: list_offsets_of_all(client, asked)


def _moved(
    client: Client,
    partitions: list[TopicPartition],
    committed: Mapping[TopicPartition, Committed],
    point: Point | None,
    shift: int,
) -> dict[TopicPartition, int]:
    """The point's offset in each partition; without a point so many records away from what is committed."""
    if point is None:
        missing = [item for item in partitions if item not in committed]
        if missing:
            names = ", ".join(map(str, missing))
            raise Failure(f"nothing is committed for {names}, so there is nothing to shift", hint="say --to instead")
        return _within(client, {item: committed[item].offset + shift for item in partitions})
    if point.kind is Kind.OFFSET:
        return _within(client, dict.fromkeys(partitions, point.number))
    ask = _ask_of(client)
    return resolve(point, ask_bounds(partitions, ask), ask)


def _within(client: Client, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The offsets, or the nearest that the partition has: from any other a consumer would jump as auto.offset.reset says."""
    if not offsets:
        return {}
    found = {}
    for item, (start, end) in ask_bounds(offsets, _ask_of(client)).items():
        found[item] = min(max(offsets[item], start), end)
        if found[item] != offsets[item]:
            note(f"{item} has no offset {offsets[item]}; taking {found[item]}")
    return found


def _of_group(client: Client, name: str) -> dict[TopicPartition, int]:
    from kafkapy.client.groups import committed_offsets

    committed = committed_offsets(client, name)
    if not committed:
        raise Failure(f"group {name} has no offsets")
    return {item: committed[item].offset for item in existing(client, committed)}


def _of_file(file: Path) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        parts = re.fullmatch(r"\s*([\w.-]+)[\s,]+([0-9]{1,9})[\s,]+([0-9]{1,18})\s*", line)
        if parts is None:
            raise click.UsageError(f"{file}:{number}: {line!r} is not TOPIC PARTITION OFFSET")
        offsets[TopicPartition(parts[1], int(parts[2]))] = int(parts[3])
    return offsets
