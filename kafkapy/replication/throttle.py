"""How much of the network copies may take: a bucket of bytes that fills at the configured rate.

A piece may overdraw it, because whole batches travel; the next one waits until the debt is paid. The bucket holds one second's worth, so a pause
is no reason for a burst. Only replicas that are named as throttled and not in sync have to wait.
"""

from __future__ import annotations

from collections.abc import Sequence

UNLIMITED = 2**63 - 1
ALL_REPLICAS = "*"


class Throttle:
    """One side's bucket: that of what this broker sends to followers, or of what it fetches as one."""

    __slots__ = ("_bytes", "_filled_ms", "rate")

    def __init__(self, rate: int = UNLIMITED) -> None:
        """`rate` is in bytes per second."""
        self.rate = rate
        self._bytes = 0.0
        self._filled_ms = 0

    def take(self, size: int, now_ms: int) -> None:
        """So many bytes travelled."""
        self._fill(now_ms)
        if self.rate != UNLIMITED:
            self._bytes -= size

    def wait_ms(self, now_ms: int) -> int:
        """How long the next piece has to wait; 0: it may go now."""
        self._fill(now_ms)
        if self._bytes >= 0 or self.rate == UNLIMITED:
            return 0
        return min(1000, 1 + int(-self._bytes * 1000 / max(1, self.rate)))

    def _fill(self, now_ms: int) -> None:
        if now_ms > self._filled_ms:
            self._bytes = min(float(self.rate), self._bytes + self.rate * (now_ms - self._filled_ms) / 1000)
            self._filled_ms = now_ms


def is_throttled(replicas: Sequence[str], index: int, node_id: int) -> bool:
    """Whether a list like leader.replication.throttled.replicas names this partition on this broker."""
    return bool(replicas) and (ALL_REPLICAS in replicas or f"{index}:{node_id}" in replicas)
