"""The command `kafkapy start` in a process of its own: started, waited for, paused, stopped and killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import IO

from kafkapy.errors import StartError

START_TIMEOUT_S = 30.0
# A stop writes the indexes of every partition that was written to: ten thousand of them take their time.
STOP_TIMEOUT_S = 60.0

# What a failure shows of the log.
_LAST_LINES = 20


class ProcessRunner:
    """One broker's process. `prefix` is put before the command: `ip netns exec NAME`, for example. Its log is added to `lines`."""

    def __init__(self, arguments: Sequence[str], *, prefix: Sequence[str] = (), lines: list[str] | None = None) -> None:
        self._command = [*prefix, sys.executable, "-m", "kafkapy", "start", "--log-format", "json", *arguments]
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._ready = threading.Event()
        self._port = 0
        self._asked_to_stop = False
        self.lines = [] if lines is None else lines

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it has ended; None while it runs."""
        return None if self._process is None else self._process.poll()

    def launch(self) -> None:
        """Start the process without waiting for the broker in it."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        assert self._process.stderr is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stderr,), daemon=True)
        self._reader.start()

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> int:
        """Wait until the broker is ready; returns the port for clients. Raises StartError, and leaves no process behind."""
        self._ready.wait(timeout_s)
        if not self._port:
            self.kill()
            raise StartError("the broker did not come up:\n" + self.last_lines())
        return self._port

    def start(self) -> int:
        """Start, and wait until the broker is ready; returns the port for clients."""
        self.launch()
        return self.wait_ready()

    def last_lines(self) -> str:
        """The end of its log."""
        return "\n".join(self.lines[-_LAST_LINES:])

    def _read(self, stream: IO[str]) -> None:
        import json

        for line in stream:
            self.lines.append(line.rstrip())
            if not self._port and '"listen"' in line:
                with contextlib.suppress(ValueError):
                    self._port = int(json.loads(line)["listen"].split(",")[0].rpartition(":")[2])
                    self._ready.set()
        self._ready.set()

    def terminate(self) -> None:
        """Ask it to stop; `stop` waits for that. Asking twice would end it at once."""
        if not self._asked_to_stop:
            self._asked_to_stop = True
            self._signal(signal.SIGTERM)

    def stop(self) -> None:
        """SIGTERM, and wait for the end. Raises RuntimeError when there is none, or not a clean one."""
        assert self._process is not None
        self.terminate()
        try:
            code = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError("the broker did not stop:\n" + self.last_lines()) from None
        self._close()
        if code != 0:
            raise RuntimeError(f"the broker ended with status {code}:\n" + self.last_lines())

    def kill(self) -> None:
        """SIGKILL, in the middle of whatever it does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._close()

    def pause(self) -> None:
        """SIGSTOP: it hangs, but its sockets stay open."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, number)

    def _close(self) -> None:
        assert self._process is not None and self._reader is not None and self._process.stderr is not None
        self._reader.join()
        self._process.stderr.close()
