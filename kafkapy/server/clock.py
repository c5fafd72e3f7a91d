"""The broker's clock: wall time that never runs backwards.

Everything in a broker counts milliseconds of one clock: timestamps, sessions, deadlines. It is the monotonic clock plus an offset, so a
machine whose time is set back does not stop or repeat anything. Now and then the offset follows the wall clock: forward at once,
backward by going a little slower.
"""

from __future__ import annotations

import time

import trio

SYNC_INTERVAL_S = 10.0

# A clock that is ahead of the wall is slowed by this part until it is right again.
SLOWDOWN = 0.05


class Clock:
    """Milliseconds since 1970. Call it."""

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def __call__(self) -> int:
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000

    def follow_wall(self, elapsed_s: float) -> None:
        """Take over the wall clock's time, as far as that is possible without going back."""
        drift_ns = time.time_ns() - time.monotonic_ns() - self._offset_ns
        self._offset_ns += max(drift_ns, -int(elapsed_s * SLOWDOWN * 1_000_000_000))

    async def run(self) -> None:
        """Follow the wall clock for as long as the broker lives."""
        while True:
            await trio.sleep(SYNC_INTERVAL_S)
            self.follow_wall(SYNC_INTERVAL_S)
