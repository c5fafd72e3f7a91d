"""Disks that lose what was not flushed, in more ways than the kind one of the log's tests.

A power loss leaves of each file what was flushed, and of what was written behind that nothing, a part, or a part whose end is garbage: the
pages of the tail reach a real disk in any order. `kill -9` loses nothing, because what was written is in the page cache.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from kafkapy.log.memory_files import MemoryFilesystem, _File

GARBAGE_MAX = 40
DESCRIPTORS = 1_000_000


class SimulatedDisk(MemoryFilesystem):
    """A memory disk without the bookkeeping of free space, which would cost a walk over all files in each write."""

    __slots__ = ()
    count = 0

    def __init__(self) -> None:
        super().__init__()
        # Descriptors tell which disk they are of, see DiskRouter.
        SimulatedDisk.count += 1
        self._next_fd = SimulatedDisk.count * DESCRIPTORS

    def pwrite(self, fd: int, data: Any, position: int, /) -> int:
        path, file = self._fds[fd]
        self._may_fail("pwrite", path)
        with memoryview(data) as view:
            size = len(view)
            if position > len(file.data):
                file.data += bytes(position - len(file.data))
            file.data[position : position + size] = view
        return size

    def after_kill(self) -> SimulatedDisk:
        """What the next process finds after `kill -9`."""
        return self._next(lambda file: bytes(file.data))

    def after_power_failure(self, dice: Random) -> SimulatedDisk:
        """What the next process finds after a power loss."""
        return self._next(lambda file: _torn(file, dice))

    def _next(self, content: Any) -> SimulatedDisk:
        disk = SimulatedDisk()
        disk.folders = set(self.folders)
        for name in sorted(self.files):
            file = self.files[name]
            data = content(file)
            if data is not None:
                kept = disk.files[name] = _File()
                kept.data += data
                kept.durable, kept.is_named = file.durable, file.is_named
        return disk

    def forget(self, path: str) -> None:
        """Everything in a folder is gone but the file that says whose it is: that one tells its directory id, which the cluster knows."""
        kept = f"{path}/meta.properties"
        self.files = {name: file for name, file in self.files.items() if name == kept or not name.startswith(path)}
        self.folders = {name for name in self.folders if name == path or not name.startswith(path)}


def _torn(file: _File, dice: Random) -> bytes | None:
    """A file after a power loss. Bytes that were flushed and not changed since are there; a tail that grew behind them may be in part."""
    if not file.is_named:
        return None
    durable, data = bytes(file.durable), bytes(file.data)
    if not data.startswith(durable) or len(data) == len(durable) or dice.random() < 0.4:
        return durable
    kept = data[: dice.randrange(len(durable), len(data) + 1)]
    if dice.random() < 0.3 and len(kept) > len(durable):
        garbage = min(len(kept) - len(durable), GARBAGE_MAX)
        kept = kept[:-garbage] + dice.randbytes(garbage)
    return kept


class DiskRouter:
    """One file system whose top folders are the disks of the processes: for code that knows no other than the operating system's."""

    def __init__(self) -> None:
        self.disks: dict[str, SimulatedDisk] = {}
        self._by_number: dict[int, SimulatedDisk] = {}

    def mount(self, name: str, disk: SimulatedDisk) -> None:
        """`/name/...` is on this disk from now on."""
        old = self.disks.get(name)
        if old is not None:
            self._by_number.pop(old._next_fd // DESCRIPTORS, None)
        self.disks[name] = disk
        self._by_number[disk._next_fd // DESCRIPTORS] = disk

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Each operation is that of the disk which its first argument, a path or a descriptor, belongs to."""
        disks, by_number = self.disks, self._by_number

        def operation(where: str | int, *arguments: Any) -> Any:
            if isinstance(where, str):
                disk = disks[where.split("/", 2)[1]]
            else:
                disk = by_number[where // DESCRIPTORS]
            return getattr(disk, name)(where, *arguments)

        self.__dict__[name] = operation
        return operation
