"""Makes logs durable in worker threads: one fsync serves everybody who appended before it began.

While a log is being flushed, requests for it gather; when the fsync is over, one more covers them all. So with flush.messages=1 many producers share
a few fsyncs, and the loop never waits for a disk. Whoever waits for durability parks on the partition, which is woken after each flush.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from kafkapy.errors import StorageError

if TYPE_CHECKING:
    from kafkapy.log.flush import FlushWork
    from kafkapy.log.partition import Partition

log = logging.getLogger("kafkapy.flusher")

# Disks profit from a few parallel fsyncs; more only queue up inside the kernel.
PARALLEL_FLUSHES = 4


class Flusher:
    """All flushing of one broker."""

    def __init__(
        self,
        nursery: trio.Nursery,
        clock_ms: Callable[[], int],
        flushed: Callable[[Partition], None],
        failed: Callable[[Partition, StorageError], None],
        kick: Callable[[], None],
    ) -> None:
        """`kick` is called in the threads when they have something for the loop."""
        self._nursery = nursery
        self._clock_ms = clock_ms
        self._flushed = flushed
        self._failed = failed
        self._kick = kick
        self._limiter = trio.CapacityLimiter(PARALLEL_FLUSHES)
        # Partitions being flushed; True when somebody has asked again meanwhile.
        self._running: dict[Partition, bool] = {}
        self._idle: trio.Event | None = None

    def request(self, partition: Partition) -> None:
        """Make everything that the partition's log holds now durable, soon."""
        if partition in self._running:
            self._running[partition] = True
            return
        self._running[partition] = False
        self._nursery.start_soon(self._flush, partition)

    async def wait_idle(self) -> None:
        """Until no thread is flushing. The broker stops: files must not be closed under an fsync."""
        while self._running:
            self._idle = trio.Event()
            await self._idle.wait()

    async def _flush(self, partition: Partition) -> None:
        try:
            await self._flush_while_asked(partition)
        finally:
            if not self._running and self._idle is not None:
                self._idle.set()

    async def _flush_while_asked(self, partition: Partition) -> None:
        again = True
        while again:
            self._running[partition] = False
            try:
                work = partition.log.prepare_flush()
                try:
                    if not work.is_empty:
                        await trio.to_thread.run_sync(self._run, work, limiter=self._limiter)
                finally:
                    work.finish(self._clock_ms())
            except StorageError as error:
                del self._running[partition]
                self._failed(partition, error)
                self._flushed(partition)  # Whoever waits for it is told that it failed.
                return
            again = self._running[partition]
            if not again:
                del self._running[partition]
            self._flushed(partition)

    def _run(self, work: FlushWork) -> None:
        try:
            work.run()
        finally:
            self._kick()
