"""What clients meant to do and what they were told: the only source of truth that does not come from the brokers."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple


class Ack(NamedTuple):
    """A record that a broker has acknowledged; the client does not always know at which offset."""

    value: str
    offset: int | None


class Ledger:
    """Records by partition, from all producers. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.acked: dict[tuple[str, int], list[Ack]] = {}
        self.refused: list[tuple[str, str]] = []
        self.sent = 0
        self._last_ack: dict[tuple[str, int], float] = {}
        self._longest: dict[tuple[str, int], float] = {}

    def send(self) -> None:
        """A record is about to be sent; from here on it may be in the log."""
        with self._lock:
            self.sent += 1

    def ack(self, topic: str, partition: int, value: str, offset: int | None) -> None:
        """A record is in the log for good."""
        now = time.monotonic()
        key = (topic, partition)
        with self._lock:
            self.acked.setdefault(key, []).append(Ack(value, offset))
            self._longest[key] = max(self._longest.get(key, 0.0), now - self._last_ack.get(key, now))
            self._last_ack[key] = now

    def refuse(self, value: str, reason: str) -> None:
        """A record was given up: it may be in the log once, or not at all."""
        with self._lock:
            self.refused.append((value, reason))

    @property
    def acked_count(self) -> int:
        """How many records were acknowledged."""
        with self._lock:
            return sum(len(found) for found in self.acked.values())

    def take_longest_gaps(self) -> dict[tuple[str, int], float]:
        """The longest time without an acknowledgement since the last call, per partition; what still lasts counts, too."""
        now = time.monotonic()
        with self._lock:
            gaps = {key: max(self._longest.get(key, 0.0), now - last) for key, last in self._last_ack.items()}
            self._longest.clear()
            self._last_ack = dict.fromkeys(self._last_ack, now)
            return gaps


class Transaction(NamedTuple):
    """The records that one transaction wrote, one per partition, and how it ended: committed, aborted or unknown."""

    values: dict[tuple[str, int], str]
    end: str
