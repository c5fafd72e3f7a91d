"""What a broker does by the clock: retention, overdue flushes, checkpoints, expiry of producers, delayed deletion of files.

Each chore is one task with Kafka's own interval. Decisions are the log's; what takes long (unlinking, fsync) runs in a thread.
A chore walks ten thousand logs in slices, giving way to clients between them.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import trio

from kafkapy.errors import KafkaError, StorageError

if TYPE_CHECKING:
    from kafkapy.log.partition import Partition
    from kafkapy.server.broker import Broker

log = logging.getLogger("kafkapy.maintenance")

PARTITIONS_PER_SLICE = 50

# Kafka looks for expired producers this often.
PRODUCER_EXPIRY_CHECK_S = 600.0


def start(broker: Broker, nursery: trio.Nursery) -> None:
    """Start all chores; they end with the nursery."""
    config = broker.config
    nursery.start_soon(_every, config.log_retention_check_interval_ms / 1000, broker.sweep_retention)
    nursery.start_soon(_every, config.log_flush_scheduler_interval_ms / 1000, broker.sweep_flushes)
    nursery.start_soon(_every, config.log_flush_offset_checkpoint_interval_ms / 1000, broker.checkpoint)
    nursery.start_soon(_every, PRODUCER_EXPIRY_CHECK_S, broker.sweep_producers)


async def _every(seconds: float, chore: Callable[[], Awaitable[None]]) -> None:
    # A scheduler interval of 2^63 ms means "never".
    while seconds < 1e9:
        await trio.sleep(seconds)
        await chore()
    await trio.sleep_forever()


async def in_slices(
    partitions: list[Partition], visit: Callable[[Partition], None], failed: Callable[[Partition, StorageError], None]
) -> None:
    """Visit every partition, giving way now and then; a failed disk, or a folder of another topic, is reported and the walk goes on."""
    for position, partition in enumerate(partitions):
        # A log that has to be opened first takes as long as a whole slice of open ones.
        if position % PARTITIONS_PER_SLICE == 0 or partition.opened is None:
            await trio.lowlevel.checkpoint()
        try:
            visit(partition)
        except StorageError as error:
            failed(partition, error)
        except KafkaError as error:
            log.error("%s cannot be looked after: %s", partition.topic_partition, error)


class Deleter:
    """Unlinks files and folders some time after they left their log, in a thread."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery

    def delete_later(self, paths: list[str], delay_ms: int) -> None:
        """Unlink after `file.delete.delay.ms`; a restart before that unlinks them at load."""
        if paths:
            self._nursery.start_soon(self._delete, paths, delay_ms / 1000)

    async def _delete(self, paths: list[str], delay_s: float) -> None:
        await trio.sleep(delay_s)
        await trio.to_thread.run_sync(_unlink_all, paths)


def _unlink_all(paths: list[str]) -> None:
    for path in paths:
        try:
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            log.error("cannot delete %s: %s", path, error.strerror)
