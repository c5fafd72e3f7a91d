"""`kafkapy produce`: lines, percent formats, JSON or whole files into records."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any

import click

from kafkapy.cli.failures import PARTIAL, Failure, hint_for
from kafkapy.cli.framework import command, topic_argument
from kafkapy.cli.percent import FormatError, ReadError, RecordReader, Source, make_printer
from kafkapy.cli.progress import progress
from kafkapy.cli.properties import ACKS, CODECS
from kafkapy.cli.record_json import RecordJsonError, parse_record, record_line
from kafkapy.cli.session import Session
from kafkapy.cli.terminal import note
from kafkapy.client.fetcher import FetchedRecord
from kafkapy.client.producer import Delivered, OutgoingRecord, Producer
from kafkapy.errors import KafkaError
from kafkapy.wire.record_batch import read_header
from kafkapy.wire.records import Header

if TYPE_CHECKING:
    from kafkapy.client.client import Client

INT64_MAX = 2**63 - 1

# A record, and its topic where the input names one.
Incoming = tuple[str | None, OutgoingRecord]


class Input:
    """One file or standard input. Before it makes the reader wait it says so, for what was collected shall leave by then."""

    def __init__(self, stream: IO[bytes], on_wait: Callable[[], None], on_bytes: Callable[[int], None]) -> None:
        self._descriptor = stream.fileno()
        self._on_wait = on_wait
        self._on_bytes = on_bytes

    def read(self, size: int) -> bytes:
        """Up to that many bytes, none at the end."""
        if not select.select([self._descriptor], [], [], 0)[0]:
            self._on_wait()
        chunk = os.read(self._descriptor, size)
        self._on_bytes(len(chunk))
        return chunk


def _headers(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[Header, ...]:
    headers: list[Header] = []
    for text in values:
        key, separator, value = text.partition("=" if "=" in text else ":")
        if not separator:
            raise click.BadParameter(f"{text!r}: write KEY=VALUE")
        headers.append((key, value.encode("utf-8", "surrogateescape")))
    return tuple(headers)


@command(
    "produce",
    short_help="Write records to a topic.",
    examples="""
        echo hello | kafkapy produce orders
        printf 'alice 1\\nbob 2\\n' | kafkapy produce orders -f '%k %v\\n' -z zstd
        echo paid | kafkapy produce orders -k order-17 -H source=web -H retry=0
        echo '{"key": "a", "value": "1", "headers": [{"key": "h", "value": "x"}]}' | kafkapy produce orders --json
        kafkapy consume orders --exit --format json | kafkapy produce archive --json
        kafkapy produce orders --file orders.jsonl --json
        kafkapy produce pictures --file logo.png --per file
        echo order-17 | kafkapy produce orders -f '%k\\n' --output '%t/%p@%o\\n'
        """,
)
@topic_argument("topic", required=False)
@click.option(
    "-f", "--format", "format_text", metavar="FORMAT", default="%v\\n", show_default=True, help="How records look."
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json: one JSON object a line.")
@click.option(
    "-F",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Read this.  [default: standard input]",
)
@click.option(
    "--per",
    type=click.Choice(["line", "file"]),
    default="line",
    show_default=True,
    help="'file': each file is one record.",
)
@click.option("-k", "--key", metavar="TEXT", help="The key of records that bring none.")
@click.option(
    "-H", "--header", "headers", metavar="KEY=VALUE", multiple=True, callback=_headers, help="A header to add."
)
@click.option(
    "-p", "--partition", metavar="N", type=click.IntRange(0), help="Write to this partition, whatever the key."
)
@click.option("--repartition", is_flag=True, help="Choose partitions by the keys, although the input names some.")
@click.option("-Z", "--null", "empty_is_null", is_flag=True, help="An empty key or value is null: a tombstone.")
@click.option("-z", "--compression", type=click.Choice(CODECS), help="How to compress batches.  [default: none]")
@click.option("--acks", type=click.Choice(list(ACKS)), help="Who must have a record.  [default: all]")
@click.option("--create", is_flag=True, help="Let the broker create a topic that is missing, if it is set up to.")
@click.option(
    "-o", "--output", "output_text", metavar="FORMAT", help="Print each record that is acknowledged, as `consume` does."
)
@click.pass_obj
def produce(session: Session, topic: str | None, **options: Any) -> None:
    """Write records to a topic.

    Each line of standard input becomes the value of a record. FORMAT is `json` (what `kafkapy consume --format json` prints:
    key, value, headers, partition and timestamp are kept) or a percent format such as '%k %v\\n'; `kafkapy consume --format
    help` explains both. TOPIC may be left out where the input names it. Records with a key go to the partition that Kafka's
    own clients choose.
    """
    _Production(session, topic, options).run()


class _Production:
    """One run of the command."""

    def __init__(self, session: Session, topic: str | None, options: dict[str, Any]) -> None:
        self._topic = topic
        self._options = options
        self._printer = _make_output(options["output_text"])
        self._printed = 0
        self._topics: set[str] = set()
        settings = session.settings
        acks = options["acks"]
        self._read = self._make_reader()
        self._producer = Producer(
            session.client,
            acks=settings.acks if acks is None else ACKS[acks],
            codec=CODECS.index(options["compression"] or settings.codec),
            batch_bytes=settings.batch_bytes,
            timeout_s=settings.delivery_timeout_ms / 1000,
            idempotent=settings.idempotent,
            create_topics=options["create"],
            on_delivery=self._print if self._printer is not None else None,
        )
        if topic is not None:
            self._check_topic(session.client, topic)

    def run(self) -> None:
        """Read everything, write everything, tell how much it was."""
        try:
            self._produce()
        except (KafkaError, ReadError, RecordJsonError) as error:
            self._flush_despite(error)
            done = self._producer.acknowledged
            message = str(error) + (f"; {done} records before it are written" if done else "")
            hint = hint_for(error) if isinstance(error, KafkaError) else None
            raise Failure(message, PARTIAL if done else 1, hint) from error
        written = self._producer.acknowledged
        note(
            f"{written} record{'' if written == 1 else 's'} to {', '.join(sorted(self._topics)) or self._topic or 'nowhere'}"
        )

    def _flush_despite(self, error: Exception) -> None:
        """What came before input that makes no sense is written; after a refusal by the broker nothing is tried any more."""
        if not isinstance(error, KafkaError):
            self._producer.flush()

    def _check_topic(self, client: Client, topic: str) -> None:
        """Before the input is touched: the topic and the partition are there."""
        found = client.topic(topic, create=self._options["create"])
        partition = self._options["partition"]
        if partition is not None and partition >= len(found.partitions):
            raise click.UsageError(f"topic {topic} has {len(found.partitions)} partitions, so there is no {partition}")

    def _make_reader(self) -> Callable[[Source], Iterator[Incoming]]:
        text = "json" if self._options["as_json"] else self._options["format_text"]
        if self._options["per"] == "file":
            return _read_whole
        if text in ("json", "jsonl"):
            return _read_json
        if "%" not in text:
            raise click.UsageError(f"--format {text}: write json, or a percent format such as '%k %v\\n'")
        try:
            return RecordReader(text).read_all
        except FormatError as error:
            raise click.UsageError(f"--format: {error}") from None

    def _produce(self) -> None:
        files = self._options["files"]
        total = sum(os.path.getsize(path) for path in files) if files else None
        with progress("produce", total, unit="bytes") as advance:
            if not files:
                self._read_from(sys.stdin.buffer, advance)
            for path in files:
                with open(path, "rb", buffering=0) as stream:
                    self._read_from(stream, advance)
            self._producer.flush()

    def _read_from(self, stream: IO[bytes], advance: Callable[[int], None]) -> None:
        source = Source(Input(stream, self._producer.flush, advance).read)
        append = self._producer.append
        for named, record in self._read(source):
            topic = self._topic or named
            if topic is None:
                raise RecordJsonError("no topic: name one behind `produce`, or in each record")
            self._topics.add(topic)
            append(topic, self._complete(record))

    def _complete(self, record: OutgoingRecord) -> OutgoingRecord:
        """With what the options say."""
        options = self._options
        key, value, headers, partition, timestamp_ms = record
        if options["empty_is_null"]:
            key, value = key or None, value or None
        if key is None and options["key"] is not None:
            key = options["key"].encode("utf-8", "surrogateescape")
        if timestamp_ms is not None and not -1 <= timestamp_ms <= INT64_MAX:
            raise RecordJsonError(f"a timestamp of {timestamp_ms} ms")
        if options["partition"] is not None:
            partition = options["partition"]
        elif options["repartition"]:
            partition = None
        return OutgoingRecord(key, value, headers + options["headers"], partition, timestamp_ms)

    def _print(self, delivered: Delivered) -> None:
        assert self._printer is not None
        header = read_header(delivered.batch)
        lines = []
        for record in delivered.records():
            self._printed += 1
            if delivered.log_append_time_ms >= 0:
                record = record._replace(timestamp=delivered.log_append_time_ms)
            lines.append(self._printer(FetchedRecord(record, delivered.partition, header, -1, -1, -1), self._printed))
        sys.stdout.buffer.write(b"".join(lines))
        sys.stdout.buffer.flush()


def _make_output(text: str | None) -> Callable[[FetchedRecord, int], bytes] | None:
    if text is None:
        return None
    if text in ("json", "jsonl"):
        return lambda fetched, count: record_line(fetched)
    try:
        return make_printer(text)
    except FormatError as error:
        raise click.UsageError(f"--output: {error}") from None


def _read_whole(source: Source) -> Iterator[Incoming]:
    yield None, OutgoingRecord(None, source.until(b""))


def _read_json(source: Source) -> Iterator[Incoming]:
    """One object a line; empty lines are none."""
    number = 0
    while not source.at_end():
        line = source.until(b"\n")
        source.skip(b"\n")
        number += 1
        if line.strip():
            try:
                yield parse_record(line)
            except RecordJsonError as error:
                raise RecordJsonError(f"line {number}: {error}") from None
