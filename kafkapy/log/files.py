"""Open descriptors: a bounded pool of segment files, and slices of them in flight.

A broker has far more segments than it may hold descriptors. A `LogFile` is a path that opens itself when it is used and that the
pool may close again, in the order of the clock algorithm (a used file gets a second chance). A file that is pinned is never
closed: a slice on its way into a socket pins its file, and so does a flush in a worker thread. All of it belongs to the loop's
thread; a worker only uses descriptors that were pinned for it.
"""

from __future__ import annotations

import resource

from kafkapy.limits import INLINE_RECORDS_BYTES_MAX
from kafkapy.log.filesystem import Filesystem, OsFilesystem, read_exactly, storage_error

OPEN_FILES_MIN = 64
OPEN_FILES_MAX = 4096


def open_files_limit() -> int:
    """A third of what the process may open: connections need the rest."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return OPEN_FILES_MAX
    return max(OPEN_FILES_MIN, min(OPEN_FILES_MAX, soft // 3))


class FilePool:
    """Which segment files are open, at most `limit` of them (more only while more are pinned)."""

    __slots__ = ("_open", "fs", "limit", "topic_id_file")

    def __init__(self, fs: Filesystem | None = None, limit: int | None = None) -> None:
        self.fs: Filesystem = fs if fs is not None else OsFilesystem()
        self.limit = limit if limit is not None else open_files_limit()
        self._open: dict[LogFile, None] = {}
        # The topic whose partition.metadata was written last, in which data folder, and where.
        self.topic_id_file: tuple[bytes, str, str] | None = None

    @property
    def open_count(self) -> int:
        """How many descriptors the pool holds now."""
        return len(self._open)

    def opened(self, file: LogFile) -> None:
        """A file has just opened itself; another may have to go."""
        while len(self._open) >= self.limit and self._evict():
            pass
        self._open[file] = None

    def closed(self, file: LogFile) -> None:
        """A file has closed itself."""
        del self._open[file]

    def close_all(self) -> None:
        """Close every descriptor, pinned or not: the broker stops."""
        for file in list(self._open):
            file.pins = 0
            file.close()

    def _evict(self) -> bool:
        """Close the file that was not used for the longest time, roughly; False when all are pinned."""
        for _ in range(2 * len(self._open)):
            file = next(iter(self._open))
            if not file.pins and not file.recent:
                file.close()
                return True
            file.recent = False
            del self._open[file]
            self._open[file] = None
        return False


class LogFile:
    """One segment's data file: a descriptor that comes and goes behind a path that stays."""

    __slots__ = ("_closing", "fd", "path", "pins", "pool", "recent")

    def __init__(self, pool: FilePool, path: str) -> None:
        self.pool = pool
        self.path = path
        self.fd = -1
        self.pins = 0
        self.recent = False
        self._closing = False

    def descriptor(self) -> int:
        """The open descriptor; opens the file when the pool had closed it."""
        self.recent = True
        if self.fd >= 0:
            return self.fd
        try:
            return self._opened(self.pool.fs.open_existing(self.path))
        except OSError as error:
            raise storage_error(self.path, error) from error

    def create(self) -> int:
        """Make the file and hold it open; also fine when it exists."""
        try:
            return self._opened(self.pool.fs.open(self.path))
        except OSError as error:
            raise storage_error(self.path, error) from error

    def pin(self) -> int:
        """Keep the descriptor open until `release`; pins nest."""
        fd = self.descriptor()
        self.pins += 1
        return fd

    def release(self) -> None:
        """Give back one pin; the last one carries out a close that had to wait."""
        self.pins -= 1
        if self._closing and not self.pins:
            self.close()

    def close(self) -> None:
        """Close the descriptor now, or when the last slice in flight is done with it."""
        if self.fd < 0:
            return
        if self.pins:
            self._closing = True
            return
        self._closing = False
        fd, self.fd = self.fd, -1
        self.pool.closed(self)
        self.pool.fs.close(fd)

    def rename(self, path: str) -> None:
        """Move the file; an open descriptor follows it."""
        self.pool.fs.rename(self.path, path)
        self.path = path

    def _opened(self, fd: int) -> int:
        self.fd = fd
        self.pool.opened(self)
        return fd


class FileSlice:
    """Whole batches in a segment file: what a Fetch answers with, without having read it.

    `end_offset` is the offset after the last record in it. Pin it before the first byte is sent and release it after the last:
    between, neither the pool nor a deletion closes the file.
    """

    __slots__ = ("end_offset", "file", "position", "size")

    def __init__(self, file: LogFile, position: int, size: int, end_offset: int) -> None:
        self.file = file
        self.position = position
        self.size = size
        self.end_offset = end_offset

    @property
    def fd(self) -> int:
        """The open descriptor to send from."""
        return self.file.descriptor()

    def __len__(self) -> int:
        return self.size

    def pin(self) -> int:
        """Hold the file open; returns its descriptor."""
        return self.file.pin() if self.size else -1

    def release(self) -> None:
        """Undo `pin`."""
        if self.size:
            self.file.release()

    def for_answer(self) -> FileSlice | bytes:
        """What an answer carries: a few bytes themselves, more than that as this slice, pinned until it is sent."""
        if self.size <= INLINE_RECORDS_BYTES_MAX:
            return self.read_bytes()
        self.pin()
        return self

    def read_bytes(self) -> bytes:
        """The bytes themselves, for those who open records: coordinators that load, tools, tests."""
        if not self.size:
            return b""
        file = self.file
        try:
            return read_exactly(file.pool.fs, file.descriptor(), self.size, self.position)
        except OSError as error:
            raise storage_error(file.path, error) from error


EMPTY = FileSlice(LogFile(FilePool(OsFilesystem(), 0), ""), 0, 0, -1)
