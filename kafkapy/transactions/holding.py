"""Keeps requests that would be told COORDINATOR_LOAD_IN_PROGRESS until it is over, as long as that is soon.

It happens to the first producer of a cluster, whose `__transaction_state` was created a moment ago, and whenever a block of producer ids has run out:
both last milliseconds, while clients that are sent away come back after 100 to 500. Nobody tells when they are over, so what is kept is
tried again every few milliseconds, and refused in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkapy.errors import ErrorCode

HOLD_MS = 300
RETRY_MS = 5


class Held(NamedTuple):
    """A request: how to try it again, and how to refuse it."""

    deadline_ms: int
    again: Callable[[int], None]
    refuse: Callable[[ErrorCode], None]


class Holding:
    """All requests that are kept. `schedule` says that `retry` will have work at some time."""

    def __init__(self, schedule: Callable[[int], None]) -> None:
        self._schedule = schedule
        self._held: list[Held] = []
        self._retry_ms: int | None = None
        # While a request is tried again: what it is kept for again counts from when it came.
        self._deadline_ms: int | None = None

    def hold(self, now_ms: int, again: Callable[[int], None], refuse: Callable[[ErrorCode], None]) -> None:
        """Keep a request, unless it was kept for long enough."""
        deadline_ms = now_ms + HOLD_MS if self._deadline_ms is None else self._deadline_ms
        if deadline_ms <= now_ms:
            refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        self._held.append(Held(deadline_ms, again, refuse))
        if self._retry_ms is None:
            self._retry_ms = now_ms + RETRY_MS
            self._schedule(self._retry_ms)

    def next_retry(self) -> int | None:
        """When `retry` has work next."""
        return self._retry_ms

    def retry(self, now_ms: int) -> None:
        """Try everything again that is kept, in the order in which it came."""
        if self._retry_ms is None or now_ms < self._retry_ms:
            return
        self._retry_ms = None
        held, self._held = self._held, []
        for one in held:
            self._deadline_ms = one.deadline_ms
            try:
                one.again(now_ms)
            finally:
                self._deadline_ms = None
