"""What compaction in the background costs those in the foreground: the p99 of small appends and reads, with and without.

    python -m bench.compaction [--megabytes 1000] [--record-bytes 1000] [--generations 16] [--rate BYTES_PER_SECOND] [--folder DIR]

A partition of that size, which holds every key as often as there are generations, is compacted by the broker's own cleaner, while
the same loop appends to and reads from another partition at a steady pace. Each operation is timed from the moment when it was due, so
that a loop that is held up shows in full.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import trio

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.log_config import LogConfigs
from kafkapy.errors import StorageError
from kafkapy.log.files import FilePool
from kafkapy.log.log import Log
from kafkapy.log.partition import Partition
from kafkapy.server.cleaner import Cleaner
from kafkapy.types import TopicPartition
from kafkapy.wire.records import BatchBuilder

BATCH_BYTES = 16 * 1024
INTERVAL_S = 0.002
BASELINE_S = 10.0
SEGMENT_BYTES = 256 * 1024 * 1024

CONFIGS = LogConfigs(BrokerConfig({}))


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def open_partition(folder: str, name: str, **settings: str) -> Partition:
    """A partition that this process leads alone."""
    topic_partition = TopicPartition(name, 0)
    config = CONFIGS.of({"segment.bytes": str(SEGMENT_BYTES), **settings})
    log = Log.open(
        f"{folder}/{topic_partition}",
        config,
        topic_partition=topic_partition,
        topic_id=bytes(16),
        now_ms=now_ms(),
        pool=FilePool(),
    )
    partition = Partition(topic_partition, bytes(16), 1, lambda: log)
    partition.make_leader(0, (1,), (1,))
    assert partition.log is log
    return partition


def fill(partition: Partition, megabytes: int, record_bytes: int, generations: int) -> None:
    """The same keys again and again, each time with all of them."""
    count = max(1, megabytes * 1_000_000 // generations // BATCH_BYTES)
    key = 0
    value = os.urandom(max(1, record_bytes - 30))
    batches = []
    for _ in range(count):
        builder = BatchBuilder()
        while builder.size < BATCH_BYTES:
            builder.append(now_ms(), b"key-%012d" % key, value)
            key += 1
        batches.append(builder.build())
    for _ in range(generations):
        for batch in batches:
            partition.append_as_leader(batch, now_ms=now_ms())
    partition.log.roll(now_ms())
    partition.log.flush(now_ms())


def small_batch() -> bytearray:
    """One record of a kilobyte."""
    builder = BatchBuilder()
    builder.append(now_ms(), b"key", os.urandom(1000))
    return builder.build()


async def foreground(partition: Partition, over: trio.Event) -> list[float]:
    """Append and read at a steady pace until it is over; the seconds that each took, from when it was due."""
    taken = []
    batch = small_batch()
    due = trio.current_time()
    while not over.is_set():
        due += INTERVAL_S
        await trio.sleep_until(due)
        info = partition.append_as_leader(batch, now_ms=now_ms())
        partition.read(max(0, info.first_offset - 100), 1024).records.read_bytes()
        taken.append(trio.current_time() - due)
    return taken


def describe(name: str, taken: list[float]) -> float:
    """Print a line; the p99 in milliseconds."""
    taken = sorted(taken)
    p50, p99, p999 = (taken[int(len(taken) * part)] * 1000 for part in (0.5, 0.99, 0.999))
    print(f"{name:28s} {len(taken):7d} operations   p50 {p50:7.3f} ms   p99 {p99:7.3f} ms   p99.9 {p999:7.3f} ms")
    return p99


async def baseline(partition: Partition) -> list[float]:
    """The foreground alone."""
    over = trio.Event()

    async def clock() -> None:
        await trio.sleep(BASELINE_S)
        over.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(clock)
        return await foreground(partition, over)


async def beside_compaction(front: Partition, back: Partition, rate: float) -> tuple[list[float], float]:
    """The foreground while the other partition is compacted, and how long that took."""
    broker: Any = SimpleNamespace(
        log_cleaner_enable=True,
        log_cleaner_threads=1,
        log_cleaner_backoff_ms=100,
        log_cleaner_dedupe_buffer_size=128 * 1024 * 1024,
        log_cleaner_io_buffer_load_factor=0.9,
        log_cleaner_io_max_bytes_per_second=rate,
    )
    failures: list[StorageError] = []
    cleaner = Cleaner(lambda: [front, back], broker, now_ms, failures.append)
    checkpoint = Path(back.log.folder).parent / "cleaner-offset-checkpoint"
    over = trio.Event()
    started = trio.current_time()

    async def wait() -> None:
        while not checkpoint.exists():
            await trio.sleep(0.05)
            assert not failures, failures
        over.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cleaner.run)
        nursery.start_soon(wait)
        taken = await foreground(front, over)
        seconds = trio.current_time() - started
        nursery.cancel_scope.cancel()
    return taken, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--record-bytes", type=int, default=1000)
    parser.add_argument("--generations", type=int, default=16, help="one of so many records is worth keeping")
    parser.add_argument("--rate", type=float, default=1e300, help="log.cleaner.io.max.bytes.per.second")
    parser.add_argument("--folder", default=None, help="where to work; a temporary folder by default")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        back = open_partition(folder, "back")
        fill(back, arguments.megabytes, arguments.record_bytes, arguments.generations)
        back.log.update_config(CONFIGS.of({"segment.bytes": str(SEGMENT_BYTES), "cleanup.policy": "compact"}))
        front = open_partition(folder, "front")
        before = back.log.size_bytes
        alone = describe("alone", trio.run(baseline, front))
        taken, seconds = trio.run(beside_compaction, front, back, arguments.rate)
        beside = describe("beside compaction", taken)
        again = describe("alone once more", trio.run(baseline, front))
        after = back.log.size_bytes
        print(
            f"compacted {before / 1e6:.0f} MB to {after / 1e6:.0f} MB in {seconds:.1f} s ({before / 1e6 / seconds:.0f} MB/s); "
            f"p99 beside / alone: {beside / max(alone, again):.2f} (target: below 2)"
        )


if __name__ == "__main__":
    main()
