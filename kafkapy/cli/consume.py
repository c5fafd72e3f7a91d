"""`kafkapy consume`: records of topics in any format, from any offset, up to an end or for ever."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from heapq import nlargest
from itertools import takewhile
from typing import Any

import click

from kafkapy.cli.framework import command, topic_argument
from kafkapy.cli.offset_spec import Bounds, OffsetSpecError, Span, ask_bounds, parse_span, resolve
from kafkapy.cli.offset_spec import __doc__ as OFFSETS_HELP
from kafkapy.cli.percent import FormatError, make_printer
from kafkapy.cli.percent import __doc__ as FORMAT_HELP
from kafkapy.cli.progress import progress
from kafkapy.cli.record_json import SCHEMA, record_line
from kafkapy.cli.session import Session
from kafkapy.cli.terminal import note
from kafkapy.cli.topic.select import regex_option, topic_names
from kafkapy.client.client import Client
from kafkapy.client.fetcher import Fetched, FetchedRecord, Fetcher
from kafkapy.client.offsets import READ_COMMITTED, READ_UNCOMMITTED, list_offsets_of_all
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.types import TopicPartition

Printer = Callable[[FetchedRecord, int], bytes]

# From so many records on it is worth a progress bar.
PROGRESS_RECORDS_MIN = 10_000
POLL_S = 1.0

FORMATS = {
    "text": "%v\\n",
    "wide": "%d{iso} %t/%p@%o %k %h{%k=%v }%v\\n",
    "raw": "%v",
    "hex": "%v{hex}\\n",
}


def _printer(ctx: click.Context, param: click.Parameter, value: str) -> Printer:
    if value == "help":
        formats = "\n".join(f"{name:<6}{text}" for name, text in FORMATS.items())
        click.echo(
            f"Formats by name:\n\n{formats}\njson  an object a line, as below\n\n{FORMAT_HELP}\n{json.dumps(SCHEMA, indent=2)}"
        )
        ctx.exit()
    if value in ("json", "jsonl"):
        return lambda fetched, count: record_line(fetched)
    try:
        text = FORMATS.get(value, value)
        if "%" not in text:
            raise FormatError(f"{value!r} is none of {', '.join(FORMATS)}, json, nor a format with % in it")
        return make_printer(text)
    except FormatError as error:
        raise click.BadParameter(str(error)) from None


def _span(ctx: click.Context, param: click.Parameter, value: str | None) -> Span | None:
    if value is None:
        return None
    if value == "help":
        click.echo(OFFSETS_HELP)
        ctx.exit()
    try:
        return parse_span(value, time.time_ns() // 1_000_000)
    except OffsetSpecError as error:
        raise click.BadParameter(str(error)) from None


@command(
    "consume",
    short_help="Read records from topics.",
    examples="""
        kafkapy consume orders --exit
        kafkapy consume orders -n 3
        kafkapy consume orders --tail 5
        kafkapy consume orders -o -2 -p 0 --exit
        kafkapy consume orders -o @1h:end --format json
        kafkapy consume orders -o 0:2 --format '%t/%p@%o %d{iso} %k=%v %h{%k:%v,}\\n'
        kafkapy consume 'ord.*' --regex --exit --format wide
        """,
)
@topic_argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@regex_option
@click.option(
    "-o",
    "--offset",
    "span",
    metavar="OFFSETS",
    is_eager=True,
    callback=_span,
    help="Where: start, end, 47, +2, -3, 10:20, @1h, @2026-01-31:end ...; 'help' explains.  [default: start]",
)
@click.option("-p", "--partition", "chosen", metavar="N", type=click.IntRange(0), multiple=True, help="Only this one.")
@click.option("-n", "--num", "count", metavar="N", type=click.IntRange(1), help="Stop after so many records.")
@click.option(
    "--tail", metavar="N", type=click.IntRange(1), help="The last N records of all partitions together, then stop."
)
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Wait for more at the end. Needed only with --tail and with ranges.",
)
@click.option("-e", "--exit", "at_end", is_flag=True, help="Stop at what is the end now.")
@click.option(
    "--format",
    "printer",
    metavar="FORMAT",
    default="text",
    show_default=True,
    is_eager=True,
    callback=_printer,
    help="text, wide, json, raw, hex or a percent format; 'help' explains.",
)
@click.option("--read-committed", is_flag=True, help="Leave out records of open and aborted transactions.")
@click.pass_obj
def consume(session: Session, topics: tuple[str, ...], regex: bool, **options: Any) -> None:
    """Read records from topics.

    Begins at the start and waits for more at the end, unless told otherwise. `text` prints values, `json` whole records that
    `kafkapy produce --json` reads again.
    """
    if options["tail"] and options["span"]:
        raise click.UsageError("--tail says already where to begin; leave out --offset")
    if options["at_end"] and options["follow"]:
        raise click.UsageError("--exit and --follow contradict each other")
    client = session.client
    partitions = _partitions(client, topic_names(client, topics, regex), options["chosen"])
    _Consumption(session, partitions, options).run()


def _partitions(client: Client, topics: list[str], chosen: tuple[int, ...]) -> list[TopicPartition]:
    found = []
    for topic in topics:
        there = [partition.partition_index for partition in client.partitions(topic)]
        missing = sorted(set(chosen) - set(there))
        if missing:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic} has {len(there)} partitions, so there is no {', '.join(map(str, missing))}",
            )
        found += [TopicPartition(topic, index) for index in chosen or there]
    return found


class _Consumption:
    """One run of the command."""

    def __init__(self, session: Session, partitions: list[TopicPartition], options: dict[str, Any]) -> None:
        self._settings = session.settings
        self._client = session.client
        self._committed = options["read_committed"] or self._settings.read_committed
        self._print: Printer = options["printer"]
        self._span: Span = options["span"] or parse_span("start", 0)
        self._tail: int | None = options["tail"]
        self._left: int | None = options["count"]
        self._follow: bool = options["follow"]
        self._shown = 0
        self._bounds: dict[TopicPartition, Bounds] = ask_bounds(partitions, self._ask)
        # Where each partition ends for us; without an entry it never does.
        self._ends = self._find_ends(options["at_end"])

    def run(self) -> None:
        """Print what is wanted."""
        if self._tail is not None:
            if self._show_tail(self._tail) or not self._follow:
                return
            positions = {item: bound.end for item, bound in self._bounds.items()}
            self._ends = {}
        else:
            positions = resolve(self._span.first, self._bounds, self._ask)
        for records in self._fetch(positions, self._ends):
            if self._show(records):
                return

    def _ask(self, questions: Any) -> dict[TopicPartition, int]:
        level = READ_COMMITTED if self._committed else READ_UNCOMMITTED
        return list_offsets_of_all(self._client, questions, isolation_level=level)

    def _find_ends(self, at_end: bool) -> dict[TopicPartition, int]:
        if self._span.last is not None:
            ends = resolve(self._span.last, self._bounds, self._ask)
            if self._follow:
                return ends
            # A range that reaches beyond what is there ends with what is there.
            return {item: min(end, self._bounds[item].end) for item, end in ends.items()}
        if at_end or self._tail is not None:
            return {item: bound.end for item, bound in self._bounds.items()}
        return {}

    # Reading

    def _fetch(
        self, positions: dict[TopicPartition, int], ends: dict[TopicPartition, int]
    ) -> Iterator[Iterator[FetchedRecord]]:
        """The records of each answer's partitions, up to their ends; stops when every partition is at its end."""
        open_positions = {item: at for item, at in positions.items() if item not in ends or at < ends[item]}
        settings = self._settings
        fetcher = Fetcher(
            self._client,
            open_positions,
            read_committed=self._committed,
            min_bytes=settings.fetch_min_bytes,
            max_wait_ms=settings.fetch_max_wait_ms,
            max_bytes=settings.fetch_max_bytes,
            partition_max_bytes=settings.partition_max_bytes,
            on_out_of_range=self._begin_again,
        )
        total = self._total(open_positions, ends)
        with progress("consume", total) as advance:
            while fetcher.positions:
                for fetched in fetcher.poll(POLL_S):
                    end = ends.get(fetched.partition)
                    yield _records_before(fetched, end)
                    advance(fetched.next_position - fetched.position)
                    if end is not None and fetched.next_position >= end:
                        fetcher.stop(fetched.partition)
                sys.stdout.buffer.flush()

    def _total(self, positions: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> int | None:
        """How many offsets lie ahead, where a bar would help: not for few, not without an end, not beside the records themselves."""
        if self._left is not None:
            total = self._left
        elif positions.keys() <= ends.keys():
            total = sum(ends[item] - at for item, at in positions.items())
        else:
            return None
        return total if total >= PROGRESS_RECORDS_MIN and not sys.stdout.isatty() else None

    def _begin_again(self, partition: TopicPartition, position: int, error: KafkaError) -> int:
        """Records can be deleted while one reads: go on where the partition begins now. An offset beyond the end is an error."""
        bounds = ask_bounds([partition], self._ask)[partition]
        if position > bounds.end:
            raise KafkaError(
                error.code, f"{partition} holds offsets {bounds.start} to {bounds.end}, so there is no {position}"
            )
        note(f"{partition}: offsets {position} to {bounds.start - 1} have been deleted; going on at {bounds.start}")
        return bounds.start

    # Showing

    def _show(self, records: Iterator[FetchedRecord]) -> bool:
        """Print records; True when there have been enough."""
        write = sys.stdout.buffer.write
        try:
            for fetched in records:
                self._shown += 1
                write(self._print(fetched, self._shown))
                if self._left is not None and self._shown >= self._left:
                    return True
        except FormatError as error:
            raise click.UsageError(f"--format: {error}") from None
        return False

    def _show_tail(self, wanted: int) -> bool:
        """The last records of all partitions in the order of their time; True when there have been enough."""
        positions = {item: max(bound.end - wanted, bound.start) for item, bound in self._bounds.items()}
        found: list[tuple[int, int, int, FetchedRecord]] = []
        arrived = 0
        for records in self._fetch(positions, self._ends):
            for record in records:
                # Offsets keep a partition's order where times are equal or run backwards a little.
                arrived += 1
                found.append((record.record.timestamp, record.record.offset, arrived, record))
            found = nlargest(wanted, found)
        enough = self._show(iter([record for *_, record in sorted(found)]))
        sys.stdout.buffer.flush()
        return enough


def _records_before(fetched: Fetched, end: int | None) -> Iterator[FetchedRecord]:
    """The records up to the partition's end for us."""
    records = fetched.records()
    return records if end is None else takewhile(lambda item: item.record.offset < end, records)
