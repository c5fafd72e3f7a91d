"""The background cleaner with its real process: it compacts what is due, survives what goes wrong, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from kafkapy.errors import StorageError
from kafkapy.log.checkpoints import read_offsets
from kafkapy.log.filesystem import OsFilesystem
from kafkapy.log.partition import Partition
from kafkapy.server import cleaner as cleaner_module
from kafkapy.server import cleaner_process
from kafkapy.server.cleaner import Cleaner
from kafkapy.server.cleaner_process import BrokerGone, Pace
from kafkapy.server.cleaner_worker import Worker
from kafkapy.types import TopicPartition
from kafkapy.wire.records import BatchBuilder
from tests.log.cleaning import visible
from tests.log.support import NOW_MS, TOPIC_ID, append, config, open_log

COMPACT = config(cleanup_policy="compact", segment_bytes=4000, file_delete_delay_ms=0)
CHECKPOINT = "cleaner-offset-checkpoint"


class Setup:
    """A data folder with one partition, and the cleaner of a broker that has nothing else."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.failures: list[StorageError] = []
        self.log = open_log(OsFilesystem(), folder=f"{folder}/orders-0", settings=COMPACT)
        self.partition = Partition(TopicPartition("orders", 0), TOPIC_ID, 1, lambda: self.log)
        self.partition.make_leader(0, (1,), (1,))
        assert self.partition.log is self.log
        self.partitions = [self.partition]
        broker: Any = SimpleNamespace(
            log_cleaner_enable=True,
            log_cleaner_threads=1,
            log_cleaner_backoff_ms=0,
            log_cleaner_dedupe_buffer_size=1 << 20,
            log_cleaner_io_buffer_load_factor=0.9,
            log_cleaner_io_max_bytes_per_second=1e300,
        )
        vars(broker).update(settings)
        self.cleaner = Cleaner(lambda: self.partitions, broker, lambda: NOW_MS, self.failures.append)

    def fill(self, count: int = 200) -> None:
        """More than a segment of records, of which ten are worth keeping."""
        for number in range(count):
            builder = BatchBuilder()
            builder.append(NOW_MS, b"k%d" % (number % 10), b"%d" % number * 10)
            append(self.log, builder.build())
        self.log.roll(NOW_MS)
        self.partition.raise_high_watermark()

    def names(self, ending: str) -> list[str]:
        """The files in the partition's folder."""
        return sorted(name for name in os.listdir(self.folder / "orders-0") if name.endswith(ending))

    def run(self, watch: Callable[[trio.Nursery], Awaitable[None]]) -> None:
        """Run the cleaner until `watch` has seen what it waits for."""

        async def main() -> None:
            with trio.fail_after(20):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.cleaner.run)
                    await watch(nursery)
                    nursery.cancel_scope.cancel()

        trio.run(main)

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Run the cleaner until a condition holds."""

        async def watch(nursery: trio.Nursery) -> None:
            await until(condition)

        self.run(watch)


async def until(condition: Callable[[], bool]) -> None:
    """Give way to others until a condition holds."""
    while not condition():
        await trio.sleep(0.001)


def test_dirty_log_is_compacted_and_its_checkpoint_written(tmp_path: Path) -> None:
    """The whole way: choose, work in the process, swap in, checkpoint, unlink the old files. A second cleaner believes the checkpoint."""
    setup = Setup(tmp_path)
    setup.fill()
    before = {record.key: record for record in visible(setup.log, True)}
    setup.run_until(lambda: (tmp_path / CHECKPOINT).exists() and not setup.names(".deleted"))
    assert [record.offset for record in visible(setup.log, True)] == list(range(190, 200))
    assert {record.key: record for record in visible(setup.log, True)} == before
    assert setup.log.size_bytes < 2000 and not setup.failures
    assert (tmp_path / CHECKPOINT).read_text() == "0\n1\norders 0 200\n"
    assert not setup.names(".cleaned") and not setup.names(".swap")
    again = Setup.__new__(Setup)
    again.__dict__.update(setup.__dict__)
    again.cleaner = Cleaner(lambda: again.partitions, setup.cleaner.config, lambda: NOW_MS, again.failures.append)

    async def look() -> Any:
        return await again.cleaner._next_job()

    assert trio.run(look) is None


def test_log_that_is_not_dirty_enough_costs_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither does one with another cleanup policy, nor one that no partition has open."""
    monkeypatch.setattr(Worker, "start", None)
    setup = Setup(tmp_path)
    setup.log.update_config(config(cleanup_policy="delete", segment_bytes=4000))
    setup.fill()
    idle = Partition(TopicPartition("idle", 0), TOPIC_ID, 1, lambda: setup.log)
    setup.partitions.append(idle)

    async def look() -> Any:
        return await setup.cleaner._next_job()

    assert trio.run(look) is None
    setup.log.update_config(config(cleanup_policy="compact", min_cleanable_dirty_ratio=1.0))
    assert trio.run(look) is None
    setup.log.update_config(config(cleanup_policy="compact", min_compaction_lag_ms=1))
    assert trio.run(look) is None
    setup.log.update_config(config(cleanup_policy="compact,delete"))
    assert trio.run(look) is not None


def test_damaged_log_is_named_once_and_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Others are compacted all the same, and by the same process."""
    setup = Setup(tmp_path)
    setup.fill()
    path = tmp_path / "orders-0" / setup.names(".log")[0]
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    (tmp_path / "other").mkdir()
    other = Setup(tmp_path / "other")
    other.fill()
    other.partition.topic_partition = other.log.topic_partition = TopicPartition("other", 0)
    setup.partitions.append(other.partition)
    setup.run_until(lambda: (tmp_path / "other" / CHECKPOINT).exists() and bool(setup.cleaner._uncleanable))
    setup.run_until(lambda: True)
    refusals = [record.message for record in caplog.records if "cannot be compacted" in record.message]
    assert len(refusals) == 1
    assert "orders-0 cannot be compacted and is left as it is" in refusals[0] and "position 0" in refusals[0]
    assert path.read_bytes() == data and not setup.failures and not setup.names(".cleaned")


def test_killed_process_costs_one_log_and_not_the_cleaner(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies in the middle, whatever the reason, is not started for the same log again."""
    setup = Setup(tmp_path, log_cleaner_io_max_bytes_per_second=1.0)
    setup.fill()
    workers = seen_workers(monkeypatch)

    async def watch(nursery: trio.Nursery) -> None:
        await until(lambda: bool(workers) and bool(setup.names(".cleaned") or workers[0].pid))
        os.kill(workers[0].pid, signal.SIGKILL)
        await until(lambda: bool(setup.cleaner._uncleanable))

    setup.run(watch)
    assert "the process that did it ended with status -9" in caplog.text
    assert not setup.names(".cleaned") and len(workers) == 1
    assert len(visible(setup.log, True)) == 200


def test_process_that_dies_while_it_has_nothing_to_do_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log that comes next is not to blame."""
    setup = Setup(tmp_path)
    setup.fill()
    workers = seen_workers(monkeypatch)

    async def watch(nursery: trio.Nursery) -> None:
        await until(lambda: (tmp_path / CHECKPOINT).exists() and bool(setup.cleaner._idle))
        os.kill(workers[0].pid, signal.SIGKILL)
        await workers[0]._process.wait()
        setup.fill()
        await until(lambda: (tmp_path / CHECKPOINT).read_text().endswith("orders 0 400\n"))

    setup.run(watch)
    assert len(workers) == 2 and not setup.cleaner._uncleanable


def seen_workers(monkeypatch: pytest.MonkeyPatch) -> list[Worker]:
    """The processes that are started from now on."""
    workers: list[Worker] = []
    start = Worker.start

    async def starting() -> Worker:
        workers.append(await start())
        return workers[-1]

    monkeypatch.setattr(Worker, "start", starting)
    return workers


def test_partition_that_is_deleted_meanwhile_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its result is thrown away and nothing is done in a folder that may be another's by now."""
    setup = Setup(tmp_path)
    setup.fill()
    installed = []

    def deleted_before(job: Any, group: Any) -> None:
        installed.append(group)

    monkeypatch.setattr(cleaner_module.CompactionJob, "install", deleted_before)
    held = [True]
    setup.cleaner._partitions = lambda: setup.partitions if held[0] else []
    workers = seen_workers(monkeypatch)

    async def watch(nursery: trio.Nursery) -> None:
        await until(lambda: bool(workers))
        held[0] = False
        await until(lambda: not setup.cleaner._busy)

    setup.run(watch)
    assert not installed and not setup.failures and len(visible(setup.log, True)) == 200


def test_checkpoint_forgets_a_deleted_partition(tmp_path: Path) -> None:
    """A topic of the same name begins with nothing that is known to be clean."""
    (tmp_path / CHECKPOINT).write_text("0\n2\ngone 3 17\norders 0 0\n")
    setup = Setup(tmp_path)
    setup.fill()
    setup.run_until(lambda: (tmp_path / CHECKPOINT).read_text() == "0\n1\norders 0 200\n")
    assert read_offsets(OsFilesystem(), f"{tmp_path}/{CHECKPOINT}") == {TopicPartition("orders", 0): 200}


def test_stopping_ends_the_process_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long its work would take, and without its files."""
    setup = Setup(tmp_path, log_cleaner_io_max_bytes_per_second=1.0)
    setup.fill()
    workers = seen_workers(monkeypatch)

    async def watch(nursery: trio.Nursery) -> None:
        await until(lambda: bool(workers))
        await setup.cleaner.stop()
        with pytest.raises(ProcessLookupError):
            os.kill(workers[0].pid, 0)

    setup.run(watch)
    assert not setup.names(".cleaned")


def test_process_ends_with_its_broker_and_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is killed cannot end it: the end of its input does."""

    async def main() -> tuple[int, int]:
        with trio.fail_after(20):
            worker = await Worker.start()
            await worker.send({"map_bytes": 0, "bytes_per_second": 1.0, **empty_task(tmp_path)})
            assert list(await worker.receive()) == ["done"]
            status = Path(f"/proc/{worker.pid}/status").read_text()
            resident_kb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
            assert worker._process.stdin is not None
            await worker._process.stdin.aclose()
            ended = await worker._process.wait()
            await worker.stop()
            return resident_kb, ended

    resident_kb, status = trio.run(main)
    assert status == 0 and resident_kb < 25 * 1024


def test_work_ends_when_the_broker_is_gone_and_keeps_to_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed broker cannot say so: its process finds itself with another parent."""
    now_s, naps = [100.0], []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        now_s[0] += seconds

    monkeypatch.setattr(cleaner_process, "time", SimpleNamespace(monotonic=lambda: now_s[0], sleep=sleep))
    pace = Pace(1_000_000.0, os.getppid())
    for _ in range(300):
        pace.step(10_000)
    assert 2.8 <= sum(naps) <= 3.0 and max(naps) <= 0.25
    with pytest.raises(BrokerGone):
        Pace(1e300, -1).step(1)


def empty_task(folder: Path) -> dict[str, Any]:
    """A task with nothing to do."""
    return {
        "folder": str(folder),
        "segments": [],
        "first_dirty_offset": 0,
        "first_uncleanable_offset": 0,
        "now_ms": 0,
        "delete_retention_ms": 0,
        "segment_bytes": 0,
        "segment_index_bytes": 0,
        "index_interval_bytes": 0,
        "map_load_factor": 0.9,
        "aborted": [],
        "producers": [],
    }
