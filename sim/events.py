"""Virtual time: one seeded event queue, processes that live, pause and die, and a trace of what happened.

A callback belongs to a process or to nobody. A process that died runs no callback of its former life. A process that is paused (SIGSTOP) runs its
callbacks when it goes on: those of its timers before those of its sockets or mixed with them, because a real event loop promises neither.

Everything random is drawn from generators that are seeded by the run's seed and a name, so one seed is one history.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from random import Random

Callback = Callable[[], None]

TRACE_LENGTH = 4000


class InvariantError(AssertionError):
    """Something that must hold does not."""


class Process:
    """What can be killed, paused and started again."""

    __slots__ = ("deferred", "is_alive", "is_paused", "life", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.life = 0
        self.is_alive = False
        self.is_paused = False
        self.deferred: list[tuple[bool, int, Callback]] = []

    def __repr__(self) -> str:
        return self.name

    @property
    def is_running(self) -> bool:
        """Whether it does anything right now."""
        return self.is_alive and not self.is_paused


class Timer:
    """A callback that can be called off."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callback) -> None:
        self.callback: Callback | None = callback

    def cancel(self) -> None:
        """It will not be called."""
        self.callback = None

    def __call__(self) -> None:
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


class Simulation:
    """The queue, the clock, the dice and the trace."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_us = 0
        self.steps = 0
        self.trace: deque[tuple[int, str]] = deque(maxlen=TRACE_LENGTH)
        self.on_trace: Callable[[int, str], None] | None = None
        # Called after each event: the invariants.
        self.after_each: Callable[[Process | None], None] | None = None
        self._queue: list[tuple[int, int, Process | None, int, bool, Callback]] = []
        self._number = 0

    @property
    def now_ms(self) -> int:
        """The time in milliseconds, which is what pure code is told."""
        return self.now_us // 1000

    @property
    def now_s(self) -> float:
        """The time in seconds."""
        return self.now_us / 1_000_000

    def dice(self, name: str) -> Random:
        """A generator of its own for each purpose: one draw more in one place must not change the faults of another."""
        return Random(f"{self.seed}/{name}")

    def note(self, who: object, text: str) -> None:
        """Add a line to the trace."""
        line = f"{who!s:>9}  {text}"
        self.trace.append((self.now_us, line))
        if self.on_trace is not None:
            self.on_trace(self.now_us, line)

    # Scheduling.

    def at(self, delay_us: int, callback: Callback, owner: Process | None = None, *, timer: bool = True) -> None:
        """Call back after a delay; `owner` is the process whose doing it is."""
        self._number += 1
        life = owner.life if owner is not None else 0
        heapq.heappush(self._queue, (self.now_us + delay_us, self._number, owner, life, timer, callback))

    def timer(self, delay_us: int, callback: Callback, owner: Process | None = None) -> Timer:
        """The same with a handle."""
        timer = Timer(callback)
        self.at(delay_us, timer, owner)
        return timer

    def run(self, until_us: int) -> None:
        """Run all events up to a time."""
        queue = self._queue
        while queue and queue[0][0] <= until_us:
            when, _, owner, life, is_timer, callback = heapq.heappop(queue)
            self.now_us = when
            if owner is not None:
                if life != owner.life or not owner.is_alive:
                    continue
                if owner.is_paused:
                    owner.deferred.append((is_timer, life, callback))
                    continue
            callback()
            self.steps += 1
            if self.after_each is not None:
                self.after_each(owner)
        self.now_us = until_us

    # What happens to processes.

    def kill(self, process: Process) -> None:
        """It is gone, with everything it was about to do."""
        process.is_alive = process.is_paused = False
        process.life += 1
        process.deferred.clear()

    def start(self, process: Process) -> None:
        """A new life."""
        process.life += 1
        process.is_alive = True
        process.is_paused = False

    def pause(self, process: Process) -> None:
        """It stops in its tracks."""
        process.is_paused = True

    def resume(self, process: Process, timers_first: bool) -> None:
        """It goes on and finds everything that has become due, in an order that the system does not promise."""
        process.is_paused = False
        deferred, process.deferred = process.deferred, []
        if timers_first:
            deferred.sort(key=lambda entry: not entry[0])
        for is_timer, life, callback in deferred:
            if life == process.life:
                self.at(0, callback, process, timer=is_timer)
