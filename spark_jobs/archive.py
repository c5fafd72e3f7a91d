"""archive: topics to Parquet by topic and date, each record exactly once, whatever is killed and restarted.

The records stream through Spark's kafka source. A micro-batch is written into the archive's staging folder, its files are moved into
place, and one new state file makes them and the offsets that they reach valid together (archive_files.py). A run begins where the
newest state ends, so the archive itself is the checkpoint: Spark's own is made anew by each run and is worth nothing afterwards.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from spark_jobs.archive_files import (
    STAGING,
    State,
    TopicState,
    check_same,
    clean,
    commit,
    load,
    read_files,
    take_in,
    take_over,
)
from spark_jobs.cluster import Cluster
from spark_jobs.columns import F
from spark_jobs.session import JobError, client_options, follow, kafka_options, master_option, say, session
from spark_jobs.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MEGABYTE = 1024 * 1024


# Transforms.


def archived(records: DataFrame) -> DataFrame:
    """Rows of the kafka source as an archive keeps them: all of it, and the day (UTC) of the timestamp."""
    return records.select(
        "key",
        "value",
        "headers",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "topic",
        F.to_date("timestamp").alias("date"),
    )


def merged(rows: DataFrame, files: int) -> DataFrame:
    """The same rows in so many files, in the order of their offsets."""
    return rows.repartitionByRange(files, "partition", "offset").sortWithinPartitions("partition", "offset")


# One commit.


class Archiver:
    """Turns each micro-batch of one run into one commit."""

    def __init__(
        self, storage: Storage, state: State, owner: str, cluster: Cluster, checkpoint: str, compression: str
    ) -> None:
        self.storage = storage
        self.owner = owner
        self.state = state
        self.cluster = cluster
        self.checkpoint = checkpoint
        self.compression = compression

    def add(self, batch: DataFrame, batch_id: int) -> None:
        """Called by Spark for each micro-batch. When it ends, the batch is in the archive; when it is killed, nothing is."""
        number = self.state.number + 1
        staged = f"{STAGING}/{number:012d}"
        self.storage.delete(staged)
        parallelism = batch.sparkSession.sparkContext.defaultParallelism
        write(archived(batch).coalesce(2 * parallelism), self.storage.full(staged), self.compression)
        self._note_offsets(batch_id)
        self.state.files.update(take_in(self.storage, staged, "batch", number))
        self.state.number = number
        commit(self.storage, self.state, self.owner)

    def _note_offsets(self, batch_id: int) -> None:
        """Spark writes where a micro-batch ends into the run's checkpoint before it begins with it."""
        for topic, ends in batch_ends(self.storage, f"{self.checkpoint}/offsets/{batch_id}").items():
            if topic not in self.state.topics:
                self.state.topics[topic] = TopicState(self.cluster.topics([topic])[topic].id)
            known = self.state.topics[topic]
            if new := ends.keys() - known.first.keys():
                earliest = self.cluster.offsets([self.cluster.topics([topic])[topic]], latest=False)[topic]
                known.first.update({partition: min(earliest[partition], ends[partition]) for partition in new})
            known.until.update(ends)


def batch_ends(storage: Storage, path: str) -> dict[str, dict[int, int]]:
    """Topic -> partition -> offset from a file of Spark's offset log: a version, a line of metadata, one line for the source."""
    lines = storage.read_lines(path)
    offsets = json.loads(lines[2])
    return {topic: {int(number): int(offset) for number, offset in rows.items()} for topic, rows in offsets.items()}


def write(rows: DataFrame, uri: str, compression: str) -> None:
    """Write a folder of Parquet files by topic and date."""
    writer = rows.write.mode("error").option("compression", compression)
    writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").partitionBy("topic", "date").parquet(uri)


# Where a run begins.


def starting_offsets(
    state: State, earliest: Mapping[str, Mapping[int, int]], latest: Mapping[str, Mapping[int, int]], allow_loss: bool
) -> dict[str, dict[int, int]]:
    """What Spark's source takes: each partition from where the archive ends, new ones from their start."""
    starts: dict[str, dict[int, int]] = {}
    for topic, partitions in earliest.items():
        known = state.topics[topic]
        for partition, begin in partitions.items():
            at = known.until.get(partition)
            if at is None:
                known.first[partition] = at = begin
            elif at < begin:
                _note_loss(known, topic, partition, at, begin, allow_loss)
                at = begin
            elif at > latest[topic][partition]:
                raise JobError(
                    f"{topic}-{partition} ends at offset {latest[topic][partition]}, before {at} which the archive has already: "
                    "the topic has lost records, or the archive is another one's"
                )
            starts.setdefault(topic, {})[partition] = at
    return starts


def _note_loss(known: TopicState, topic: str, partition: int, at: int, begin: int, allow_loss: bool) -> None:
    if not allow_loss:
        raise JobError(
            f"the offsets {at} to {begin - 1} of {topic}-{partition} were deleted before they were archived; "
            "--allow-loss notes the gap and goes on"
        )
    say(f"{topic}-{partition}: offsets {at} to {begin - 1} are lost")
    known.gaps.append([partition, at, begin])


# Merging small files.


def merge(spark: SparkSession, storage: Storage, state: State, owner: str, target_bytes: int, compression: str) -> int:
    """Make few files of many small ones, one commit for each folder; returns how many files are gone. A kill leaves the old ones valid."""
    gone = 0
    for folder, small in sorted(small_files(state.files, target_bytes).items()):
        rows = read_files(spark, storage, [storage.full(path) for path in small])
        total = sum(state.files[path] for path in small)
        number, before = state.number + 1, rows.count()
        staged = f"{STAGING}/{number:012d}"
        storage.delete(staged)
        write(merged(rows, math.ceil(total / target_bytes)), storage.full(staged), compression)
        after = spark.read.parquet(storage.full(staged)).count()
        if after != before:
            raise JobError(f"{folder}: {after} records after merging {before}; nothing was changed")
        added = take_in(storage, staged, "merge", number)
        state.files = {path: size for path, size in state.files.items() if path not in small} | added
        state.number = number
        commit(storage, state, owner)
        for path in small:
            storage.delete(path)
        gone += len(small) - len(added)
        say(f"{folder}: {len(small)} files are {len(added)} now")
    return gone


def small_files(files: Mapping[str, int], target_bytes: int) -> dict[str, list[str]]:
    """Folder -> files smaller than half of the target, where there are several of them."""
    folders: dict[str, list[str]] = {}
    for path, size in files.items():
        if size < target_bytes / 2:
            folders.setdefault(path.rpartition("/")[0], []).append(path)
    return {folder: paths for folder, paths in folders.items() if len(paths) > 1}


# The command.


@click.command("archive")
@click.argument("topics", nargs=-1, metavar="[TOPICS]...")
@click.option("--to", "uri", required=True, metavar="URI", help="The archive: a folder, hdfs://... or s3a://...")
@click.option("--committed", is_flag=True, help="Committed transactions only (read_committed).")
@click.option(
    "--follow",
    "every_s",
    type=float,
    metavar="SECONDS",
    help="Go on until stopped, one batch every so often.  [default: catch up and end]",
)
@click.option(
    "--batch",
    "batch_records",
    type=int,
    default=5_000_000,
    show_default=True,
    help="At most so many offsets in one batch.",
)
@click.option(
    "--merge", "merge_mb", type=int, metavar="MB", help="Afterwards make files of about this size of the small ones."
)
@click.option(
    "--compression",
    default="zstd",
    show_default=True,
    type=click.Choice(["zstd", "snappy", "gzip", "lz4", "none"]),
    help="Of the Parquet files.",
)
@click.option(
    "--allow-loss",
    is_flag=True,
    help="Go on where retention has deleted records before they were archived; the gap is noted.",
)
@kafka_options
@master_option
def main(
    topics: tuple[str, ...],
    uri: str,
    committed: bool,
    every_s: float | None,
    batch_records: int,
    merge_mb: int | None,
    compression: str,
    allow_loss: bool,
    bootstrap: str,
    properties: tuple[str, ...],
    master: str | None,
) -> None:
    """Copy topics to Parquet files by topic and date, exactly once.

    Run it again and it goes on where the archive ends, however it was ended before. Without TOPICS: those that the archive has.
    """
    options = client_options(bootstrap, properties, committed)
    with session("archive", master) as spark:
        storage = Storage(spark, uri)
        with Cluster(spark, options) as cluster:
            state, starts, owner = prepared(storage, cluster, topics, committed, allow_loss)
            source = spark.readStream.format("kafka").options(**options)
            source = source.option("subscribe", ",".join(starts)).option("startingOffsets", json.dumps(starts))
            source = source.option("includeHeaders", "true").option("maxOffsetsPerTrigger", str(batch_records))
            source = source.option("failOnDataLoss", str(not allow_loss).lower())
            checkpoint = f"{STAGING}/checkpoint-{uuid.uuid4().hex}"
            archiver = Archiver(storage, state, owner, cluster, checkpoint, compression)
            writer = (
                source.load()
                .writeStream.foreachBatch(archiver.add)
                .option("checkpointLocation", storage.full(checkpoint))
            )
            trigger = (
                writer.trigger(availableNow=True)
                if every_s is None
                else writer.trigger(processingTime=f"{every_s} seconds")
            )
            follow(trigger.start(), "records archived")
        if merge_mb:
            merge(spark, storage, state, owner, merge_mb * _MEGABYTE, compression)
        storage.delete(STAGING)
        say(f"{storage.uri}: {len(state.files):,} files, commit {state.number}")


def prepared(
    storage: Storage, cluster: Cluster, names: tuple[str, ...], committed: bool, allow_loss: bool
) -> tuple[State, dict[str, dict[int, int]], str]:
    """The archive's state, made if there is none, and where each partition goes on. Bad input ends here, before anything is written."""
    state = load(storage)
    wanted = list(names) or list(state.topics if state else ())
    if not wanted:
        raise JobError("name the topics to archive")
    cluster_id, topics = cluster.id(), cluster.topics(wanted)
    if state is None:
        state = State(0, cluster_id, committed)
    check_same(state, cluster_id, topics.values(), storage.uri)
    if state.committed_only != committed:
        has = "committed transactions only" if state.committed_only else "all records"
        raise JobError(f"{storage.uri} has {has}: go on {'with' if state.committed_only else 'without'} --committed")
    for name, topic in topics.items():
        state.topics.setdefault(name, TopicState(topic.id))
    earliest, latest = cluster.offsets(topics.values(), latest=False), cluster.offsets(topics.values(), latest=True)
    starts = starting_offsets(state, earliest, latest, allow_loss)
    owner = take_over(storage)
    for path in clean(storage):
        say(f"removed {path}, which a run that was killed has left")
    return state, starts, owner


if __name__ == "__main__":
    main()
