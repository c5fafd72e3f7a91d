"""Tells many sockets that they have something to read, at the price of one task.

Theory of operation. Waiting for a socket in trio costs a system call to arm it, a task switch to come back and a turn of trio's own loop: about as
much as a small request itself. So all sockets that wait for their next request are registered once in an epoll of their own, which trio sees as
one descriptor. The task here asks it who is ready and calls them directly. What they do must not block; whoever has to wait for
something takes its socket out and goes on in its own task.

Under load the task doesn't even go back to trio between requests: it looks again, and waits up to LINGER_S for the answer to an answer. Tasks of
trio have their turn at least every TURN_S while there is work, at once after `give_way` and when a descriptor under `watch` is ready, and another
thread that has something for the loop says `kick`.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable

import trio

# The next request of a client that has just been answered is usually closer than this. Shorter than the kernel's tick, each wait would cost
# setting a timer of its own, and that a twelfth of a request's time.
LINGER_S = 0.008
TURN_S = 0.001

EVENTS_MAX = 256


class Readiness:
    """The sockets of one loop that wait to be read."""

    __slots__ = ("_closed", "_epoll", "_give_way", "_kicked", "_lock", "_on_readable")

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._on_readable: dict[int, Callable[[], None]] = {}
        self._give_way = False
        self._kicked = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._kicked, select.EPOLLIN)
        # Threads may be late: the number of a closed descriptor may be somebody else's by then.
        self._lock = threading.Lock()
        self._closed = False

    def add(self, fd: int, on_readable: Callable[[], None]) -> None:
        """Call `on_readable` whenever there is something to read, or an end or an error to find out about by reading."""
        self._on_readable[fd] = on_readable
        self._epoll.register(fd, select.EPOLLIN)

    def remove(self, fd: int) -> None:
        """Stop that; to be called before the socket is closed."""
        del self._on_readable[fd]
        self._epoll.unregister(fd)

    def watch(self, fd: int) -> None:
        """A task waits in trio for this descriptor: let it have its turn as soon as there is something. Closing it ends that."""
        self._epoll.register(fd, select.EPOLLIN | select.EPOLLET)

    def give_way(self) -> None:
        """A task has been woken or started: let it run before the next look."""
        self._give_way = True

    def kick(self) -> None:
        """From any thread: something else than a socket has news for the loop."""
        with self._lock:
            if not self._closed:
                os.eventfd_write(self._kicked, 1)

    def close(self) -> None:
        """Give the descriptors back."""
        with self._lock:
            self._closed = True
            os.close(self._kicked)
        self._epoll.close()

    async def run(self) -> None:
        """Call who is ready, for as long as the broker lives."""
        epoll, on_readable, clock = self._epoll, self._on_readable, time.monotonic
        while True:
            await trio.lowlevel.wait_readable(epoll.fileno())
            turn_ends = clock() + TURN_S
            lingers = True
            while ready := epoll.poll(LINGER_S if lingers else 0, EVENTS_MAX):
                lingers = True
                for fd, _ in ready:
                    callback = on_readable.get(fd)
                    if callback is not None:
                        callback()
                    else:
                        if fd == self._kicked:
                            os.eventfd_read(fd)
                        lingers = False
                if self._give_way or not lingers:
                    # What was woken now may run after this task within one turn of trio's loop, so it takes two to be sure that it has.
                    self._give_way = lingers = False
                    await trio.lowlevel.checkpoint()
                elif clock() < turn_ends:
                    continue
                await trio.lowlevel.checkpoint()
                turn_ends = clock() + TURN_S
