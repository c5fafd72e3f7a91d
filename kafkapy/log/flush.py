"""Making a log durable without stopping it.

`FlushWork` is made on the loop, which writes what must be written and pins the descriptors; `run` only calls fsync on them and may
do so in any thread while the loop appends on; `finish`, on the loop again, moves the recovery point. A failed fsync poisons the log:
the kernel may have dropped the pages it could not write and report success the next time, so it is never tried twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkapy.errors import StorageError
from kafkapy.log.checkpoints import PARTITION_METADATA_FILE
from kafkapy.log.epochs import LEADER_EPOCH_FILE
from kafkapy.log.filesystem import storage_error
from kafkapy.log.segment import (
    INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_path,
)

if TYPE_CHECKING:
    from kafkapy.log.files import LogFile
    from kafkapy.log.log import Log


class FlushWork:
    """All that a flush of one log up to an offset must sync."""

    __slots__ = ("_error", "_files", "_log", "_names_changed", "_paths", "_ran", "_truncations", "up_to")

    def __init__(self, log: Log, up_to: int) -> None:
        """On the loop: collect, and pin."""
        if log.failure is not None:
            raise log.failure
        self._log = log
        self.up_to = min(up_to, log.log_end_offset)
        self._files: list[LogFile] = []
        self._paths: list[str] = []
        self._error: StorageError | None = None
        self._ran = False
        self._names_changed = False  # A file was made or renamed since the last flush.
        start = log.recovery_point
        self._truncations = log.truncations
        if self.up_to <= start:
            return
        if log.epochs.save(log.pool.fs, log.folder):
            self._paths.append(f"{log.folder}/{LEADER_EPOCH_FILE}")
            self._names_changed = True
        if start <= log.segments[0].base_offset:
            self._paths.append(f"{log.folder}/{PARTITION_METADATA_FILE}")
        for segment in log.segments:
            if segment.next_offset <= start or segment.base_offset >= self.up_to:
                continue
            segment.file.pin()
            self._files.append(segment.file)
            if segment.base_offset >= start:
                self._names_changed = True
            if segment is not log.active:
                self._names_changed = True
                # Indexes of closed segments are believed after a crash, so they must be there.
                for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
                    self._paths.append(segment_path(segment.folder, segment.base_offset, suffix))
                self._paths.append(segment_path(segment.folder, segment.next_offset, SNAPSHOT_SUFFIX))

    @property
    def is_empty(self) -> bool:
        """Everything was durable already."""
        return not self._files

    def run(self) -> None:
        """In any thread: sync. Raises StorageError when the disk fails."""
        if not self._files:
            self._ran = True
            return
        fs = self._log.pool.fs
        path = self._log.folder
        try:
            for file in self._files:
                path = file.path
                fs.fsync(file.fd)
            for path in self._paths:
                try:
                    fd = fs.open_existing(path)
                except FileNotFoundError:
                    continue  # Most segments have no transaction index, and retention may have been faster.
                try:
                    fs.fsync(fd)
                finally:
                    fs.close(fd)
            if self._names_changed:
                fs.sync_folder(self._log.folder)
        except OSError as error:
            self._error = storage_error(path, error)
            raise self._error from error
        self._ran = True

    def finish(self, now_ms: int) -> None:
        """On the loop: unpin, and move the recovery point if all went well."""
        for file in self._files:
            file.release()
        self._files = []
        log = self._log
        if self._error is not None:
            log.failure = self._error
        if self._ran:
            log.last_flush_ms = now_ms
            # After a truncation meanwhile these offsets may be other records, which were not synced.
            if log.truncations == self._truncations:
                log.recovery_point = max(log.recovery_point, self.up_to)
