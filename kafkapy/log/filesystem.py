"""The few calls that the store makes on a disk, and where their errors become ours.

Everything in `log/` reaches the disk through one `Filesystem`, so a simulation can run the same code on a disk in memory that
loses what was not flushed (`memory_files.py`). The operating system's one binds `os` functions directly: the hot path pays an
attribute lookup and nothing else.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from kafkapy.errors import StorageError
from kafkapy.log.apart import make_folder_apart

_OPEN_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
FULL_DISK_ERRNOS = frozenset((errno.ENOSPC, errno.EDQUOT))


class DiskFullError(StorageError):
    """The disk is full. What was acknowledged is intact, and once there is room the same log takes appends again."""


class DamagedLogError(StorageError):
    """What one log holds is damaged, at the place that the message names. The disk works, and other logs on it are fine."""


class FileEntry(NamedTuple):
    """One name in a folder."""

    name: str
    size: int
    modified_ms: int
    is_folder: bool


class Filesystem(Protocol):
    """A disk. Errors are OSError; callers turn them into StorageError with `storage_errors`."""

    def open(self, path: str) -> int:
        """Open for reading and writing, created when missing."""

    def open_existing(self, path: str) -> int:
        """Open for reading and writing; FileNotFoundError when missing."""

    def close(self, fd: int) -> None: ...

    def pread(self, fd: int, size: int, position: int, /) -> bytes: ...

    def pwrite(self, fd: int, data: Any, position: int, /) -> int: ...

    def truncate(self, fd: int, size: int, /) -> None: ...

    def fsync(self, fd: int, /) -> None: ...

    def sync_folder(self, path: str) -> None:
        """Make the names in a folder durable."""

    def sync_all(self, path: str) -> None:
        """Make everything on the disk that holds `path` durable: for many files this is faster than each by itself."""

    def list(self, path: str) -> list[FileEntry]: ...

    def size(self, fd: int) -> int: ...

    def exists(self, path: str) -> bool: ...

    def rename(self, old: str, new: str, /) -> None: ...

    def unlink(self, path: str, /) -> None: ...

    def make_folder(self, path: str, /) -> None: ...

    def make_folder_apart(self, path: str, /) -> None:
        """Make a folder that will hold many files, where making them is cheap."""

    def link(self, old: str, new: str, /) -> None:
        """Give a file another name."""

    def remove_folder(self, path: str, /) -> None: ...

    def lock(self, path: str) -> int | None:
        """Take an exclusive lock on a file; None when another process holds it."""


class OsFilesystem:
    """The operating system's files."""

    __slots__ = ()

    close = staticmethod(os.close)
    pread = staticmethod(os.pread)
    pwrite = staticmethod(os.pwrite)
    truncate = staticmethod(os.ftruncate)
    fsync = staticmethod(os.fsync)
    exists = staticmethod(os.path.exists)
    rename = staticmethod(os.rename)
    unlink = staticmethod(os.unlink)
    make_folder = staticmethod(os.mkdir)
    make_folder_apart = staticmethod(make_folder_apart)
    link = staticmethod(os.link)
    remove_folder = staticmethod(os.rmdir)

    def open(self, path: str) -> int:
        return os.open(path, _OPEN_FLAGS, 0o644)

    def open_existing(self, path: str) -> int:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def sync_folder(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self, path: str) -> None:
        import ctypes  # Only a stop with many open logs needs it.

        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:
            os.sync()
            return
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if syncfs(fd):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), path)
        finally:
            os.close(fd)

    def list(self, path: str) -> list[FileEntry]:
        entries = []
        with os.scandir(path) as found:
            for entry in found:
                info = entry.stat()
                entries.append(
                    FileEntry(entry.name, info.st_size, info.st_mtime_ns // 1_000_000, stat.S_ISDIR(info.st_mode))
                )
        entries.sort()
        return entries

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def lock(self, path: str) -> int | None:
        fd = os.open(path, _OPEN_FLAGS, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return fd


@contextmanager
def storage_errors(path: str) -> Iterator[None]:
    """Turn the disk's refusals into StorageError naming `path`. Not for the hot path: a plain try costs nothing there."""
    try:
        yield
    except OSError as error:
        raise storage_error(path, error) from error


def storage_error(path: str, error: OSError) -> StorageError:
    """The StorageError that says what a person can do about this OSError."""
    where = error.filename if isinstance(error.filename, str) else path
    if error.errno in FULL_DISK_ERRNOS:
        return DiskFullError(where, "the disk is full; free some space or shorten the retention")
    if error.errno == errno.EMFILE:
        return StorageError(where, "the process may not open more files; raise its limit (ulimit -n)")
    return StorageError(where, error.strerror or str(error))


def read_file(fs: Filesystem, path: str) -> bytes:
    """The whole of a small file; FileNotFoundError when missing."""
    fd = fs.open_existing(path)
    try:
        return read_exactly(fs, fd, fs.size(fd), 0)
    finally:
        fs.close(fd)


def read_exactly(fs: Filesystem, fd: int, size: int, position: int) -> bytes:
    """Up to `size` bytes at `position`, fewer only at the end of the file; one system call may return less than asked."""
    data = fs.pread(fd, size, position)
    if len(data) == size or not data:
        return data
    parts = [data]
    read = len(data)
    while read < size:
        data = fs.pread(fd, size - read, position + read)
        if not data:
            break
        parts.append(data)
        read += len(data)
    return b"".join(parts)


def write_fully(fs: Filesystem, fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
    """All of `data` at `position`: a system call may write less than asked when the disk is nearly full."""
    written = fs.pwrite(fd, data, position)
    if written == len(data):
        return
    rest = memoryview(data)
    while written < len(rest):
        written += fs.pwrite(fd, rest[written:], position + written)


def replace_file(fs: Filesystem, path: str, data: bytes, *, sync: bool = True) -> None:
    """Replace a small file in one step: a crash leaves the old content or the new, never a part."""
    temporary = path + ".tmp"
    fd = fs.open(temporary)
    try:
        fs.truncate(fd, 0)
        write_fully(fs, fd, data, 0)
        if sync:
            fs.fsync(fd)
    finally:
        fs.close(fd)
    fs.rename(temporary, path)
    if sync:
        fs.sync_folder(path.rpartition("/")[0] or ".")


def unlink_if_exists(fs: Filesystem, path: str) -> bool:
    """Remove a file; False when it was not there."""
    try:
        fs.unlink(path)
    except FileNotFoundError:
        return False
    return True
