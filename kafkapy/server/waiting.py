"""Parks answers that are not there yet, and wakes them by key or by deadline. The only place in the broker that does.

Theory of operation. A handler returned Wait(keys, deadline, again). It is parked under each of its keys. Code anywhere calls `wake(key)`; that only
marks the key, so it is cheap and safe from the middle of an append. `settle()`, called by whoever has finished a piece of work
(a connection after sending its answers, the quorum after publishing an image), asks every wait on a marked key again. An answer removes the wait
from all its keys and goes to the slot it was parked for. Deadlines sit in one heap; one task sleeps until the earliest.
"""

from __future__ import annotations

import heapq
import logging
import math
from collections.abc import Callable, Hashable
from typing import Any, Protocol

import trio

from kafkapy.handlers.wait import Wait

log = logging.getLogger("kafkapy.waiting")

# A heap shorter than this is not worth cleaning of answered waits.
SWEEP_AT_MIN = 1024


class Slot(Protocol):
    """Where an answer goes: the place of one request in its connection's queue."""

    def finish(self, response: Any) -> None:
        """Take the answer and send what may be sent."""

    def fail(self, error: BaseException) -> None:
        """The wait broke: this connection alone is closed."""


class _Nobody:
    """The slot of a wait whose answer is for the broker itself: a timer, or something to do when a key wakes."""

    def finish(self, response: Any) -> None:
        """Nothing is to be sent."""

    def fail(self, error: BaseException) -> None:
        """Its own mistakes are logged like those of requests."""
        log.error("a wait of the broker's own failed", exc_info=error)


NOBODY = _Nobody()


def _is_over(expired: bool) -> Any:
    raise AssertionError("a wait that is over is not asked again")


class Parked:
    """One wait with its slot."""

    __slots__ = ("again", "done", "keys", "slot")

    def __init__(self, wait: Wait, slot: Slot) -> None:
        self.keys = wait.keys
        self.again: Callable[[bool], Any] = wait.again
        self.slot: Slot = slot
        self.done = False

    def finish(self) -> None:
        """It is over. Until its deadline a heap keeps this object, but not the answer, nor the slot, which knows this object too."""
        self.done = True
        self.again = _is_over
        self.slot = NOBODY


class Waiting:
    """All parked answers of one broker."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._by_key: dict[Hashable, dict[Parked, None]] = {}
        self._marked: dict[Hashable, None] = {}
        self._deadlines: list[tuple[float, int, Parked]] = []
        self._sweep_at = SWEEP_AT_MIN
        self._sequence = 0
        self._sleep = trio.CancelScope()
        self._settling = False

    def __len__(self) -> int:
        """How many waits have a deadline ahead; answered ones leave the heap lazily."""
        return sum(1 for _, _, parked in self._deadlines if not parked.done)

    def park(self, wait: Wait, slot: Slot) -> Parked:
        """Keep this wait until a key wakes it to an answer, or its deadline passes."""
        parked = Parked(wait, slot)
        by_key = self._by_key
        for key in wait.keys:
            waits = by_key.get(key)
            if waits is None:
                by_key[key] = {parked: None}
            else:
                waits[parked] = None
        # Waits are given in wall-clock milliseconds; from here on only the monotonic clock counts, so a clock that jumps expires nothing.
        remaining_s = max(0, wait.deadline_ms - self._clock_ms()) / 1000
        deadline = trio.current_time() + remaining_s
        self._sequence += 1
        heapq.heappush(self._deadlines, (deadline, self._sequence, parked))
        if deadline < self._sleep.deadline:
            self._sleep.deadline = deadline
        return parked

    def wake(self, key: Hashable) -> None:
        """Mark a key as worth asking again; nothing happens before `settle`."""
        if key in self._by_key:
            self._marked[key] = None

    @property
    def marked(self) -> bool:
        """Whether `settle` has work."""
        return bool(self._marked)

    def settle(self) -> None:
        """Ask every wait on a marked key again. Answers may mark further keys; those are settled too."""
        if self._settling:
            return
        self._settling = True
        try:
            while self._marked:
                marked, self._marked = self._marked, {}
                for key in marked:
                    for parked in tuple(self._by_key.get(key, ())):
                        if not parked.done:
                            self._ask(parked, expired=False)
        finally:
            self._settling = False

    def forget(self, parked: Parked) -> None:
        """Drop a wait whose connection is gone."""
        if not parked.done:
            parked.finish()
            self._unlink(parked)

    def expire_all(self) -> None:
        """The broker stops: every wait answers with what it has."""
        for _, _, parked in sorted(self._deadlines, key=lambda entry: entry[1]):
            if not parked.done:
                self._ask(parked, expired=True)

    async def run(self) -> None:
        """Expire waits at their deadlines, for as long as the broker lives."""
        while True:
            self._expire()
            with trio.CancelScope(deadline=self._deadlines[0][0] if self._deadlines else math.inf) as self._sleep:
                await trio.sleep_forever()

    def _expire(self) -> None:
        deadlines = self._deadlines
        now = trio.current_time()
        while deadlines and (deadlines[0][2].done or deadlines[0][0] <= now):
            parked = heapq.heappop(deadlines)[2]
            if not parked.done:
                self._ask(parked, expired=True)
        self.settle()

    def _ask(self, parked: Parked, *, expired: bool) -> None:
        slot = parked.slot
        try:
            response = parked.again(expired)
            assert response is not None or not expired, "a wait must answer once its deadline has passed"
        except Exception as error:  # noqa: BLE001 -- one request's fault must not stop the others; it is logged and closes its connection
            self.forget(parked)
            slot.fail(error)
            return
        if response is None:
            return
        parked.finish()
        self._unlink(parked)
        slot.finish(response)

    def _unlink(self, parked: Parked) -> None:
        by_key = self._by_key
        for key in parked.keys:
            waits = by_key.get(key)
            if waits is not None:
                waits.pop(parked, None)
                if not waits:
                    del by_key[key]
        if len(self._deadlines) > self._sweep_at:
            self._sweep()

    def _sweep(self) -> None:
        """Drop answered waits from the heap; done each time it has doubled, so a wait pays for it once."""
        alive = [entry for entry in self._deadlines if not entry[2].done]
        heapq.heapify(alive)
        self._deadlines = alive
        self._sweep_at = max(SWEEP_AT_MIN, 2 * len(alive))
