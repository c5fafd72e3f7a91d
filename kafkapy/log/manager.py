"""All logs of a broker: where they are, which are open, and the checkpoints that a restart begins with.

Starting after a clean stop is a listing of the data folders and three small files in each: a log is opened when it is touched first.
After an unclean stop `needing_recovery` names the logs; each is recovered by `recover` (in any thread) and `adopt` (on the loop), or
simply when it is touched.

Stopping: flush, write what is only in memory, the checkpoints, and last of all the mark of a clean stop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kafkapy.errors import StorageError
from kafkapy.log.checkpoints import read_topic_id, write_clean_shutdown
from kafkapy.log.data_folder import DataFolder, deleted_folder_name, stray_folder_name
from kafkapy.log.files import FilePool
from kafkapy.log.filesystem import Filesystem, storage_errors
from kafkapy.log.log import Log
from kafkapy.types import CLUSTER_METADATA_TOPIC, TopicPartition

if TYPE_CHECKING:
    from kafkapy.config.log_config import LogConfig

logger = logging.getLogger(__name__)

# Its folder may lie in a data folder, but it is none of the logs here: raft/metadata_log.py opens and checks it.

# A stop that has more logs than this to flush makes the whole disk durable once instead of file by file.
_SYNC_EACH_MAX = 64
# Descriptors of one recovery, which reads one file after another.
_RECOVERY_OPEN_FILES = 4


class LogManager:
    """The logs in all data folders."""

    __slots__ = (
        "_folder_of",
        "deleted_folders",
        "folders",
        "logs",
        "pool",
        "producer_id_expiration_ms",
    )

    def __init__(
        self,
        paths: Iterable[str],
        *,
        fs: Filesystem | None = None,
        open_files_limit: int | None = None,
        producer_id_expiration_ms: int = 86_400_000,
    ) -> None:
        """Lock the data folders. Raises StorageError when another process has one of them."""
        self.pool = FilePool(fs, open_files_limit)
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.folders: list[DataFolder] = []
        try:
            for path in paths:
                self.folders.append(DataFolder(self.pool.fs, path.rstrip("/") or "/"))
        except StorageError:
            self.unlock()
            raise
        self.logs: dict[TopicPartition, Log] = {}
        self.deleted_folders: list[str] = []
        self._folder_of: dict[TopicPartition, DataFolder] = {}

    # Starting.

    def load(self, node_id: int, cluster_id: str, new_uuid: Callable[[], bytes]) -> None:
        """Check whose folders these are and find the partitions in them. `deleted_folders` are for the shell to remove."""
        for folder in self.folders:
            folder.identify(node_id, cluster_id, new_uuid())
        for folder in self.folders:
            partitions, deleted = folder.load()
            self.deleted_folders += deleted
            for topic_partition in partitions:
                other = self._folder_of.get(topic_partition)
                if other is not None:
                    raise StorageError(
                        folder.path, f"{topic_partition} is also in {other.path}; one of the two has to be removed"
                    )
                self._folder_of[topic_partition] = folder

    def partitions(self) -> list[TopicPartition]:
        """All partitions that have a folder here."""
        return list(self._folder_of)

    def needing_recovery(self) -> list[TopicPartition]:
        """The partitions that were not stopped cleanly and are not open yet. The metadata log, which lies beside them, looks after itself."""
        return [
            topic_partition
            for topic_partition, folder in self._folder_of.items()
            if not folder.clean and topic_partition not in self.logs and topic_partition.topic != CLUSTER_METADATA_TOPIC
        ]

    def recover(self, topic_partition: TopicPartition, config: LogConfig, topic_id: bytes, now_ms: int) -> Log:
        """In any thread: open a log with descriptors of its own. Give it to `adopt` on the loop."""
        pool = FilePool(self.pool.fs, _RECOVERY_OPEN_FILES)
        return self._open(topic_partition, self._folder_of[topic_partition], config, topic_id, now_ms, pool)

    def adopt(self, log: Log) -> None:
        """On the loop: take over a log from `recover`, unless it was opened meanwhile."""
        log.close_files()
        if log.topic_partition in self.logs:
            return
        log.pool = self.pool
        for segment in log.segments:
            segment.file.pool = self.pool
        self.logs[log.topic_partition] = log

    # Opening, creating, deleting.

    def get(self, topic_partition: TopicPartition, config: LogConfig, topic_id: bytes, now_ms: int) -> Log:
        """The log of a partition: open, opened now, or made now."""
        log = self.logs.get(topic_partition)
        if log is not None:
            return log
        folder = self._folder_of.get(topic_partition)
        if folder is None:
            folder = self._folder_for_new(topic_partition)
        log = self.logs[topic_partition] = self._open(topic_partition, folder, config, topic_id, now_ms, self.pool)
        return log

    def contains(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition has a folder here."""
        return topic_partition in self._folder_of

    def stored_topic_id(self, topic_partition: TopicPartition) -> bytes | None:
        """The topic id that a partition's folder names; None when it names none."""
        log = self.logs.get(topic_partition)
        if log is not None:
            return log.topic_id
        return read_topic_id(self.pool.fs, self.folder_path(topic_partition))

    def folder_path(self, topic_partition: TopicPartition) -> str:
        """The path of a partition's folder."""
        return f"{self._folder_of[topic_partition].path}/{topic_partition}"

    def data_folder(self, topic_partition: TopicPartition) -> DataFolder:
        """The data folder that a partition is in."""
        return self._folder_of[topic_partition]

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """What the checkpoint said at the start; 0 for a partition that it does not name."""
        folder = self._folder_of.get(topic_partition)
        return 0 if folder is None else folder.high_watermarks.get(topic_partition, 0)

    def delete(self, topic_partition: TopicPartition, uuid: bytes) -> str | None:
        """Take a partition away: close its log, rename its folder. Returns the path for `remove_folder`, None if there is none."""
        log = self.logs.pop(topic_partition, None)
        if log is not None:
            log.close_files()
        folder = self._folder_of.pop(topic_partition, None)
        if folder is None:
            return None
        path = f"{folder.path}/{deleted_folder_name(topic_partition, uuid)}"
        with storage_errors(path):
            self.pool.fs.rename(f"{folder.path}/{topic_partition}", path)
        folder.forget(topic_partition)
        folder.partition_count -= 1
        return path

    def set_aside(self, topic_partition: TopicPartition, uuid: bytes) -> str:
        """Rename the folder of a partition that nobody knows; it stays there for people to look at. Returns the new path."""
        folder = self._folder_of.pop(topic_partition)
        path = f"{folder.path}/{stray_folder_name(topic_partition, uuid)}"
        with storage_errors(path):
            self.pool.fs.rename(f"{folder.path}/{topic_partition}", path)
        folder.forget(topic_partition)
        folder.partition_count -= 1
        return path

    def folder_for_next(self) -> DataFolder | None:
        """The data folder with the fewest partitions, where the next new one goes; None if all of them have failed."""
        usable = [folder for folder in self.folders if folder.failure is None]
        return min(usable, key=lambda candidate: candidate.partition_count, default=None)

    def _folder_for_new(self, topic_partition: TopicPartition) -> DataFolder:
        folder = self.folder_for_next()
        if folder is None:
            raise self.folders[0].failure or StorageError("", "there is no data folder")
        folder.begin_partition(topic_partition)
        self._folder_of[topic_partition] = folder
        return folder

    def _open(
        self,
        topic_partition: TopicPartition,
        folder: DataFolder,
        config: LogConfig,
        topic_id: bytes,
        now_ms: int,
        pool: FilePool,
    ) -> Log:
        return Log.open(
            f"{folder.path}/{topic_partition}",
            config,
            topic_partition=topic_partition,
            topic_id=topic_id,
            recovery_point=folder.recovery_points.get(topic_partition, 0),
            log_start_offset=folder.log_starts.get(topic_partition, 0),
            clean=folder.clean,
            now_ms=now_ms,
            pool=pool,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
        )

    # Checkpoints.

    def write_checkpoints(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Write the recovery points, log starts and high watermarks of all partitions, open or not."""
        for topic_partition, log in self.logs.items():
            folder = self._folder_of[topic_partition]
            folder.recovery_points[topic_partition] = log.recovery_point
            if log.log_start_offset > log.segments[0].base_offset:
                folder.log_starts[topic_partition] = log.log_start_offset
            else:
                folder.log_starts.pop(topic_partition, None)
        for topic_partition, offset in (high_watermarks or {}).items():
            owner = self._folder_of.get(topic_partition)
            if owner is not None:
                owner.high_watermarks[topic_partition] = offset
        for folder in self.folders:
            if folder.failure is None:
                folder.write_recovery_points()
                folder.write_log_starts()
                folder.write_high_watermarks()

    def before_truncation(self, topic_partition: TopicPartition, offset: int) -> None:
        """A log is about to be cut: the recovery point on disk says so first, else a crash between would look like damage."""
        folder = self._folder_of[topic_partition]
        if folder.recovery_points.get(topic_partition, 0) > offset:
            folder.recovery_points[topic_partition] = offset
            folder.write_recovery_points()

    # Stopping.

    def unflushed(self) -> list[Log]:
        """The open logs with something to flush, for a shell that flushes them in threads before `close`."""
        return [log for log in self.logs.values() if log.failure is None and log.recovery_point < log.log_end_offset]

    def close(
        self, now_ms: int, broker_epoch: int = -1, high_watermarks: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Stop cleanly. A data folder in which anything fails is left without the mark, so that its logs are checked at the next start."""
        each = len(self.unflushed()) <= _SYNC_EACH_MAX
        for topic_partition, log in self.logs.items():
            folder = self._folder_of[topic_partition]
            try:
                if log.failure is not None:
                    raise log.failure
                if each:
                    log.flush(now_ms)
                log.close(sync=each)
            except StorageError as error:
                logger.error("cannot stop %s cleanly: %s", topic_partition, error)
                folder.failure = error
        if not each:
            self._sync_all()
        self.write_checkpoints(high_watermarks)
        for folder in self.folders:
            if folder.failure is None and self._all_clean(folder):
                write_clean_shutdown(self.pool.fs, folder.path, broker_epoch)
        self.pool.close_all()
        self.unlock()

    def _sync_all(self) -> None:
        """Make everything in all data folders durable at once; the logs' ends are their recovery points then."""
        for folder in self.folders:
            try:
                with storage_errors(folder.path):
                    self.pool.fs.sync_all(folder.path)
            except StorageError as error:
                logger.error("cannot stop cleanly: %s", error)
                folder.failure = error
        for topic_partition, log in self.logs.items():
            if self._folder_of[topic_partition].failure is None:
                log.recovery_point = log.log_end_offset

    def _all_clean(self, folder: DataFolder) -> bool:
        """Logs that needed recovery and were never touched still need it."""
        return folder.clean or not any(self._folder_of[name] is folder for name in self.needing_recovery())

    def unlock(self) -> None:
        """Let go of the data folders."""
        for folder in self.folders:
            folder.unlock()
