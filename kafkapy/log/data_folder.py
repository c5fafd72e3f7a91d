"""One of the broker's data folders (log.dirs): whose it is, what is in it, and the checkpoints of its partitions.

    meta.properties, .lock, .kafka_cleanshutdown, *-checkpoint    see checkpoints.py
    orders-0/                                                     a partition
    orders-0.1b4e28ba2fa111d2883f0016d3cca427-delete/             a partition that was deleted and waits to be removed

The lock belongs to the process, so it is free again however the process ended.
"""

from __future__ import annotations

import logging

from kafkapy.errors import StorageError
from kafkapy.log.checkpoints import (
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    parse_uuid,
    read_clean_shutdown,
    read_meta_properties,
    read_offsets,
    remove_clean_shutdown,
    write_meta_properties,
    write_offsets,
)
from kafkapy.log.filesystem import Filesystem, storage_errors
from kafkapy.types import TopicPartition

logger = logging.getLogger(__name__)

LOCK_FILE = ".lock"
DELETE_FOLDER_SUFFIX = "-delete"
STRAY_FOLDER_SUFFIX = "-stray"
_OTHER_SUFFIXES = ("-future", STRAY_FOLDER_SUFFIX)
_NAME_LENGTH_MAX = 255


def parse_partition_folder(name: str) -> TopicPartition | None:
    """The partition that a folder is named after; None for other folders."""
    topic, _, number = name.rpartition("-")
    if not topic or not number.isdecimal():
        return None
    return TopicPartition(topic, int(number))


def deleted_folder_name(topic_partition: TopicPartition, uuid: bytes) -> str:
    """The name of a deleted partition's folder, with the topic cut to what a file system allows."""
    return _retired_name(topic_partition, uuid, DELETE_FOLDER_SUFFIX)


def stray_folder_name(topic_partition: TopicPartition, uuid: bytes) -> str:
    """The name of a partition's folder that belongs to no topic of the cluster."""
    return _retired_name(topic_partition, uuid, STRAY_FOLDER_SUFFIX)


def _retired_name(topic_partition: TopicPartition, uuid: bytes, ending: str) -> str:
    suffix = f"-{topic_partition.partition}.{uuid.hex()}{ending}"
    return topic_partition.topic[: _NAME_LENGTH_MAX - len(suffix)] + suffix


class DataFolder:
    """A data folder that this process holds the lock of."""

    __slots__ = (
        "_lock_fd",
        "_named_on_disk",
        "clean",
        "directory_id",
        "failure",
        "fs",
        "high_watermarks",
        "log_starts",
        "partition_count",
        "path",
        "recovery_points",
        "stopped_broker_epoch",
    )

    def __init__(self, fs: Filesystem, path: str) -> None:
        """Lock the folder, made if it is missing. Raises StorageError when another process has it."""
        self.fs = fs
        self.path = path
        self.failure: StorageError | None = None
        self.directory_id = bytes(16)
        self.clean = False
        self.stopped_broker_epoch = -1
        self.partition_count = 0
        # Which partitions the recovery point file names: one of them that is made anew must not inherit the old one's.
        self._named_on_disk: frozenset[TopicPartition] = frozenset()
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_starts: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        with storage_errors(path):
            make_data_folder(fs, path)
            lock = fs.lock(f"{path}/{LOCK_FILE}")
        if lock is None:
            raise StorageError(
                path, "in use by another process; stop that one first, or give this one its own data folder"
            )
        self._lock_fd = lock

    def identify(self, node_id: int, cluster_id: str, new_directory_id: bytes) -> None:
        """Check that the folder is this node's in this cluster; a new one is marked as such."""
        properties = read_meta_properties(self.fs, self.path)
        if properties is None:
            write_meta_properties(self.fs, self.path, cluster_id, node_id, new_directory_id)
            self.directory_id = new_directory_id
            return
        for key, ours in (("cluster.id", cluster_id), ("node.id", str(node_id))):
            theirs = properties.get(key)
            if theirs is not None and theirs != ours:
                raise StorageError(
                    f"{self.path}/meta.properties",
                    f"the folder belongs to {key} {theirs}, but this broker has {ours}; check log.dirs and {key}",
                )
        directory_id = properties.get("directory.id")
        try:
            self.directory_id = parse_uuid(directory_id) if directory_id else new_directory_id
        except ValueError as error:
            raise StorageError(f"{self.path}/meta.properties", f"directory.id: {error}") from error
        if not directory_id:
            write_meta_properties(self.fs, self.path, cluster_id, node_id, new_directory_id)

    def load(self) -> tuple[list[TopicPartition], list[str]]:
        """(the partitions in it, the paths of deleted ones). From here on the next stop must be clean anew."""
        epoch = read_clean_shutdown(self.fs, self.path)
        self.clean = epoch is not None
        self.stopped_broker_epoch = -1 if epoch is None else epoch
        self.recovery_points = self._read_checkpoint(RECOVERY_POINT_FILE)
        self._named_on_disk = frozenset(self.recovery_points)
        self.log_starts = self._read_checkpoint(LOG_START_FILE)
        self.high_watermarks = self._read_checkpoint(HIGH_WATERMARK_FILE)
        partitions, deleted = [], []
        with storage_errors(self.path):
            entries = self.fs.list(self.path)
        for entry in entries:
            if not entry.is_folder:
                continue
            if entry.name.endswith(DELETE_FOLDER_SUFFIX) and "." in entry.name:
                deleted.append(f"{self.path}/{entry.name}")
                continue
            found = parse_partition_folder(entry.name)
            if found is not None:
                partitions.append(found)
            elif not entry.name.endswith(_OTHER_SUFFIXES):
                logger.warning("%s/%s is no partition and is left alone", self.path, entry.name)
        remove_clean_shutdown(self.fs, self.path)
        self.partition_count = len(partitions)
        return partitions, deleted

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """A checkpoint that is damaged counts as missing: recovery reads more, and the offsets are found in the logs."""
        try:
            return read_offsets(self.fs, f"{self.path}/{name}")
        except StorageError as error:
            if error.__cause__ is not None and isinstance(error.__cause__, OSError):
                raise
            logger.warning("ignoring a checkpoint: %s", error)
            return {}

    def write_recovery_points(self) -> None:
        """Write how far every log is on disk."""
        write_offsets(self.fs, f"{self.path}/{RECOVERY_POINT_FILE}", self.recovery_points)
        self._named_on_disk = frozenset(self.recovery_points)

    def write_log_starts(self) -> None:
        """Write where the logs begin that begin inside a segment."""
        write_offsets(self.fs, f"{self.path}/{LOG_START_FILE}", self.log_starts)

    def write_high_watermarks(self) -> None:
        """Write the high watermarks."""
        write_offsets(self.fs, f"{self.path}/{HIGH_WATERMARK_FILE}", self.high_watermarks)

    def forget(self, topic_partition: TopicPartition) -> None:
        """Drop a partition from the checkpoints; the files follow when they are written next."""
        self.log_starts.pop(topic_partition, None)
        self.high_watermarks.pop(topic_partition, None)
        self.recovery_points.pop(topic_partition, None)

    def begin_partition(self, topic_partition: TopicPartition) -> None:
        """A partition is about to be made here: nothing on disk may speak of an earlier one of its name."""
        self.partition_count += 1
        self.forget(topic_partition)
        if topic_partition in self._named_on_disk:
            self.write_recovery_points()
            self.write_log_starts()
            self.write_high_watermarks()

    def unlock(self) -> None:
        """Let another process have the folder."""
        if self._lock_fd >= 0:
            self.fs.close(self._lock_fd)
            self._lock_fd = -1


def make_data_folder(fs: Filesystem, path: str) -> None:
    """Make a data folder, and the folders above it, if it is not there."""
    path = path.rstrip("/")
    if fs.exists(path):
        return
    _make_folders(fs, path.rpartition("/")[0])
    try:
        fs.make_folder_apart(path)
    except FileExistsError:
        return  # Another process was faster; the lock tells whose it is.


def _make_folders(fs: Filesystem, path: str) -> None:
    if not path or fs.exists(path):
        return
    _make_folders(fs, path.rpartition("/")[0])
    try:
        fs.make_folder(path)
    except FileExistsError:
        return


def remove_folder(fs: Filesystem, path: str) -> None:
    """Remove a deleted partition's folder with all files in it; a function for any thread."""
    with storage_errors(path):
        for entry in fs.list(path):
            fs.unlink(f"{path}/{entry.name}")
        fs.remove_folder(path)
