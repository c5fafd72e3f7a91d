"""Records as events that SQL can speak about, and streams from topic to topic: what transform and split have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from spark_jobs.cluster import Cluster
from spark_jobs.columns import F
from spark_jobs.session import JobError, follow, say
from spark_jobs.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BAD = "_not_of_this_schema"
FAIL, DROP = "fail", "drop"


def events(records: DataFrame, schema: str | None) -> DataFrame:
    """Rows of the kafka source with key and value as text (raw_key, raw_value: their bytes), and with a schema `v`: the value's JSON.

    A value that is no JSON of that schema has `bad` true. A value that is null is a tombstone, and not bad.
    """
    text = records.select(
        F.col("key").cast("string").alias("key"),
        F.col("value").cast("string").alias("value"),
        F.col("key").alias("raw_key"),
        F.col("value").alias("raw_value"),
        "headers",
        "topic",
        "partition",
        "offset",
        "timestamp",
    )
    if schema is None:
        return text.withColumn("bad", F.lit(False))
    parsed = F.from_json("value", f"{schema}, {_BAD} string", {"columnNameOfCorruptRecord": _BAD, "mode": "PERMISSIVE"})
    bad = F.col("value").isNotNull() & (F.col("v").isNull() | F.col(f"v.{_BAD}").isNotNull())
    rows = text.withColumn("v", parsed).withColumn("bad", bad)
    return rows.withColumn("v", F.col("v").dropFields(_BAD))


def good(rows: DataFrame, on_bad: str) -> DataFrame:
    """The events that are what the schema says; with `fail` the first other one ends the job, and its message says which it was."""
    if on_bad != FAIL:
        return rows.where(~F.col("bad")).drop("bad")
    where = F.format_string(
        "schema drift: the value at %s-%d offset %d is not of the schema", "topic", "partition", "offset"
    )
    return rows.where(F.when(F.col("bad"), F.raise_error(where).cast("boolean")).otherwise(True)).drop("bad")


def bad(rows: DataFrame, topic: str) -> DataFrame:
    """The other events, untouched, for a topic of their own; a header says where each came from."""
    origin = F.format_string("%s-%d@%d", "topic", "partition", "offset").cast("binary")
    mark = F.array(F.struct(F.lit("origin").alias("key"), origin.alias("value")))
    headers = F.concat(F.coalesce("headers", F.array().cast("array<struct<key: string, value: binary>>")), mark)
    return rows.where("bad").select(
        F.col("raw_key").alias("key"),
        F.col("raw_value").alias("value"),
        headers.alias("headers"),
        F.lit(topic).alias("topic"),
    )


# Streams.


def stream_options(function: Any) -> Any:
    """What transform and split have in common on the command line."""
    for option in (
        click.option(
            "--every",
            "every_s",
            type=float,
            metavar="SECONDS",
            help="Go on until stopped, one batch every so often.  [default: catch up and end]",
        ),
        click.option(
            "--bad",
            "on_bad",
            default=FAIL,
            show_default=True,
            metavar="fail|drop|TOPIC",
            help="What to do with values that are not of the schema.",
        ),
        click.option(
            "--schema",
            metavar="DDL",
            help="The values are JSON of this schema, such as 'region string, amount double'; SQL sees it as v.",
        ),
        click.option(
            "--checkpoint", "checkpoint", required=True, metavar="URI", help="Where the job notes how far it is."
        ),
    ):
        function = option(function)
    return function


def source(spark: SparkSession, topic: str, options: Mapping[str, str]) -> DataFrame:
    """The topic as a stream, from its start or from the checkpoint."""
    reader = spark.readStream.format("kafka").options(**options).option("subscribe", topic)
    return reader.option("startingOffsets", "earliest").option("includeHeaders", "true").load()


def prepare(storage: Storage, cluster: Cluster, topic: str, targets: list[str], plan: Mapping[str, Any]) -> None:
    """The topics are there, no topic flows into itself, and the checkpoint is this job's own; else JobError, before anything runs."""
    if topic in targets:
        raise JobError(f"{topic} would flow into itself")
    found = cluster.topics([topic, *targets])
    document = json.loads(json.dumps({**plan, "cluster": cluster.id(), "topic": topic, "topic_id": found[topic].id}))
    if storage.exists("job.json"):
        known = storage.read_json("job.json")
        differing = sorted(key for key in known.keys() | document.keys() if known.get(key) != document.get(key))
        if differing:
            raise JobError(
                f"{storage.uri} is the checkpoint of a job with another {', '.join(differing)}; choose another folder"
            )
        say(f"going on from {storage.uri}")
    else:
        if storage.exists("spark"):
            raise JobError(f"{storage.uri} is no checkpoint of this job")
        storage.write_json("job.json", document)


def run(
    rows: DataFrame, options: Mapping[str, str], storage: Storage, every_s: float | None, mode: str = "append"
) -> None:
    """Write rows (key, value, headers, topic) to their topics. Spark's sink may write the last batch again after a crash."""
    writer = rows.writeStream.format("kafka").outputMode(mode).options(**options).option("includeHeaders", "true")
    writer = writer.option("checkpointLocation", storage.full("spark"))
    trigger = (
        writer.trigger(availableNow=True) if every_s is None else writer.trigger(processingTime=f"{every_s} seconds")
    )
    follow(trigger.start(), "records read")
