"""Compacts logs in the background: looks for the dirtiest one, has a process of its own do the work, swaps the results in.

    every log.cleaner.backoff.ms         which compacted log is due? (kafkapy/log/cleaner.py decides)
    a process per log.cleaner.threads    reads, decides, writes `*.cleaned` files; started when it is needed, ended when it is not
    for each finished group              swap it in, on the loop: a few renames; the folder is synced in a thread
    at the end                           the cleaner's checkpoint says how far the log is clean

A log that changes under the work (truncated, trimmed, deleted) makes the result worthless, which is noticed before it is swapped in. A log
that cannot be compacted is named once and left alone until the next start. A full disk is waited for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import trio

from kafkapy.errors import StorageError
from kafkapy.log.cleaner import CleanableRange, CompactionJob, cleanable_range, is_due
from kafkapy.log.cleaner_checkpoint import CleanerCheckpoint
from kafkapy.log.compaction_task import CompactedGroup, CompactionStats
from kafkapy.server.cleaner_worker import Worker, WorkerDiedError
from kafkapy.server.maintenance import PARTITIONS_PER_SLICE, Deleter

if TYPE_CHECKING:
    from kafkapy.config.broker_config import BrokerConfig
    from kafkapy.log.filesystem import Filesystem
    from kafkapy.log.log import Log
    from kafkapy.log.partition import Partition
    from kafkapy.types import TopicPartition

log = logging.getLogger("kafkapy.cleaner")

# A process that has nothing to do for this long gives its memory back.
WORKER_IDLE_S = 30.0
# log.cleaner.backoff.ms may be 0, which must not mean to look all the time.
BACKOFF_S_MIN = 0.05


class _Interrupted(Exception):
    """The log is not what it was when the work began: what is still to come is not wanted."""


class Cleaner:
    """All compaction of one broker. `config` may be replaced at any time."""

    def __init__(
        self,
        partitions: Callable[[], Iterable[Partition]],
        config: BrokerConfig,
        clock_ms: Callable[[], int],
        failed: Callable[[StorageError], None],
    ) -> None:
        """`partitions` gives those that this broker has now; idle ones, whose logs are not open, are left alone."""
        self.config = config
        self._partitions = partitions
        self._clock_ms = clock_ms
        self._failed = failed
        self._checkpoints: dict[str, CleanerCheckpoint] = {}
        self._checkpoint_lock = trio.Lock()
        self._busy: set[Partition] = set()
        # Partitions whose last round came to nothing, and when they may be tried again.
        self._resting: dict[Partition, float] = {}
        self._uncleanable: dict[TopicPartition, Log] = {}
        self._idle: list[Worker] = []
        self._round_over = trio.Event()
        self._deleter: Deleter
        self._scope: trio.CancelScope | None = None
        self._ended = trio.Event()
        self._ended.set()

    # The loop.

    async def run(self) -> None:
        """Compact whatever is due, until cancelled or stopped."""
        if not self.config.log_cleaner_enable:
            return
        self._ended = trio.Event()
        try:
            with trio.CancelScope() as self._scope:
                await self._run()
        finally:
            await self._stop_workers(idle_since=float("inf"))
            self._ended.set()

    async def stop(self) -> None:
        """End all work and wait for its end: from here on no log is touched, so they can be closed."""
        if self._scope is not None:
            self._scope.cancel()
        await self._ended.wait()

    async def _run(self) -> None:
        async with trio.open_nursery() as nursery:
            self._deleter = Deleter(nursery)
            while True:
                found = await self._next_job() if len(self._busy) < self.config.log_cleaner_threads else None
                if found is None:
                    await self._rest()
                else:
                    self._busy.add(found[0])
                    nursery.start_soon(self._compact, *found)

    async def _rest(self) -> None:
        """Wait until a round is over or it is time to look again."""
        seconds = max(BACKOFF_S_MIN, self._backoff_s)
        with trio.move_on_after(min(seconds, WORKER_IDLE_S) if self._idle else seconds):
            await self._round_over.wait()
        now = trio.current_time()
        self._round_over = trio.Event()
        await self._stop_workers(idle_since=now - WORKER_IDLE_S)
        self._resting = {partition: until for partition, until in self._resting.items() if until > now}

    @property
    def _backoff_s(self) -> float:
        return self.config.log_cleaner_backoff_ms / 1000

    async def _stop_workers(self, idle_since: float) -> None:
        unused = [worker for worker in self._idle if worker.idle_since < idle_since]
        self._idle = [worker for worker in self._idle if worker not in unused]
        for worker in unused:
            await worker.stop()

    # Choosing.

    async def _next_job(self) -> tuple[Partition, CompactionJob] | None:
        """The dirtiest log that is due, and what is to be done with it."""
        best: Partition | None = None
        best_ratio = -1.0
        compacted = set()
        for position, partition in enumerate(self._partitions()):
            if position % PARTITIONS_PER_SLICE == 0:
                await trio.lowlevel.checkpoint()
            opened = partition.opened
            if opened is None or not opened.config.compact:
                continue
            compacted.add(partition.topic_partition)
            dirty = self._due(partition, opened)
            if dirty is not None and dirty.dirty_ratio > best_ratio:
                best, best_ratio = partition, dirty.dirty_ratio
        await self._forget_deleted(compacted)
        self._uncleanable = {name: opened for name, opened in self._uncleanable.items() if name in compacted}
        # Others ran meanwhile, so the winner is asked once more.
        opened = best.opened if best is not None else None
        dirty = self._due(best, opened) if best is not None and opened is not None else None
        if best is None or opened is None or dirty is None or not self._is_held(best):
            return None
        config = self.config
        try:
            job = CompactionJob(
                opened,
                dirty,
                self._clock_ms(),
                map_bytes=config.log_cleaner_dedupe_buffer_size // max(1, config.log_cleaner_threads),
                map_load_factor=config.log_cleaner_io_buffer_load_factor,
            )
        except StorageError as error:
            self._give_up(opened, str(error))
            return None
        return best, job

    def _due(self, partition: Partition, opened: Log) -> CleanableRange | None:
        """What is to be compacted of a log, if it is due and may be touched."""
        name = partition.topic_partition
        if partition in self._busy or partition in self._resting or self._uncleanable.get(name) is opened:
            return None
        if opened.failure is not None:
            return None
        try:
            checkpoint = self._checkpoint_of(opened).get(name, opened.topic_id)
            dirty = cleanable_range(opened, partition.last_stable_offset, checkpoint, self._clock_ms())
        except StorageError as error:
            self._give_up(opened, str(error))
            return None
        return dirty if is_due(opened, dirty) else None

    def _is_held(self, partition: Partition) -> bool:
        """Whether this broker still has the partition."""
        return any(one is partition for one in self._partitions())

    def _give_up(self, opened: Log, why: str) -> None:
        """Leave a log alone from now on."""
        log.error("%s cannot be compacted and is left as it is: %s", opened.topic_partition, why)
        self._uncleanable[opened.topic_partition] = opened

    # One round.

    async def _compact(self, partition: Partition, job: CompactionJob) -> None:
        """Have one job done. Whatever happens ends the round and not the cleaner."""
        name, started = job.log.topic_partition, trio.current_time()
        worker: Worker | None = None
        is_idle = False
        try:
            worker = await self._worker()
            rate = self.config.log_cleaner_io_max_bytes_per_second / max(1, self.config.log_cleaner_threads)
            await worker.send({**job.task._asdict(), "bytes_per_second": rate})
            stats = await self._follow(worker, partition, job)
            is_idle = True
            if stats is not None:
                _log_round(name, stats, trio.current_time() - started)
        except _Interrupted:
            log.info("%s changed while it was being compacted; the result is thrown away", name)
            self._let_rest(partition)
        except WorkerDiedError as error:
            self._give_up(job.log, f"the process that did it ended {error}")
        except StorageError as error:
            self._uncleanable[name] = job.log
            self._failed(error)
        except OSError as error:
            log.error("cannot start a process to compact %s: %s", name, error.strerror)
            self._let_rest(partition)
        finally:
            if worker is not None and is_idle:
                worker.idle_since = trio.current_time()
                self._idle.append(worker)
            elif worker is not None:
                await worker.stop()
                self._discard_unfinished(job)
            self._busy.discard(partition)
            self._round_over.set()

    async def _worker(self) -> Worker:
        """One that waits for work, or a new one. What killed an idle one is not the fault of the log that comes next."""
        while self._idle:
            worker = self._idle.pop()
            if worker.is_alive:
                return worker
            await worker.stop()
        return await Worker.start()

    async def _follow(self, worker: Worker, partition: Partition, job: CompactionJob) -> CompactionStats | None:
        """Carry out what the worker says until it is done; None when it could not be."""
        is_complete = True
        while True:
            message = await worker.receive()
            ((kind, content), *_) = message.items()
            if not (job.is_current() and self._is_held(partition)):
                raise _Interrupted
            if kind == "group":
                paths = job.install(CompactedGroup(*content))
                if paths is None:
                    is_complete = False
                else:
                    await trio.to_thread.run_sync(_sync_folder, job.log.pool.fs, job.log.folder)
                    self._deleter.delete_later(paths, job.log.config.file_delete_delay_ms)
            elif kind == "done":
                stats = CompactionStats(*content)
                if is_complete:
                    await self._note_clean(job, stats.end_offset)
                else:
                    self._let_rest(partition)
                return stats
            else:
                self._note_refusal(partition, job, message)
                return None

    def _note_refusal(self, partition: Partition, job: CompactionJob, message: dict[str, Any]) -> None:
        """The worker could not do it."""
        name = job.log.topic_partition
        self._discard_unfinished(job)
        if "damaged" in message:
            self._give_up(job.log, message["damaged"])
        elif "failed" in message:
            path, why = message["failed"]
            if not message["full"]:
                raise StorageError(path, why)
            log.warning("compaction of %s waits: %s: %s", name, path, why)
            self._let_rest(partition)
        else:
            log.info("%s changed while it was being compacted: %s", name, message["gone"])
            self._let_rest(partition)

    def _let_rest(self, partition: Partition) -> None:
        self._resting[partition] = trio.current_time() + max(BACKOFF_S_MIN, self._backoff_s)

    def _discard_unfinished(self, job: CompactionJob) -> None:
        """Remove what was being written, where the folder is still this log's; the next start would do it, too."""
        if self._is_current_log(job.log):
            try:
                job.discard_unfinished()
            except StorageError as error:
                self._failed(error)

    def _is_current_log(self, opened: Log) -> bool:
        return any(one.opened is opened for one in self._partitions())

    # The checkpoint.

    def _checkpoint_of(self, opened: Log) -> CleanerCheckpoint:
        """The checkpoint of the data folder that a log is in."""
        folder = opened.folder.rpartition("/")[0] or "."
        checkpoint = self._checkpoints.get(folder)
        if checkpoint is None:
            checkpoint = self._checkpoints[folder] = CleanerCheckpoint(opened.pool.fs, folder)
        return checkpoint

    async def _note_clean(self, job: CompactionJob, end_offset: int) -> None:
        """The log is clean up to an offset."""
        opened = job.log
        checkpoint = self._checkpoint_of(opened)
        checkpoint.set(opened.topic_partition, opened.topic_id, end_offset)
        await self._write(checkpoint)

    async def _forget_deleted(self, compacted: set[TopicPartition]) -> None:
        """Drop the lines of partitions that are gone, so that later ones of their names inherit nothing."""
        for checkpoint in self._checkpoints.values():
            gone = checkpoint.forget_missing(compacted)
            if gone:
                try:
                    await self._write(checkpoint)
                except StorageError as error:
                    self._failed(error)

    async def _write(self, checkpoint: CleanerCheckpoint) -> None:
        async with self._checkpoint_lock:
            await trio.to_thread.run_sync(checkpoint.write, checkpoint.offsets())


def _sync_folder(fs: Filesystem, folder: str) -> None:
    """In a thread: make the names in a folder durable, if it still exists."""
    try:
        fs.sync_folder(folder)
    except FileNotFoundError:
        log.debug("%s is gone", folder)


def _log_round(name: TopicPartition, stats: CompactionStats, seconds: float) -> None:
    log.info(
        "compacted %s up to offset %d in %.1f s: %d of %d records are left, %d bytes",
        name,
        stats.end_offset,
        seconds,
        stats.records_kept,
        stats.records_read,
        stats.bytes_written,
    )
