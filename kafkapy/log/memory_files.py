"""A disk in memory, for tests and simulations: it fails on demand, and it can lose what was not flushed.

    disk = MemoryFilesystem()
    disk.fault = lambda operation, path: OSError(errno.EIO, "no") if operation == "fsync" else None
    disk.capacity_bytes = 1000                 # writes beyond it are short, then ENOSPC
    disk = disk.after_power_loss()             # what a machine finds that lost its power now

A fault is asked before every operation; the names are those of the `Filesystem` protocol. Descriptors are numbers of its own, which no
socket can send from: read slices with `FileSlice.read_bytes`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from kafkapy.log.filesystem import FileEntry

Fault = Callable[[str, str], OSError | None]


class _File:
    """A file's content now, and what of it a power loss would leave."""

    __slots__ = ("data", "durable", "is_named")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""
        self.is_named = False  # Its name survives a power loss.


class MemoryFilesystem:
    """Files by path. Folders exist once they are made; a parent is not required."""

    __slots__ = ("_fds", "_next_fd", "capacity_bytes", "fault", "files", "folders", "locks", "now_ms")

    def __init__(self) -> None:
        self.files: dict[str, _File] = {}
        self.folders: set[str] = set()
        self.locks: set[str] = set()
        self.fault: Fault | None = None
        self.capacity_bytes = 2**63
        self.now_ms = 0
        self._fds: dict[int, tuple[str, _File]] = {}
        self._next_fd = 1_000_000

    # Descriptors.

    def open(self, path: str) -> int:
        self._may_fail("open", path)
        return self._open(path, self.files.setdefault(path, _File()))

    def open_existing(self, path: str) -> int:
        self._may_fail("open", path)
        return self._open(path, self._file(path))

    def close(self, fd: int) -> None:
        path, _ = self._fds.pop(fd)
        self.locks.discard(path)

    def pread(self, fd: int, size: int, position: int, /) -> bytes:
        path, file = self._fds[fd]
        self._may_fail("pread", path)
        return bytes(file.data[position : position + size])

    def pwrite(self, fd: int, data: Any, position: int, /) -> int:
        path, file = self._fds[fd]
        self._may_fail("pwrite", path)
        with memoryview(data) as view:
            growth = max(0, position + len(view) - len(file.data))
            room = self.capacity_bytes - sum(len(other.data) for other in self.files.values())
            size = len(view) - max(0, growth - room)
            if size <= 0 < len(view):
                raise OSError(errno.ENOSPC, "No space left on device", path)
            if position > len(file.data):
                file.data += bytes(position - len(file.data))
            file.data[position : position + size] = view[:size]
        return size

    def truncate(self, fd: int, size: int, /) -> None:
        path, file = self._fds[fd]
        self._may_fail("truncate", path)
        if size <= len(file.data):
            del file.data[size:]
        else:
            file.data += bytes(size - len(file.data))

    def fsync(self, fd: int, /) -> None:
        path, file = self._fds[fd]
        self._may_fail("fsync", path)
        file.durable = bytes(file.data)
        file.is_named = True

    def size(self, fd: int) -> int:
        return len(self._fds[fd][1].data)

    def lock(self, path: str) -> int | None:
        if path in self.locks:
            return None
        self.locks.add(path)
        return self.open(path)

    # Names.

    def sync_folder(self, path: str) -> None:
        self._may_fail("sync_folder", path)
        for name, file in self.files.items():
            if name.rpartition("/")[0] == path:
                file.is_named = True

    def sync_all(self, path: str) -> None:
        self._may_fail("fsync", path)
        for file in self.files.values():
            file.durable, file.is_named = bytes(file.data), True

    def list(self, path: str) -> list[FileEntry]:
        self._may_fail("list", path)
        if path not in self.folders:
            raise FileNotFoundError(errno.ENOENT, "No such folder", path)
        entries = [
            FileEntry(name.rpartition("/")[2], len(file.data), self.now_ms, False)
            for name, file in self.files.items()
            if name.rpartition("/")[0] == path
        ]
        entries += [
            FileEntry(folder.rpartition("/")[2], 0, self.now_ms, True)
            for folder in self.folders
            if folder.rpartition("/")[0] == path
        ]
        return sorted(entries)

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.folders

    def rename(self, old: str, new: str, /) -> None:
        self._may_fail("rename", old)
        if old in self.folders:
            for names in (self.folders, self.files):
                for name in [name for name in names if name == old or name.startswith(old + "/")]:
                    moved = new + name[len(old) :]
                    if isinstance(names, set):
                        names.discard(name)
                        names.add(moved)
                    else:
                        names[moved] = names.pop(name)
            return
        self.files[new] = self._file(old)
        del self.files[old]

    def unlink(self, path: str, /) -> None:
        self._may_fail("unlink", path)
        self._file(path)
        del self.files[path]

    def make_folder(self, path: str, /) -> None:
        self._may_fail("make_folder", path)
        if path in self.folders:
            raise FileExistsError(errno.EEXIST, "Folder exists", path)
        self.folders.add(path)

    make_folder_apart = make_folder

    def link(self, old: str, new: str, /) -> None:
        self._may_fail("link", new)
        if new in self.files:
            raise FileExistsError(errno.EEXIST, "File exists", new)
        self.files[new] = self._file(old)

    def remove_folder(self, path: str, /) -> None:
        self._may_fail("remove_folder", path)
        if any(name.startswith(path + "/") for name in self.files):
            raise OSError(errno.ENOTEMPTY, "Folder is not empty", path)
        self.folders.discard(path)

    # What a test does to it.

    def after_power_loss(self) -> MemoryFilesystem:
        """The disk that a machine finds after its power failed: only what was flushed."""
        return self._copy(lambda file: file.durable if file.is_named else None)

    def after_kill(self) -> MemoryFilesystem:
        """The disk that a new process finds after `kill -9`: all that was written, and no locks."""
        return self._copy(lambda file: bytes(file.data))

    def _copy(self, content: Callable[[_File], bytes | None]) -> MemoryFilesystem:
        disk = MemoryFilesystem()
        disk.folders = set(self.folders)
        for name, file in self.files.items():
            data = content(file)
            if data is not None:
                kept = disk.files[name] = _File()
                kept.data += data
                kept.durable, kept.is_named = file.durable, file.is_named
        return disk

    def _open(self, path: str, file: _File) -> int:
        self._next_fd += 1
        self._fds[self._next_fd] = (path, file)
        return self._next_fd

    def _file(self, path: str) -> _File:
        file = self.files.get(path)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return file

    def _may_fail(self, operation: str, path: str) -> None:
        if self.fault is not None:
            error = self.fault(operation, path)
            if error is not None:
                raise error
