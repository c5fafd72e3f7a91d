"""transform: events on the fly from topic to topic: filter, project, aggregate by event time, or any SQL over the view `events`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from spark_jobs.cluster import Cluster
from spark_jobs.columns import F
from spark_jobs.events import DROP, FAIL, bad, events, good, prepare, run, source, stream_options
from spark_jobs.session import client_options, kafka_options, master_option, session
from spark_jobs.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_AS_THEY_ARE = ("key", "headers")


def with_watermark(rows: DataFrame, time: str | None, watermark: str | None) -> DataFrame:
    """Events with `event_time`, the record's timestamp unless an expression says better; later ones than the watermark are left out."""
    rows = rows.withColumn("event_time", F.expr(time) if time else F.col("timestamp"))
    return rows.withWatermark("event_time", watermark) if watermark else rows


def query_of(sql: str | None, select: str | None, where: str | None) -> str:
    """The SQL text that the options stand for."""
    if sql is not None:
        if select is not None or where is not None:
            raise click.UsageError("--sql says all; --select and --where are for doing without it")
        return sql
    return f"SELECT {select or 'raw_key AS key, raw_value AS value, headers'} FROM events" + (
        f" WHERE {where}" if where else ""
    )


def as_records(rows: DataFrame, topic: str) -> DataFrame:
    """The result of a query as records: its `key`, `value` and `headers` if it has them, else all other columns as one JSON value."""
    others = [name for name in rows.columns if name not in _AS_THEY_ARE]
    value = in_bytes(rows, "value") if "value" in rows.columns else F.to_json(F.struct(*others)).cast("binary")
    key = in_bytes(rows, "key") if "key" in rows.columns else F.lit(None).cast("binary")
    kind = "array<struct<key: string, value: binary>>"
    headers = F.col("headers").cast(kind) if "headers" in rows.columns else F.lit(None).cast(kind)
    return rows.select(key.alias("key"), value.alias("value"), headers.alias("headers"), F.lit(topic).alias("topic"))


def in_bytes(rows: DataFrame, name: str) -> Column:
    """Bytes as they are, anything else as text."""
    is_bytes = dict(rows.dtypes)[name] == "binary"
    return F.col(name) if is_bytes else F.col(name).cast("string").cast("binary")


def transformed(
    records: DataFrame, topic: str, sql: str, schema: str | None, on_bad: str, time: str | None, watermark: str | None
) -> DataFrame:
    """From rows of the kafka source to rows for its sink."""
    rows = events(records, schema)
    with_watermark(good(rows, on_bad), time, watermark).createOrReplaceTempView("events")
    result = as_records(records.sparkSession.sql(sql), topic)
    return result if on_bad in (FAIL, DROP) else result.unionByName(bad(rows, on_bad))


@click.command("transform")
@click.argument("topic")
@click.option("--to", "target", required=True, metavar="TOPIC", help="The topic to write to; it must be there.")
@click.option("--where", metavar="SQL", help="Keep the events for which this is true.")
@click.option(
    "--select",
    metavar="SQL",
    help="These columns; key, value and headers are taken as such, all others become one JSON value.",
)
@click.option("--sql", metavar="SQL", help="A whole query over the view events, for aggregates.")
@click.option("--time", metavar="SQL", help="The event time, seen as event_time.  [default: the record's timestamp]")
@click.option(
    "--watermark", metavar="DURATION", help="How late an event may be, such as '10 minutes'; aggregates need one."
)
@click.option(
    "--mode",
    default="append",
    show_default=True,
    type=click.Choice(["append", "update"]),
    help="Emit a window once, when it is over, or at each change.",
)
@stream_options
@kafka_options
@master_option
def main(
    topic: str,
    target: str,
    where: str | None,
    select: str | None,
    sql: str | None,
    time: str | None,
    watermark: str | None,
    mode: str,
    schema: str | None,
    checkpoint: str,
    on_bad: str,
    every_s: float | None,
    bootstrap: str,
    properties: tuple[str, ...],
    master: str | None,
) -> None:
    """Turn the events of one topic into those of another, as they come.

    SQL sees key and value as text, headers, topic, partition, offset, timestamp and event_time, and with --schema the fields of v. How far
    it is stands in the checkpoint: ended in any way, it goes on when it is called again. After a crash the last batch may be written twice.
    """
    text = query_of(sql, select, where)
    options = client_options(bootstrap, properties)
    with session("transform", master) as spark:
        storage = Storage(spark, checkpoint)
        with Cluster(spark, options) as cluster:
            targets = [target] if on_bad in (FAIL, DROP) else [target, on_bad]
            rows = transformed(source(spark, topic, options), target, text, schema, on_bad, time, watermark)
            plan = {"sql": text, "schema": schema, "to": targets, "time": time, "watermark": watermark, "mode": mode}
            prepare(storage, cluster, topic, targets, plan)
        run(rows, options, storage, every_s, mode)


if __name__ == "__main__":
    main()
