"""A bound on the memory of requests that are being read, reserved before a frame's bytes are.

Small buffers belong to their connection and are not counted (`max.connections` bounds those). A frame that needs a larger buffer reserves all
of it first; when the pool is empty the connection waits, unread, and TCP holds its sender back. First come, first served, so a large frame is
not starved by small ones. A connection keeps its large buffer for the next frame until somebody waits for memory. A frame larger than the
whole pool is let in alone, as Kafka's queued.max.request.bytes does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio


class MemoryPool:
    """Bytes that all connections of a broker may hold for frames in flight."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.used_bytes = 0
        # Called when somebody has to wait: who holds more than it needs now gives it back.
        self.reclaim: Callable[[], None] = _nobody_holds_more
        self._queue: deque[tuple[int, trio.Event]] = deque()

    @property
    def contended(self) -> bool:
        """Whether somebody waits for memory: holders then give back at once what they do not need."""
        return bool(self._queue)

    def try_reserve(self, size: int) -> bool:
        """Reserve without waiting, if nobody waits already and there is room."""
        if self._queue or not self._fits(size):
            return False
        self.used_bytes += size
        return True

    async def reserve(self, size: int) -> None:
        """Reserve, waiting for others to release."""
        if self.try_reserve(size):
            return
        granted = trio.Event()
        entry = (size, granted)
        self._queue.append(entry)
        self.reclaim()
        try:
            await granted.wait()
        except trio.Cancelled:
            if granted.is_set():
                self.release(size)
            else:
                self._queue.remove(entry)
                self._grant()
            raise

    def release(self, size: int) -> None:
        """Give back what was reserved."""
        self.used_bytes -= size
        assert self.used_bytes >= 0
        self._grant()

    def _fits(self, size: int) -> bool:
        return self.used_bytes == 0 or self.used_bytes + size <= self.size_bytes

    def _grant(self) -> None:
        while self._queue and self._fits(self._queue[0][0]):
            size, granted = self._queue.popleft()
            self.used_bytes += size
            granted.set()


def _nobody_holds_more() -> None:
    """A pool whose holders keep nothing that they don't need."""
