"""The files of a broker's data folder, found and read without writing anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from kafkapy.errors import StorageError
from kafkapy.log.batch_walk import read_whole
from kafkapy.log.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_FILE,
)
from kafkapy.log.data_folder import parse_partition_folder
from kafkapy.log.epochs import LEADER_EPOCH_FILE
from kafkapy.log.filesystem import OsFilesystem
from kafkapy.log.segment import INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from kafkapy.log.sparse_index import OffsetIndex, TimeIndex
from kafkapy.types import CLUSTER_METADATA_TOPIC
from kafkapy.wire.record_batch import BatchHeader

# A snapshot of the metadata log: batches, too. The first one, which Kafka's formatting tool writes, has a name of its own.
METADATA_SNAPSHOT_SUFFIX = ".checkpoint"
BOOTSTRAP_FILE = "bootstrap.checkpoint"


class Kind(Enum):
    """What a file holds."""

    BATCHES = "batches"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    TXN_INDEX = "aborted transactions"
    PRODUCERS = "producer snapshot"
    EPOCHS = "leader epochs"
    TOPIC_ID = "topic id"
    OFFSETS = "offset checkpoint"
    PROPERTIES = "properties of the data folder"
    CLEAN_SHUTDOWN = "mark of a clean stop"


_BY_NAME = {
    LEADER_EPOCH_FILE: Kind.EPOCHS,
    PARTITION_METADATA_FILE: Kind.TOPIC_ID,
    RECOVERY_POINT_FILE: Kind.OFFSETS,
    LOG_START_FILE: Kind.OFFSETS,
    HIGH_WATERMARK_FILE: Kind.OFFSETS,
    "cleaner-offset-checkpoint": Kind.OFFSETS,
    META_PROPERTIES_FILE: Kind.PROPERTIES,
    CLEAN_SHUTDOWN_FILE: Kind.CLEAN_SHUTDOWN,
}
_BY_SUFFIX = {
    LOG_SUFFIX: Kind.BATCHES,
    METADATA_SNAPSHOT_SUFFIX: Kind.BATCHES,
    INDEX_SUFFIX: Kind.OFFSET_INDEX,
    TIME_INDEX_SUFFIX: Kind.TIME_INDEX,
    TXN_INDEX_SUFFIX: Kind.TXN_INDEX,
    SNAPSHOT_SUFFIX: Kind.PRODUCERS,
}


class LogFile(NamedTuple):
    """A file of a kind that we know. The base offset is 0 where the name has none."""

    path: Path
    kind: Kind
    base_offset: int
    topic: str


def classify(path: Path) -> LogFile | None:
    """What a file is by its name; None for other files."""
    kind = _BY_NAME.get(path.name) or _BY_SUFFIX.get(path.suffix)
    digits = path.stem.partition("-")[0]
    if kind is None or (path.suffix in _BY_SUFFIX and not digits.isdigit() and path.name != BOOTSTRAP_FILE):
        return None
    partition = parse_partition_folder(path.absolute().parent.name)
    topic = CLUSTER_METADATA_TOPIC if path.name == BOOTSTRAP_FILE else partition.topic if partition else ""
    # Offsets in a snapshot of the metadata log count its own records; the name says what it stands for.
    base_offset = int(digits) if digits.isdigit() and path.suffix != METADATA_SNAPSHOT_SUFFIX else 0
    return LogFile(path, kind, base_offset, topic)


def find_files(path: Path) -> list[LogFile]:
    """The file itself, or all known files of a partition's folder or of a whole data folder."""
    if not path.is_dir():
        found = classify(path)
        if found is None:
            raise StorageError(str(path), "no file that a broker writes")
        return [found]
    files = [known for entry in sorted(path.iterdir()) if entry.is_file() and (known := classify(entry)) is not None]
    for entry in sorted(path.iterdir()):
        if entry.is_dir() and parse_partition_folder(entry.name) is not None:
            files += find_files(entry)
    return files


class ReadOnlyFilesystem(OsFilesystem):
    """Opens for reading only: files of a running broker, or of somebody else, stay as they are."""

    __slots__ = ()

    def open_existing(self, path: str) -> int:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


FILESYSTEM = ReadOnlyFilesystem()


@contextmanager
def open_batches(path: Path) -> Iterator[Iterator[tuple[int, BatchHeader, memoryview]]]:
    """(position, header, bytes) of each batch of a file, checksums verified; UnreadableBatch at the first that is damaged."""
    descriptor = FILESYSTEM.open_existing(str(path))
    try:
        yield read_whole(FILESYSTEM, descriptor, FILESYSTEM.size(descriptor))
    finally:
        os.close(descriptor)


def index_entries(file: LogFile, data: bytes) -> list[tuple[int, int]]:
    """The entries of an offset index (offset, position) or time index (timestamp, offset); offsets are absolute.

    Apache Kafka reserves room for an active segment's indexes: zeros behind the last entry are no entries.
    """
    index = OffsetIndex if file.kind is Kind.OFFSET_INDEX else TimeIndex
    size = index.entry.size
    whole = len(data.rstrip(b"\0"))
    count = min(-(-whole // size), len(data) // size)
    if file.kind is Kind.OFFSET_INDEX:
        entries = index.entry.iter_unpack(data[: count * size])
        return [(relative + file.base_offset, position) for relative, position in entries]
    return [
        (timestamp, relative + file.base_offset)
        for timestamp, relative in index.entry.iter_unpack(data[: count * size])
    ]
