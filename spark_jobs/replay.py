"""replay: an archive, or a part of it, back into a topic: order kept per partition, duplicates recognisable, paced, resumable.

Records are sent in slices: so many offsets of every partition at a time. After each slice the progress is noted; a run that was killed
within a slice looks at what of it has arrived and sends the rest. Spark's sink cannot set timestamps, so a record's own is a header;
with where it came from, the headers make any duplicate recognisable:

    replay.topic  replay.partition  replay.offset  replay.timestamp (milliseconds)       all as decimal text
"""

from __future__ import annotations

import datetime
import json
import re
import time
from typing import TYPE_CHECKING, Any

import click

from spark_jobs.archive_files import load_existing, read_archive
from spark_jobs.cluster import Cluster, Topic
from spark_jobs.columns import F
from spark_jobs.session import JobError, client_options, kafka_options, master_option, say, session
from spark_jobs.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

_PROGRESS = "_kafkapy/replays"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_RANGE = re.compile(r"(\d+):(\d*)-(\d*)")


# Transforms.


def sent(rows: DataFrame, keep_partitions: bool) -> DataFrame:
    """Rows as the kafka sink takes them, each with where it came from. Without the partition the key decides, as a producer would."""
    origin = [
        header("replay.topic", F.col("topic")),
        header("replay.partition", F.col("partition")),
        header("replay.offset", F.col("offset")),
        header("replay.timestamp", F.unix_millis("timestamp")),
    ]
    headers = F.concat(F.coalesce("headers", F.array().cast(HEADERS)), F.array(*origin)).alias("headers")
    columns = ["key", "value", headers]
    return rows.select(*columns, "partition") if keep_partitions else rows.select(*columns)


HEADERS = "array<struct<key: string, value: binary>>"


def header(name: str, value: Column) -> Column:
    """A header whose value is text."""
    return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))


def ordered(rows: DataFrame, partitions: int) -> DataFrame:
    """One task for each source partition, its records in the order of their offsets: the sink keeps the order of a task."""
    return rows.repartitionByRange(partitions, "partition").sortWithinPartitions("partition", "offset")


def selected(rows: DataFrame, condition: Mapping[str, Any]) -> DataFrame:
    """What of the archive is wanted: by time, by offsets, by key, by header."""
    if condition.get("since") is not None:
        rows = rows.where(F.col("timestamp") >= F.timestamp_millis(F.lit(condition["since"]))).where(
            F.col("date") >= F.to_date(F.timestamp_millis(F.lit(condition["since"])))
        )
    if condition.get("until") is not None:
        rows = rows.where(F.col("timestamp") < F.timestamp_millis(F.lit(condition["until"]))).where(
            F.col("date") <= F.to_date(F.timestamp_millis(F.lit(condition["until"])))
        )
    if condition.get("offsets"):
        wanted = F.lit(False)
        for partition, first, last in condition["offsets"]:
            wanted = wanted | ((F.col("partition") == partition) & F.col("offset").between(first, last))
        rows = rows.where(wanted)
    if condition.get("key") is not None:
        rows = rows.where(F.col("key").cast("string").rlike(condition["key"]))
    for name, value in condition.get("headers", ()):
        rows = rows.where(has_header(name, value))
    return rows


def has_header(name: str, value: str) -> Column:
    """Whether a record has a header of that name whose value, as text, is this."""
    return F.exists("headers", lambda h: (h["key"] == name) & (h["value"].cast("string") == value))


def not_arrived(rows: DataFrame, arrived: DataFrame, topic: str) -> DataFrame:
    """The rows whose origin is not among the headers of records that are in the target already."""
    origin = F.map_from_entries(
        F.filter("headers", lambda h: h["key"].isin("replay.topic", "replay.partition", "replay.offset"))
    )
    there = arrived.where(F.exists("headers", lambda h: h["key"] == "replay.offset")).select(origin.alias("origin"))
    text = {name: F.col("origin")[f"replay.{name}"].cast("string") for name in ("topic", "partition", "offset")}
    there = there.where(text["topic"] == topic).select(
        text["partition"].cast("int").alias("partition"), text["offset"].cast("bigint").alias("offset")
    )
    return rows.join(F.broadcast(there.distinct()), ["partition", "offset"], "left_anti")


# Slices and progress.


def slices(bounds: Mapping[int, tuple[int, int]], size: int) -> Iterator[dict[int, tuple[int, int]]]:
    """Partition -> (first offset, offset after the last), so many offsets of each at a time."""
    turn = 0
    while True:
        piece = {
            partition: (first + turn * size, min(first + (turn + 1) * size, end))
            for partition, (first, end) in bounds.items()
            if first + turn * size < end
        }
        if not piece:
            return
        yield piece
        turn += 1


def in_slice(rows: DataFrame, piece: Mapping[int, tuple[int, int]]) -> DataFrame:
    """The rows of a slice; the lowest and highest offset let Parquet skip what is outside."""
    wanted = F.lit(False)
    for partition, (first, end) in piece.items():
        wanted = wanted | ((F.col("partition") == partition) & (F.col("offset") >= first) & (F.col("offset") < end))
    low, high = min(first for first, _ in piece.values()), max(end for _, end in piece.values())
    return rows.where(F.col("offset").between(low, high - 1)).where(wanted)


class Replay:
    """One replay: what it sends where, and how far it is."""

    def __init__(self, storage: Storage, name: str, plan: dict[str, Any]) -> None:
        self.storage = storage
        self.path = f"{_PROGRESS}/{name}.json"
        self.plan = plan
        self.done = 0  # slices
        self.began: dict[str, int] | None = None  # where the target ended before the slice that is under way
        if storage.exists(self.path):
            known = storage.read_json(self.path)
            if known["plan"] != plan:
                raise JobError(
                    f"replay {name} began with other options: {json.dumps(known['plan'], sort_keys=True)}; choose another --name"
                )
            self.done, self.began = known["done"], known["began"]

    def note(self, done: int, began: dict[str, int] | None) -> None:
        """Keep how far it is."""
        self.done, self.began = done, began
        self.storage.write_json(self.path, {"plan": self.plan, "done": done, "began": began}, overwrite=True)


def run(
    spark: SparkSession,
    replay: Replay,
    rows: DataFrame,
    cluster: Cluster,
    target: Topic,
    options: Mapping[str, str],
    pace: int | None,
) -> int:
    """Send slice after slice; returns the number of records sent."""
    plan, total, begun = replay.plan, 0, time.monotonic()
    bounds = {
        row["partition"]: (row["first"], row["last"] + 1)
        for row in rows.groupBy("partition")
        .agg(F.min("offset").alias("first"), F.max("offset").alias("last"))
        .collect()
    }
    pieces = list(slices(bounds, plan["slice"]))
    if replay.done:
        say(f"going on after slice {replay.done} of {len(pieces)}")
    for number, piece in enumerate(pieces):
        if number < replay.done:
            continue
        wanted = in_slice(rows, piece)
        if replay.began is not None:
            arrived = records_since(spark, target, replay.began, cluster, options)
            wanted = not_arrived(wanted, arrived, plan["topic"])
        else:
            replay.note(number, {str(p): at for p, at in cluster.offsets([target], latest=True)[target.name].items()})
        count = wanted.count()
        ready = sent(ordered(wanted, len(bounds)), plan["keep_partitions"])
        ready.write.format("kafka").options(**options).option("topic", target.name).option(
            "includeHeaders", "true"
        ).save()
        replay.note(number + 1, None)
        total += count
        elapsed = time.monotonic() - begun
        say(f"slice {number + 1} of {len(pieces)}: {total:,} records sent, {total / max(elapsed, 0.001):,.0f}/s")
        if pace and total / pace > elapsed:
            time.sleep(total / pace - elapsed)
    return total


def records_since(
    spark: SparkSession, target: Topic, began: Mapping[str, int], cluster: Cluster, options: Mapping[str, str]
) -> DataFrame:
    """What was appended to the target after the offsets that were noted."""
    reader = (
        spark.read.format("kafka").options(**options).option("includeHeaders", "true").option("subscribe", target.name)
    )
    ends = cluster.offsets([target], latest=True)[target.name]
    reader = reader.option("startingOffsets", json.dumps({target.name: {str(p): began.get(str(p), 0) for p in ends}}))
    return reader.option("endingOffsets", json.dumps({target.name: {str(p): at for p, at in ends.items()}})).load()


# The command.


def moment(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Milliseconds since 1970 from such a number or from an ISO 8601 time (UTC unless it says otherwise)."""
    if value is None or value.isdecimal():
        return None if value is None else int(value)
    try:
        at = datetime.datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is neither a time such as 2026-11-18T12:00 nor milliseconds since 1970"
        ) from None
    return round((at if at.tzinfo else at.replace(tzinfo=datetime.UTC)).timestamp() * 1000)


def offset_ranges(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> list[list[int]]:
    """[[partition, first, last]] from 0:100-200."""
    found = []
    for text in value:
        matched = _RANGE.fullmatch(text)
        if matched is None:
            raise click.BadParameter(f"{text!r} is not of the form PARTITION:FIRST-LAST")
        found.append([int(matched[1]), int(matched[2] or 0), int(matched[3] or 2**63 - 1)])
    return found


def header_pairs(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> list[list[str]]:
    """[[name, value]] from NAME=VALUE."""
    pairs = [text.partition("=") for text in value]
    if any(not equals for _, equals, _ in pairs):
        raise click.BadParameter("not of the form NAME=VALUE")
    return [[name, wanted] for name, _, wanted in pairs]


@click.command("replay")
@click.argument("topic")
@click.option("--from", "uri", required=True, metavar="URI", help="The archive.")
@click.option("--to", "target_name", required=True, metavar="TOPIC", help="The topic to write to; it must be there.")
@click.option(
    "--name", default=None, help="Of this replay: the same name goes on where it was ended.  [default: TOPIC-to-TARGET]"
)
@click.option("--since", callback=moment, metavar="TIME", help="Records at or after this time only.")
@click.option("--until", callback=moment, metavar="TIME", help="Records before this time only.")
@click.option(
    "--offsets",
    multiple=True,
    callback=offset_ranges,
    metavar="PARTITION:FIRST-LAST",
    help="These offsets only; both ends may be left out.",
)
@click.option("--key", metavar="REGEX", help="Records whose key, as text, has this in it.")
@click.option(
    "--header", "headers", multiple=True, callback=header_pairs, metavar="NAME=VALUE", help="Records with this header."
)
@click.option(
    "--by-key", is_flag=True, help="Let the key choose the partition, for a target with another number of them."
)
@click.option("--rate", type=int, metavar="RECORDS", help="At most so many records per second, on average.")
@click.option(
    "--slice",
    "slice_offsets",
    type=int,
    default=200_000,
    show_default=True,
    help="Offsets of each partition between two notes of progress.",
)
@kafka_options
@master_option
def main(
    topic: str,
    uri: str,
    target_name: str,
    name: str | None,
    by_key: bool,
    rate: int | None,
    slice_offsets: int,
    bootstrap: str,
    properties: tuple[str, ...],
    master: str | None,
    **condition: Any,
) -> None:
    """Write an archived topic, or a part of it, into a topic.

    Order is kept per partition. Each record carries where it came from in headers (replay.topic, replay.partition, replay.offset,
    replay.timestamp). A replay that was ended goes on when it is called again with the same options.
    """
    name = name or f"{topic}-to-{target_name}"
    if not _NAME.fullmatch(name):
        raise click.BadParameter(f"{name!r}: letters, digits, '.', '_' and '-' only", param_hint="--name")
    options = client_options(bootstrap, properties)
    with session("replay", master) as spark:
        storage = Storage(spark, uri)
        state = load_existing(storage)
        rows = selected(read_archive(spark, storage, state, topic), condition)
        if rate:
            slice_offsets = min(slice_offsets, max(1, 2 * rate // max(1, len(state.topics[topic].until))))
        with Cluster(spark, options) as cluster:
            target = cluster.topics([target_name])[target_name]
            sources = state.topics[topic].until
            if not by_key and max(sources, default=0) >= len(target.partitions):
                raise JobError(
                    f"{topic} had {len(sources)} partitions, {target_name} has {len(target.partitions)}: --by-key lets the key choose"
                )
            plan = {
                "topic": topic,
                "target": target_name,
                "target_id": target.id,
                "cluster": cluster.id(),
                "keep_partitions": not by_key,
            }
            plan |= {
                "slice": slice_offsets,
                "archive": {str(p): at for p, at in sources.items()},
                "condition": condition,
            }
            replay = Replay(storage, name, json.loads(json.dumps(plan)))
            total = run(spark, replay, rows, cluster, target, options, rate)
        say(f"{total:,} records of {topic} sent to {target_name}")


if __name__ == "__main__":
    main()
