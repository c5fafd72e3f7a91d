"""stats: throughput, sizes, keys, lag and lateness per topic and window, as a table, to a topic, to Parquet, and as plots for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_jobs.archive_files import load_existing, read_archive
from spark_jobs.cluster import Cluster
from spark_jobs.columns import F
from spark_jobs.events import events
from spark_jobs.plots import page
from spark_jobs.session import JobError, client_options, kafka_options, master_option, say, session
from spark_jobs.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

_WINDOWS_SHOWN = 40
_WINDOWS_PLOTTED = 5_000


# Transforms.


def measured(rows: DataFrame, event_time: str | None) -> DataFrame:
    """Each record with what is counted: its size, how late it is (behind the latest before it in its partition), and its lag.

    Lag is from the event time, where an expression says it, to the record's timestamp.
    """
    from pyspark.sql import Window

    before = Window.partitionBy("topic", "partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    at = F.unix_millis("timestamp")
    lag = (at - F.unix_millis(F.expr(event_time).cast("timestamp"))) if event_time else F.lit(None).cast("bigint")
    size = F.coalesce(F.length("raw_key"), F.lit(0)) + F.coalesce(F.length("raw_value"), F.lit(0))
    late = F.greatest(F.coalesce(F.max(at).over(before) - at, F.lit(0)), F.lit(0))
    return rows.select(
        "topic", "timestamp", "raw_key", "raw_value", size.alias("size"), late.alias("late_ms"), lag.alias("lag_ms")
    )


def summarised(rows: DataFrame, window: str) -> DataFrame:
    """One row for each topic and window."""
    groups = rows.groupBy("topic", F.window("timestamp", window).alias("window"))

    def percentiles(column: str) -> tuple:
        return (
            F.percentile_approx(column, 0.5, 1000).alias(f"{column}_p50"),
            F.percentile_approx(column, 0.99, 1000).alias(f"{column}_p99"),
            F.max(column).alias(f"{column}_max"),
        )

    counted = groups.agg(
        F.count("*").alias("records"),
        F.sum("size").alias("bytes"),
        *percentiles("size"),
        F.approx_count_distinct("raw_key").alias("keys"),
        F.count_if(F.col("raw_value").isNull()).alias("tombstones"),
        F.count_if(F.col("late_ms") > 0).alias("late"),
        *percentiles("late_ms"),
        *percentiles("lag_ms"),
    )
    seconds = F.unix_millis(F.col("window.end")) / 1000 - F.unix_millis(F.col("window.start")) / 1000
    rates = counted.withColumn("records_s", F.col("records") / seconds).withColumn("bytes_s", F.col("bytes") / seconds)
    named = rates.withColumn("start", F.col("window.start")).withColumn("end", F.col("window.end")).drop("window")
    return named.orderBy("topic", "start")


def as_records(rows: DataFrame) -> DataFrame:
    """The rows as records: the topic they speak about is the key."""
    return rows.select(F.col("topic").alias("key"), F.to_json(F.struct(*rows.columns)).alias("value"))


# Sources.


def from_broker(spark: SparkSession, topics: tuple[str, ...], options: Mapping[str, str]) -> DataFrame:
    """The topics as they are in the broker."""
    with Cluster(spark, options) as cluster:
        cluster.topics(topics)
    reader = spark.read.format("kafka").options(**options).option("subscribe", ",".join(topics))
    return reader.option("includeHeaders", "true").load()


def from_archive(spark: SparkSession, uri: str, topics: tuple[str, ...]) -> DataFrame:
    """The topics as they are in an archive."""
    storage = Storage(spark, uri)
    state = load_existing(storage)
    rows = None
    for topic in topics:
        part = read_archive(spark, storage, state, topic)
        rows = part if rows is None else rows.unionByName(part)
    assert rows is not None, "the command line asks for a topic at least"
    return rows


def from_segments(spark: SparkSession, path: str, topics: tuple[str, ...]) -> DataFrame:
    """The topics as they are in a data folder."""
    from spark_jobs.log_source import register

    register(spark)
    reader = spark.read.format("kafkapy-log").option("subscribe", ",".join(topics)).option("includeHeaders", "true")
    return reader.load(path)


def group_lag(cluster: Cluster, group: str, topics: tuple[str, ...]) -> str:
    """How far a consumer group is behind, a line for each partition."""
    found = cluster.topics(topics)
    ends, committed = cluster.offsets(found.values(), latest=True), cluster.group_offsets(group)
    if not committed:
        raise JobError(f"group {group} has committed nothing")
    lines = ["topic  partition  committed  end  lag"]
    for topic in topics:
        for partition, end in ends[topic].items():
            at = committed.get(topic, {}).get(partition)
            lines.append(f"{topic}  {partition}  {'-' if at is None else at}  {end}  {'-' if at is None else end - at}")
    return "\n".join(lines)


@click.command("stats")
@click.argument("topics", nargs=-1, required=True, metavar="TOPICS...")
@click.option("--window", default="1 minute", show_default=True, metavar="DURATION", help="The length of a window.")
@click.option("--archive", metavar="URI", help="Read an archive instead of the broker.")
@click.option("--segments", metavar="FOLDER", help="Read a data folder instead of the broker.")
@click.option("--schema", metavar="DDL", help="The values are JSON of this schema; --event-time sees it as v.")
@click.option("--event-time", metavar="SQL", help="When an event happened; lag is from then to the record's timestamp.")
@click.option("--group", help="Show how far this consumer group is behind too.")
@click.option("--to-topic", metavar="TOPIC", help="Write the rows to a topic, as JSON.")
@click.option("--parquet", metavar="URI", help="Write the rows as Parquet to a folder that is not there yet.")
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Plots, in one file without dependencies.",
)
@kafka_options
@master_option
def main(
    topics: tuple[str, ...],
    window: str,
    archive: str | None,
    segments: str | None,
    schema: str | None,
    event_time: str | None,
    group: str | None,
    to_topic: str | None,
    parquet: str | None,
    html: Path | None,
    bootstrap: str,
    properties: tuple[str, ...],
    master: str | None,
) -> None:
    """Show what goes through topics, window by window.

    Records, bytes, sizes, keys, lateness (behind the latest before it in its partition) and lag (from --event-time to the timestamp).
    """
    if archive and segments:
        raise click.UsageError("--archive or --segments, not both")
    options = client_options(bootstrap, properties)
    with session("stats", master) as spark:
        if archive:
            records = from_archive(spark, archive, topics)
        elif segments:
            records = from_segments(spark, segments, topics)
        else:
            records = from_broker(spark, topics, options)
        say(f"counting {', '.join(topics)}")
        rows = summarised(measured(events(records, schema), event_time), window).persist()
        if parquet:
            rows.write.mode("error").parquet(parquet)
            say(f"written to {parquet}")
        if to_topic:
            with Cluster(spark, options) as cluster:
                cluster.topics([to_topic])
            as_records(rows).write.format("kafka").options(**options).option("topic", to_topic).save()
            say(f"written to topic {to_topic}")
        if html:
            html.write_text(page([row.asDict() for row in rows.limit(_WINDOWS_PLOTTED).collect()], window))
            say(f"plots in {html}")
        rows.select(
            "topic",
            "start",
            "records",
            "records_s",
            "bytes_s",
            "size_p50",
            "size_p99",
            "keys",
            "late",
            "late_ms_p99",
            "lag_ms_p99",
        ).show(_WINDOWS_SHOWN, truncate=False)
        if group:
            with Cluster(spark, options) as cluster:
                click.echo(group_lag(cluster, group, topics))


if __name__ == "__main__":
    main()
