"""A broker's data folder as somebody sees it who only reads: partitions, segments, indexes, and how far it is safe to read.

A broker may be writing meanwhile. What is read is bounded by the high watermark that it last noted (replication-offset-checkpoint,
every five seconds by default): everything before it is in whole batches and is never truncated. The index of an active segment may be
missing, old or (Apache Kafka's) filled up with zeros; every entry is checked against the log before it is believed.

Nothing here holds on to a file's name: an offset range is looked up again when it is read, so that a segment which compaction has
replaced since is read in its new form.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kafkapy.errors import KafkaError
from kafkapy.log.batch_walk import UnreadableBatch, WalkedBatch, walk
from kafkapy.log.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    PARTITION_METADATA_FILE,
    read_offsets,
)
from kafkapy.log.filesystem import OsFilesystem
from kafkapy.log.producer_snapshot import CorruptSnapshotError, read_snapshot
from kafkapy.log.txn_index import AbortedTxn, TxnIndex
from kafkapy.types import TopicPartition
from kafkapy.wire.record_batch import BATCH_HEADER_BYTES, BatchHeader, read_header
from kafkapy.wire.records import read_end_txn_marker, read_records

Array = np.ndarray[Any, Any]

_SEGMENT = re.compile(r"(\d{20})\.log")
_PARTITION = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d+)")  # not what is being deleted or moved: those have a suffix
_OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_FS = OsFilesystem()
OFFSET_MAX = 2**63 - 1


class LogFolderError(Exception):
    """The folder is not what it should be; the text is for the person who named it."""


class Segment(NamedTuple):
    """A segment file by its name."""

    base_offset: int
    path: str

    def sibling(self, suffix: str) -> str:
        """The path of the file beside it."""
        return self.path.removesuffix(".log") + suffix


class PartitionLog(NamedTuple):
    """A partition's folder, and what the broker has noted about it."""

    topic: str
    partition: int
    folder: str
    start_offset: int
    end_offset: int  # The high watermark, or the end of the log where that was asked for.

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


# Folders and files.


def partitions(data_folder: str, to_log_end: bool = False) -> list[PartitionLog]:
    """All partitions in a data folder, in the order of their names."""
    if not os.path.isdir(data_folder):
        raise LogFolderError(f"{data_folder} is no folder")
    starts = read_offsets(_FS, f"{data_folder}/{LOG_START_FILE}")
    high_watermarks = read_offsets(_FS, f"{data_folder}/{HIGH_WATERMARK_FILE}")
    stopped_cleanly = os.path.exists(f"{data_folder}/{CLEAN_SHUTDOWN_FILE}")
    found = []
    for entry in os.scandir(data_folder):
        matched = _PARTITION.fullmatch(entry.name)
        if matched is None or not entry.is_dir():
            continue
        key = TopicPartition(matched[1], int(matched[2]))
        files = segments(entry.path)
        if not files:
            continue
        start = max(files[0].base_offset, starts.get(key, 0))
        if to_log_end or (stopped_cleanly and key not in high_watermarks):
            end = log_end(files)
        else:
            end = high_watermarks.get(key, 0)
        found.append(PartitionLog(key.topic, key.partition, entry.path, start, max(start, end)))
    return sorted(found)


def topic_id(folder: str) -> str:
    """The topic id that the partition's folder notes; empty when it does not."""
    with contextlib.suppress(FileNotFoundError):
        for line in Path(folder, PARTITION_METADATA_FILE).read_text().splitlines():
            if line.startswith("topic_id:"):
                return line.partition(":")[2].strip()
    return ""


def segments(folder: str) -> list[Segment]:
    """The segments of a partition in the order of their offsets."""
    found = []
    for name in os.listdir(folder):
        matched = _SEGMENT.fullmatch(name)
        if matched:
            found.append(Segment(int(matched[1]), f"{folder}/{name}"))
    return sorted(found)


def log_end(files: list[Segment]) -> int:
    """The offset after the last whole batch; for a folder that no broker writes."""
    end = files[-1].base_offset
    with contextlib.suppress(UnreadableBatch):
        for batch in headers_from(files[-1], end, OFFSET_MAX):
            end = batch.last_offset + 1
    return end


# Indexes.


def offset_index(segment: Segment) -> tuple[Array, Array]:
    """(last offsets, positions) of the indexed batches, as far as the entries rise."""
    entries = _read_index(segment.sibling(".index"), _OFFSET_ENTRY)
    offsets, positions = entries["offset"].astype(np.int64), entries["position"].astype(np.int64)
    count = _rising(positions) if len(positions) and positions[0] > 0 else 0
    return offsets[:count] + segment.base_offset, positions[:count]


def time_index(segment: Segment) -> tuple[Array, Array]:
    """(timestamps, offsets): no record up to the offset is later than the timestamp."""
    entries = _read_index(segment.sibling(".timeindex"), _TIME_ENTRY)
    timestamps, offsets = entries["timestamp"].astype(np.int64), entries["offset"].astype(np.int64)
    count = _rising(timestamps)
    return timestamps[:count], offsets[:count] + segment.base_offset


def _rising(values: Array) -> int:
    """How many of the first values rise: an index that Apache Kafka has open ends with zeros."""
    falls = np.flatnonzero(np.diff(values) <= 0)
    return int(falls[0]) + 1 if len(falls) else len(values)


def _read_index(path: str, entry: np.dtype[Any]) -> Array:
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        data = b""
    return np.frombuffer(data[: len(data) - len(data) % entry.itemsize], entry)


# Batches.


def position_before(segment: Segment, fd: int, offset: int) -> int:
    """A position where a batch begins that is not after the one which holds `offset`."""
    last_offsets, positions = offset_index(segment)
    slot = int(np.searchsorted(last_offsets, offset)) - 1
    if slot < 0:
        return 0
    position = int(positions[slot])
    try:
        header = read_header(os.pread(fd, BATCH_HEADER_BYTES, position))
    except KafkaError:
        return 0  # The index is of another time than the log.
    return position if header.last_offset == int(last_offsets[slot]) else 0


def headers_from(segment: Segment, offset: int, end: int) -> Iterator[WalkedBatch]:
    """The batches from the one that holds `offset` to the last before `end`, by their headers. What lies behind `end` may be half
    written and is not looked at. UnreadableBatch where there is damage."""
    if segment.base_offset >= end:
        return
    with opened(segment) as fd:
        position = position_before(segment, fd, offset)
        for batch in walk(_FS, fd, position, os.fstat(fd).st_size):
            if batch.base_offset >= end:
                return
            if batch.last_offset >= offset:
                yield batch
            if batch.last_offset + 1 >= end:
                return


@contextlib.contextmanager
def opened(segment: Segment) -> Iterator[int]:
    """A descriptor of a segment's file for the length of a block."""
    fd = os.open(segment.path, os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


# Times.


def offset_at(log: PartitionLog, timestamp_ms: int) -> int | None:
    """The first offset whose record is at or after a time; None if there is none before the log's end."""
    files = segments(log.folder)
    for segment, following in zip(files, [*files[1:], None], strict=True):
        if following is not None and following.base_offset <= log.start_offset:
            continue
        timestamps, offsets = time_index(segment)
        # The last entry of a closed segment is its largest time; an open one may hold later records than its index knows.
        if following is not None and len(timestamps) and timestamps[-1] < timestamp_ms:
            continue
        slot = int(np.searchsorted(timestamps, timestamp_ms)) - 1
        begin = max(int(offsets[slot]) if slot >= 0 else segment.base_offset, log.start_offset)
        for batch in headers_from(segment, begin, log.end_offset):
            if batch.max_timestamp >= timestamp_ms:
                found = _first_record_at(segment, batch, timestamp_ms, log.start_offset)
                if found is not None:
                    return found
    return None


def _first_record_at(segment: Segment, batch: WalkedBatch, timestamp_ms: int, start_offset: int) -> int | None:
    with opened(segment) as fd:
        data = os.pread(fd, batch.size, batch.position)
    for record in read_records(data):
        if record.timestamp >= timestamp_ms and record.offset >= start_offset:
            return record.offset
    return None


# Transactions.


def aborted_transactions(log: PartitionLog, start: int, end: int) -> list[AbortedTxn]:
    """The aborted transactions that have records in the offset range."""
    found = []
    for segment in segments(log.folder):
        for entry in TxnIndex(_FS, segment.sibling(".txnindex")).entries():
            if entry.last_offset >= start and entry.first_offset < end:
                found.append(entry)
    return found


def last_stable_offset(log: PartitionLog) -> int:
    """The offset of the first record of a transaction that was open at the high watermark; that watermark if none was."""
    files = segments(log.folder)
    open_since, begin = _latest_snapshot(log)
    for segment, following in zip(files, [*files[1:], None], strict=True):
        if following is not None and following.base_offset <= begin:
            continue
        for batch, header in _transactional_batches(segment, begin, log.end_offset):
            if header.is_control:
                if read_end_txn_marker(next(read_records(batch, 0, header))) is not None:
                    open_since.pop(header.producer_id, None)
            else:
                open_since.setdefault(header.producer_id, header.base_offset)
    return min([log.end_offset, *open_since.values()])


def _latest_snapshot(log: PartitionLog) -> tuple[dict[int, int], int]:
    """(producer id -> first offset of its open transaction, the offset this is true at), as late as the folder knows."""
    offsets = [int(name.stem) for name in Path(log.folder).glob("*.snapshot") if name.stem.isdecimal()]
    for offset in sorted(offsets, reverse=True):
        if offset <= log.end_offset:
            with contextlib.suppress(CorruptSnapshotError):
                producers = read_snapshot(_FS, f"{log.folder}/{offset:020d}.snapshot")
                return {p: s.txn_first_offset for p, s in producers.items() if s.txn_first_offset >= 0}, offset
    return {}, log.start_offset


def _transactional_batches(segment: Segment, begin: int, end: int) -> Iterator[tuple[bytes, BatchHeader]]:
    """The batches of transactions and their markers; of those that are no marker the header only."""
    with opened(segment) as fd:
        for batch in headers_from(segment, begin, end):
            if batch.producer_id < 0:
                continue
            data = os.pread(fd, BATCH_HEADER_BYTES, batch.position)
            header = read_header(data)
            if header.is_transactional:
                yield (os.pread(fd, batch.size, batch.position) if header.is_control else data), header
