"""The broker's end of a compaction process: start it, give it work, hear what it says, end it. See cleaner_process.py for the words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import trio

import kafkapy

# Everything that the process could import is named, so it can skip the search that a Python usually begins with.
_START = "import sys; sys.path[:] = {path!r}; from kafkapy.server.cleaner_process import main; main({pid})"


class WorkerDiedError(Exception):
    """The process ended in the middle of its work; what it had to say about it stands on the broker's standard error."""


class Worker:
    """One process, which works for one partition after another."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._received = bytearray()
        self.idle_since = 0.0

    @classmethod
    async def start(cls) -> Worker:
        """A new process, in a group of its own, so that Ctrl-C reaches it by way of the broker only.

        It stays in the broker's session: Linux may share out the processor by sessions first (sched_autogroup), and in a session
        of its own the process would get half of it, however low its priority.
        """
        path = [str(Path(kafkapy.__file__).parent.parent), *sys.path]
        code = _START.format(path=path, pid=os.getpid())
        process = await trio.lowlevel.open_process(
            [sys.executable, "-I", "-S", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,
        )
        return cls(process)

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """For those who look at it from outside."""
        return self._process.pid

    async def send(self, task: dict[str, Any]) -> None:
        """Give it one task."""
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send_all(json.dumps(task, separators=(",", ":")).encode() + b"\n")
        except trio.BrokenResourceError as error:
            raise WorkerDiedError("before it was given its task") from error

    async def receive(self) -> dict[str, Any]:
        """The next thing that it says."""
        assert self._process.stdout is not None
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            data = await self._process.stdout.receive_some()
            if not data:
                raise WorkerDiedError(f"with status {await self._process.wait()}")
            self._received += data
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        message: dict[str, Any] = json.loads(line)
        return message

    async def stop(self) -> None:
        """End it now, whatever it does, and be sure that it has ended."""
        with trio.CancelScope(shield=True):
            self._process.kill()
            await self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    await stream.aclose()
