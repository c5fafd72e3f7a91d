"""audit: a topic against its archive, partition by partition: counts, holes, duplicates, checksums.

Both sides are reduced to a few numbers per partition; only where they differ the offsets are compared one by one. Compared are the
offsets that both can have: from where the archive or the topic begins, whichever is later, to where the archive ends. What retention has
deleted from the topic is still checked for duplicates; what the topic has behind the archive's end is shown as not archived yet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from spark_jobs.archive_files import State, check_same, load_existing, read_archive
from spark_jobs.cluster import Cluster
from spark_jobs.columns import F
from spark_jobs.session import JobError, client_options, kafka_options, master_option, say, session
from spark_jobs.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOSS = 1
_EXAMPLES = 5


class Verdict(NamedTuple):
    """What was found in one partition."""

    topic: str
    partition: int
    first: int
    until: int
    in_topic: int
    in_archive: int
    missing: int
    surplus: int
    duplicates: int
    differing: int
    not_archived: int
    lost_before: int  # offsets that an --allow-loss archive notes as gaps

    @property
    def is_loss(self) -> bool:
        return bool(self.missing or self.duplicates or self.differing)

    @property
    def word(self) -> str:
        """In one word. What only the archive has was deleted from the topic since, by compaction as a rule: no loss, but worth a look."""
        return "LOSS" if self.is_loss else "surplus" if self.surplus else "ok"


# Transforms.


def with_checksum(records: DataFrame) -> DataFrame:
    """Each record with a hash over all that it is. What is null and what is empty differ, and so do a header's name and value."""
    headers = F.to_json(
        F.struct(F.transform("headers", lambda h: F.struct(h["key"], F.hex(h["value"])))), {"ignoreNullFields": "false"}
    )
    # Spark's hash skips nulls, so that (null, x) and (x, null) were the same without saying which is null.
    parts = [
        F.col("key").isNull(),
        "key",
        F.col("value").isNull(),
        "value",
        F.when(F.size("headers") > 0, headers).otherwise(""),
    ]
    return records.select(
        "partition", "offset", F.xxhash64(*parts, "timestamp", "timestampType", "offset").alias("checksum")
    )


def summed(checksums: DataFrame) -> DataFrame:
    """One row for each partition: records, distinct offsets, and the checksums in a sum that does not depend on the order."""
    return checksums.groupBy("partition").agg(
        F.count("*").alias("records"),
        F.count_distinct("offset").alias("offsets"),
        F.sum(F.col("checksum").cast("decimal(38,0)")).alias("sum"),
    )


def compared(topic: DataFrame, archive: DataFrame) -> DataFrame:
    """One row for each offset at which the two sides are not the same."""
    there = topic.select("partition", "offset", F.col("checksum").alias("in_topic"))
    kept = archive.groupBy("partition", "offset").agg(
        F.min("checksum").alias("in_archive"), F.count("*").alias("copies")
    )
    both = there.join(kept, ["partition", "offset"], "full")
    same = F.col("in_topic").eqNullSafe(F.col("in_archive")) & (F.col("copies") == 1)
    return both.where(~same)


def within(records: DataFrame, ranges: Mapping[int, tuple[int, int]]) -> DataFrame:
    """The records of these offsets."""
    wanted = F.lit(False)
    for partition, (first, until) in ranges.items():
        wanted = wanted | ((F.col("partition") == partition) & (F.col("offset") >= first) & (F.col("offset") < until))
    return records.where(wanted)


# The comparison.


def audit(
    spark: SparkSession, storage: Storage, state: State, cluster: Cluster, topic: str, options: Mapping[str, str]
) -> list[Verdict]:
    """A verdict for each partition that the archive has."""
    known = state.topics[topic]
    described = cluster.topics([topic])[topic]
    earliest = cluster.offsets([described], latest=False)[topic]
    latest = cluster.offsets([described], latest=True)[topic]
    archive = with_checksum(read_archive(spark, storage, state, topic)).persist()
    copies = {row["partition"]: row["records"] - row["offsets"] for row in summed(archive).collect()}
    ranges = {}
    for partition, until in known.until.items():
        if until > latest.get(partition, 0):
            raise JobError(
                f"{topic}-{partition} ends at offset {latest.get(partition, 0)}, before {until} which the archive has: the topic lost records"
            )
        ranges[partition] = (min(max(known.first[partition], earliest[partition]), until), until)
    source = with_checksum(topic_records(spark, topic, ranges, earliest, options))
    archived = within(archive, ranges)
    left = {row["partition"]: row for row in summed(source).collect()}
    right = {row["partition"]: row for row in summed(archived).collect()}
    differing = [partition for partition in ranges if left.get(partition) != right.get(partition)]
    details = _details(source, archived, differing) if differing else {}
    verdicts = []
    for partition, (first, until) in sorted(ranges.items()):
        detail = details.get(partition, {})
        gaps = sum(end - begin for number, begin, end in known.gaps if number == partition)
        verdicts.append(
            Verdict(
                topic, partition, first, until,
                left[partition]["records"] if partition in left else 0,
                right[partition]["records"] if partition in right else 0,
                detail.get("missing", 0), detail.get("surplus", 0), copies.get(partition, 0), detail.get("differing", 0),
                latest[partition] - until, gaps,
            )
        )  # fmt: skip
    new = latest.keys() - known.until.keys()
    verdicts += [
        Verdict(topic, partition, 0, 0, 0, 0, 0, 0, 0, 0, latest[partition] - earliest[partition], 0)
        for partition in sorted(new)
    ]
    archive.unpersist()
    return verdicts


def topic_records(
    spark: SparkSession,
    topic: str,
    ranges: Mapping[int, tuple[int, int]],
    earliest: Mapping[int, int],
    options: Mapping[str, str],
) -> DataFrame:
    """The topic's records of the ranges; of partitions that the archive does not know, none."""
    starts = {str(partition): ranges.get(partition, (begin, begin))[0] for partition, begin in earliest.items()}
    ends = {str(partition): ranges.get(partition, (begin, begin))[1] for partition, begin in earliest.items()}
    reader = spark.read.format("kafka").options(**options).option("subscribe", topic).option("includeHeaders", "true")
    return (
        reader.option("startingOffsets", json.dumps({topic: starts}))
        .option("endingOffsets", json.dumps({topic: ends}))
        .load()
    )


def _details(source: DataFrame, archived: DataFrame, partitions: Sequence[int]) -> dict[int, dict[str, int]]:
    """Where the sums differ: how many offsets are missing, surplus or different, with examples for people."""
    only = F.col("partition").isin(list(partitions))
    found = compared(source.where(only), archived.where(only)).persist()
    missing, surplus = F.col("in_archive").isNull(), F.col("in_topic").isNull()
    kind = (
        F.when(missing, "missing")
        .when(surplus, "surplus")
        .when(F.col("in_topic") != F.col("in_archive"), "differing")
        .otherwise("copied")
    )
    details: dict[int, dict[str, int]] = {}
    for row in (
        found.groupBy("partition", kind.alias("kind"))
        .agg(F.count("*").alias("n"), F.slice(F.sort_array(F.collect_list("offset")), 1, _EXAMPLES).alias("offsets"))
        .collect()
    ):
        details.setdefault(row["partition"], {})[row["kind"]] = row["n"]
        more = ", ..." if row["n"] > _EXAMPLES else ""
        say(
            f"partition {row['partition']}: {row['n']:,} {row['kind']}: offsets {', '.join(map(str, row['offsets']))}{more}"
        )
    found.unpersist()
    return details


def table(verdicts: Sequence[Verdict]) -> str:
    """The verdicts for people."""
    head = (
        "topic",
        "partition",
        "offsets",
        "in topic",
        "in archive",
        "missing",
        "surplus",
        "duplicates",
        "differing",
        "not archived",
        "lost before",
        "",
    )
    rows: list[tuple[Any, ...]] = [head]
    for v in verdicts:
        numbers = (
            v.in_topic,
            v.in_archive,
            v.missing,
            v.surplus,
            v.duplicates,
            v.differing,
            v.not_archived,
            v.lost_before,
        )
        rows.append(
            (
                v.topic,
                v.partition,
                f"{v.first}-{v.until}",
                *(f"{number:,}" for number in numbers),
                v.word,
            )
        )
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            str(cell).ljust(width) if column == 0 else str(cell).rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


@click.command("audit")
@click.argument("topics", nargs=-1, metavar="[TOPICS]...")
@click.option("--archive", "uri", required=True, metavar="URI", help="The archive.")
@click.option("--complete", is_flag=True, help="What is not archived yet counts as loss too.")
@kafka_options
@master_option
@click.pass_context
def main(
    ctx: click.Context,
    topics: tuple[str, ...],
    uri: str,
    complete: bool,
    bootstrap: str,
    properties: tuple[str, ...],
    master: str | None,
) -> None:
    """Compare topics with their archive.

    Counts, holes, duplicates and checksums, partition by partition: prints a table, and exits with 1 when anything is missing, doubled or
    different. What only the archive has (surplus) was deleted from the topic since. Without TOPICS: all that the archive has.
    """
    with session("audit", master) as spark:
        storage = Storage(spark, uri)
        state = load_existing(storage)
        options = client_options(bootstrap, properties, state.committed_only)
        wanted = list(topics) or sorted(state.topics)
        unknown = [topic for topic in wanted if topic not in state.topics]
        if unknown:
            raise JobError(
                f"no topic {', '.join(unknown)} in {storage.uri}; there are: {', '.join(sorted(state.topics)) or 'none'}"
            )
        with Cluster(spark, options) as cluster:
            check_same(state, cluster.id(), cluster.topics(wanted).values(), storage.uri)
            verdicts = []
            for topic in wanted:
                say(f"comparing {topic}")
                verdicts += audit(spark, storage, state, cluster, topic, options)
    click.echo(table(verdicts))
    if any(verdict.is_loss or (complete and verdict.not_archived) for verdict in verdicts):
        ctx.exit(LOSS)


if __name__ == "__main__":
    main()
