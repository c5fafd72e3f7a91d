"""A small disk per broker that can be filled: a tmpfs, which survives the death of the broker as a real disk does."""

from __future__ import annotations

import errno
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

_CHUNK = b"\xff" * (1 << 20)


class Disks:
    """A mount on each of these folders, for the length of a with block. `reason` says why there is none, where there is none."""

    def __init__(self, folders: list[Path], size_mb: int) -> None:
        self._folders = folders
        self._size_mb = size_mb
        self._mounted: list[Path] = []
        self.reason: str | None = None

    def __enter__(self) -> Self:
        for folder in self._folders:
            folder.mkdir(parents=True, exist_ok=True)
            options = f"size={self._size_mb}m"
            done = subprocess.run(
                ("mount", "-t", "tmpfs", "-o", options, "kafkapy-chaos", str(folder)), capture_output=True, text=True
            )
            if done.returncode:
                self.reason = f"no tmpfs can be mounted here: {done.stderr.strip()}"
                self.__exit__()
                break
            self._mounted.append(folder)
        return self

    def __exit__(self, *exc: object) -> None:
        for folder in self._mounted:
            subprocess.run(("umount", "-l", str(folder)), capture_output=True)
        self._mounted.clear()

    def keep(self, target: Path) -> None:
        """Copy what is on the disks to a folder that outlives them."""
        target.mkdir(parents=True, exist_ok=True)
        for folder in self._mounted:
            subprocess.run(("cp", "-a", str(folder), str(target)), capture_output=True)

    @staticmethod
    def fill(folder: Path) -> None:
        """Leave no byte."""
        with (folder / ".filler").open("wb", buffering=0) as file:
            for chunk in (_CHUNK, _CHUNK[:4096], _CHUNK[:1]):
                with suppress(OSError):
                    _write_until_full(file.fileno(), chunk)

    @staticmethod
    def free(folder: Path) -> None:
        """Make room again."""
        (folder / ".filler").unlink(missing_ok=True)


def _write_until_full(fd: int, chunk: bytes) -> None:
    while True:
        try:
            os.write(fd, chunk)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                return
            raise
