"""The data source `kafkapy-log`: a broker's segment folders as a DataFrame, without the broker.

    from spark_jobs.log_source import register
    register(spark)
    spark.read.format("kafkapy-log").option("subscribe", "orders").load("/var/lib/kafkapy")

The columns are those of Spark's kafka source, and so are the options: subscribe, subscribePattern or assign; startingOffsets and
endingOffsets (earliest, latest or JSON; inclusive and exclusive); startingTimestamp, endingTimestamp, startingOffsetsByTimestamp,
endingOffsetsByTimestamp; includeHeaders; failOnDataLoss; kafka.isolation.level (or isolationLevel). Its own:

    path         data folders, separated by commas; a partition that is in several of them is read where its high watermark is largest
    splitBytes   how much log one task reads, about (default 128 MiB); a segment is cut at entries of its index
    upTo         highWatermark (default): the broker may be running. logEnd: whole batches behind the last checkpoint too, which is
                 for a folder that no broker has open; after a crash its last records may never have been acknowledged

**What is guaranteed while a broker writes the folder.** The result is what a consumer would have read at the moment of the broker's last
high watermark checkpoint (every replica.high.watermark.checkpoint.interval.ms, 5 seconds): each record once, in order within a
partition, in whole batches whose checksum is verified. read_committed ends before the first transaction that was open there. Records
that retention deletes between planning and reading are an error that names them unless failOnDataLoss is false; a segment that
compaction replaces meanwhile is read in its new form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from spark_jobs import log_folder
from spark_jobs.log_folder import LogFolderError, PartitionLog
from spark_jobs.log_read import OffsetRange, read_range

_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
_HEADERS = ", headers array<struct<key: string, value: binary>>"
_SPLIT_BYTES = 128 * 1024 * 1024
_EARLIEST, _LATEST = -2, -1


def register(spark: SparkSession) -> None:
    """Make `format("kafkapy-log")` known to a session."""
    spark.dataSource.register(KafkapyLog)


class KafkapyLog(DataSource):
    """What Spark asks by the name of the format."""

    @classmethod
    def name(cls) -> str:
        return "kafkapy-log"

    def schema(self) -> str:
        return _COLUMNS + (_HEADERS if _flag(self.options, "includeHeaders", False) else "")

    def reader(self, schema: Any) -> DataSourceReader:
        return LogReader(dict(self.options))


class Split(InputPartition):
    """One task's share."""

    def __init__(self, wanted: OffsetRange) -> None:
        self.wanted = wanted


class LogReader(DataSourceReader):
    """Plans on the driver which offsets each task reads; the tasks read them."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options

    def partitions(self) -> list[Split]:
        return [Split(wanted) for wanted in plan(self.options)]

    def read(self, partition: Split | None) -> Iterator[pa.RecordBatch]:
        if partition is not None:  # Spark makes a task with None of a plan that reads nothing.
            yield from read_range(partition.wanted)


# Planning.


def plan(options: Mapping[str, str]) -> list[OffsetRange]:
    """Every task's offset range."""
    options = {name.lower(): value for name, value in options.items()}
    up_to = options.get("upto", "highWatermark")
    if up_to not in ("highWatermark", "logEnd"):
        raise LogFolderError(f"upTo={up_to}: neither highWatermark nor logEnd")
    isolation = options.get("isolationlevel") or options.get("kafka.isolation.level", "read_uncommitted")
    if isolation not in ("read_committed", "read_uncommitted"):
        raise LogFolderError(f"isolationLevel={isolation}: neither read_committed nor read_uncommitted")
    split_bytes = int(options.get("splitbytes", _SPLIT_BYTES))
    fail, headers = _flag(options, "failOnDataLoss", True), _flag(options, "includeHeaders", False)
    ranges = []
    logs = _selected(_all_logs(options, up_to == "logEnd"), options)
    if isolation == "read_committed":
        logs = [log._replace(end_offset=log_folder.last_stable_offset(log)) for log in logs]
    starts, ends = _bounds(logs, options, "starting"), _bounds(logs, options, "ending")
    for log, start, end in zip(logs, starts, ends, strict=True):
        start, end = _within(log, start, end, fail)
        if start >= end:
            continue
        aborted = tuple(log_folder.aborted_transactions(log, start, end)) if isolation == "read_committed" else ()
        for first, last in cut(log, start, end, split_bytes):
            mine = tuple(entry for entry in aborted if entry.last_offset >= first and entry.first_offset < last)
            ranges.append(OffsetRange(log.topic, log.partition, log.folder, first, last, mine, fail, headers))
    return ranges


def _all_logs(options: Mapping[str, str], to_log_end: bool) -> list[PartitionLog]:
    """The partitions of all folders; of several copies the one that is known to be complete up to the largest offset."""
    paths = [path.strip().removeprefix("file://") for path in options.get("path", "").split(",") if path.strip()]
    if not paths:
        raise LogFolderError("no path: name the broker's data folder, as in load('/var/lib/kafkapy')")
    best: dict[tuple[str, int], PartitionLog] = {}
    for path in paths:
        for log in log_folder.partitions(path.rstrip("/") or "/", to_log_end):
            known = best.get((log.topic, log.partition))
            if known is None or log.end_offset > known.end_offset:
                best[log.topic, log.partition] = log
    return [best[key] for key in sorted(best)]


def _selected(logs: list[PartitionLog], options: Mapping[str, str]) -> list[PartitionLog]:
    """Those that the options name. A topic that is named and not there is an error; a pattern may match nothing."""
    named = [option for option in ("subscribe", "subscribepattern", "assign") if options.get(option)]
    if len(named) != 1:
        raise LogFolderError("say which topics by exactly one of subscribe, subscribePattern and assign")
    text = options[named[0]]
    if named[0] == "subscribepattern":
        pattern = re.compile(text)
        return [log for log in logs if pattern.fullmatch(log.topic) and not log.topic.startswith("__")]
    there = {log.topic for log in logs}
    topics = [name.strip() for name in text.split(",")] if named[0] == "subscribe" else list(json.loads(text))
    missing = [topic for topic in topics if topic not in there]
    if missing:
        raise LogFolderError(
            f"no topic {', '.join(missing)} in {options.get('path')}; there are: {', '.join(sorted(there))}"
        )
    if named[0] == "subscribe":
        return [log for log in logs if log.topic in topics]
    assigned = {(topic, partition) for topic, partitions in json.loads(text).items() for partition in partitions}
    lacking = assigned - {(log.topic, log.partition) for log in logs}
    if lacking:
        raise LogFolderError(f"no partition {', '.join(f'{topic}-{number}' for topic, number in sorted(lacking))}")
    return [log for log in logs if (log.topic, log.partition) in assigned]


def _bounds(logs: list[PartitionLog], options: Mapping[str, str], side: str) -> list[int]:
    """Where each partition's range starts or ends, in the order in which Spark's own source prefers the options."""
    default = _EARLIEST if side == "starting" else _LATEST
    if (timestamp := options.get(f"{side}timestamp")) is not None:
        return [_at_time(log, int(timestamp), options, side) for log in logs]
    if (text := options.get(f"{side}offsetsbytimestamp")) is not None:
        times = _per_partition(logs, text, f"{side}OffsetsByTimestamp")
        return [_at_time(log, times[log.topic, log.partition], options, side) for log in logs]
    text = options.get(f"{side}offsets", "earliest" if side == "starting" else "latest")
    if text in ("earliest", "latest"):
        if (side == "starting" and text == "latest") or (side == "ending" and text == "earliest"):
            raise LogFolderError(f"{side}Offsets={text} would read nothing")
        return [default] * len(logs)
    offsets = _per_partition(logs, text, f"{side}Offsets")
    return [offsets[log.topic, log.partition] for log in logs]


def _per_partition(logs: list[PartitionLog], text: str, option: str) -> dict[tuple[str, int], int]:
    """The JSON of an option, which must name every partition that is read."""
    try:
        given = {
            (topic, int(number)): int(at) for topic, rows in json.loads(text).items() for number, at in rows.items()
        }
    except (ValueError, AttributeError) as error:
        raise LogFolderError(f"{option} is no JSON of the form {{topic: {{partition: number}}}}: {error}") from None
    missing = [log.name for log in logs if (log.topic, log.partition) not in given]
    if missing:
        raise LogFolderError(f"{option} says nothing about {', '.join(missing)}")
    return given


def _at_time(log: PartitionLog, timestamp_ms: int, options: Mapping[str, str], side: str) -> int:
    """The first offset at or after a time. Where there is none, an end is the log's, and a start is an error unless allowed."""
    found = log_folder.offset_at(log, timestamp_ms)
    if found is not None:
        return found
    if side == "starting" and options.get("startingoffsetsbytimestampstrategy", "error") == "error":
        raise LogFolderError(
            f"{log.name} has no record at or after timestamp {timestamp_ms} (startingOffsetsByTimestampStrategy=latest reads nothing then)"
        )
    return _LATEST


def _within(log: PartitionLog, start: int, end: int, fail: bool) -> tuple[int, int]:
    """The range as far as the log has it; less than was asked for is an error unless losing data is allowed."""
    start = {_EARLIEST: log.start_offset, _LATEST: log.end_offset}.get(start, start)
    end = {_EARLIEST: log.start_offset, _LATEST: log.end_offset}.get(end, end)
    if fail and start < log.start_offset:
        raise LogFolderError(f"{log.name} begins at offset {log.start_offset}, after the wanted {start}")
    if fail and end > log.end_offset:
        raise LogFolderError(f"{log.name} is complete up to offset {log.end_offset} only, before the wanted {end}")
    return max(start, log.start_offset), min(end, log.end_offset)


def cut(log: PartitionLog, start: int, end: int, split_bytes: int) -> Iterator[tuple[int, int]]:
    """Offset ranges of about `split_bytes` each, cut at segments and at entries of their indexes."""
    files = log_folder.segments(log.folder)
    for segment, following in zip(files, [*files[1:], None], strict=True):
        first = max(start, segment.base_offset)
        last = end if following is None else min(end, following.base_offset)
        if first >= last:
            continue
        offsets, positions = log_folder.offset_index(segment)
        low, wanted = 0, []
        while len(positions) and int(positions[-1]) >= low + split_bytes:
            slot = int(positions.searchsorted(low + split_bytes))
            low = int(positions[slot])
            wanted.append(int(offsets[slot]) + 1)
        for at in wanted:
            if first < at < last:
                yield first, at
                first = at
        yield first, last


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    """An option that is true or false."""
    value = options.get(name, options.get(name.lower()))
    if value is None:
        return default
    if value.lower() not in ("true", "false"):
        raise LogFolderError(f"{name}={value}: neither true nor false")
    return value.lower() == "true"
