"""Deadlines without a clock: a heap that the shell asks for the next one, and that names what has come due.

Theory of operation. Nearly every deadline of a group coordinator is a session timeout that a heartbeat moves to later,
again and again. Moving one is therefore only a store: the entry keeps the place in the heap that it got first, too
early now. When that place comes up, the entry is either due or is put back with its real deadline. A member that
heartbeats every three seconds under a session timeout of 45 touches the heap once in 45 seconds. Only a deadline that
moves to *earlier* than its place is pushed again; the old place is then recognised as stale because it is not the one
the entry remembers.

Keys are tuples whose first element is the owner, so that everything of one owner can be dropped at once.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

TimerKey = tuple[Any, ...]

# Positions in an entry: the deadline that counts, and the place in the heap that will look at it.
_DEADLINE = 0
_PLACE = 1


class TimerQueue:
    """Deadlines by key. `on_earlier` is called when the earliest one moved forward: the shell shortens its sleep."""

    __slots__ = ("_entries", "_heap", "_sequence", "on_earlier")

    def __init__(self, on_earlier: Callable[[], None] | None = None) -> None:
        self._entries: dict[TimerKey, list[int | None]] = {}
        self._heap: list[tuple[int, int, TimerKey]] = []
        self._sequence = 0
        self.on_earlier = on_earlier

    def schedule(self, key: TimerKey, deadline_ms: int) -> None:
        """Set the key's deadline, in place of the one that it had."""
        entry = self._entries.get(key)
        if entry is None:
            self._entries[key] = [deadline_ms, deadline_ms]
        else:
            entry[_DEADLINE] = deadline_ms
            place = entry[_PLACE]
            if place is not None and place <= deadline_ms:
                return
            entry[_PLACE] = deadline_ms
        self._push(key, deadline_ms)

    def cancel(self, key: TimerKey) -> None:
        """Forget the key's deadline, if it has one. Its place in the heap is dropped when it comes up."""
        entry = self._entries.get(key)
        if entry is not None:
            entry[_DEADLINE] = None

    def deadline_of(self, key: TimerKey) -> int | None:
        """The deadline of the key, or None."""
        entry = self._entries.get(key)
        return None if entry is None else entry[_DEADLINE]

    def next_deadline(self) -> int | None:
        """When to call `expire` next. It may be too early, never too late."""
        return self._heap[0][0] if self._heap else None

    def expire(self, now_ms: int) -> list[TimerKey]:
        """The keys whose deadline has come, earliest first; they are forgotten."""
        due: list[TimerKey] = []
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            place, _, key = heapq.heappop(heap)
            entry = self._entries.get(key)
            if entry is None or entry[_PLACE] != place:
                continue
            deadline_ms = entry[_DEADLINE]
            if deadline_ms is None:
                del self._entries[key]
            elif deadline_ms <= now_ms:
                del self._entries[key]
                due.append(key)
            else:
                entry[_PLACE] = deadline_ms
                self._push(key, deadline_ms)
        return due

    def discard_owner(self, owner: object) -> None:
        """Forget every deadline whose key begins with this object."""
        for key in [key for key in self._entries if key[0] is owner]:
            del self._entries[key]

    def __len__(self) -> int:
        """How many deadlines are set."""
        return sum(1 for entry in self._entries.values() if entry[_DEADLINE] is not None)

    def _push(self, key: TimerKey, place_ms: int) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (place_ms, self._sequence, key))
        if self.on_earlier is not None and self._heap[0][2] is key:
            self.on_earlier()
