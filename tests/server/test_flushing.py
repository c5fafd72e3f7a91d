"""Durable answers: producers share fsyncs, and a flush that fails, or whose topic is gone, harms nobody else."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

import pytest

from kafkapy.errors import ErrorCode, StartError
from kafkapy.log.filesystem import OsFilesystem
from kafkapy.testing import Broker
from kafkapy.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.server.support import PATIENCE_S, is_served, wait_until
from tests.support.requests import batch, produce
from tests.support.wire_client import WireClient, connected

EVERY_MESSAGE = {"flush.messages": "1"}


class GatedDisk(OsFilesystem):
    """The real disk, whose fsyncs are counted and wait behind a gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.begun = 0
        self.failure: OSError | None = None

    def fsync(self, fd: int, /) -> None:  # type: ignore[override]
        """Wait for the gate, then do it, or fail."""
        self.begun += 1
        assert self.gate.wait(PATIENCE_S)
        if self.failure is not None:
            raise self.failure
        OsFilesystem.fsync(fd)


def gated(broker: Broker, topic: str) -> GatedDisk:
    """Make `topic` and put the gate before its disk; its first flush, which syncs the folder's other files too, is over."""
    broker.create_topic(topic, 1, EVERY_MESSAGE)
    with connected(broker.bootstrap) as wire:
        wire.request(produce(topic, batch(b"first")), 9)
    disk = broker.parts.logs.pool.fs = GatedDisk()
    return disk


def log_end(broker: Broker, topic: str) -> Callable[[], int]:
    """A function that says how many records the topic holds."""
    partition = broker.parts.replicas.find(topic, 0)
    return lambda: int(partition.log.log_end_offset)


def test_many_producers_share_one_fsync() -> None:
    """While one fsync runs, whoever appends waits for the next one, and that one serves them all."""
    with Broker() as broker:
        disk = gated(broker, "durable")
        end = log_end(broker, "durable")
        producers = [WireClient("127.0.0.1", broker.port) for _ in range(20)]
        producers[0].send(produce("durable", batch(b"one")), 9)
        wait_until(lambda: disk.begun == 1)
        for producer in producers[1:]:
            producer.send(produce("durable", batch(b"more")), 9)
        wait_until(lambda: end() == 21)
        assert all(producer.is_silent(0.001) for producer in producers)
        disk.gate.set()
        answers = [producer.receive().responses[0].partition_responses[0] for producer in producers]
        assert sorted(answer.base_offset for answer in answers) == list(range(1, 21))
        assert disk.begun == 2
        for producer in producers:
            producer.close()


def test_a_failed_fsync_is_told_at_once() -> None:
    """Nobody waits for the end of his timeout to learn that the disk has failed. A broker that has no other one stops."""
    with (
        pytest.raises(StartError, match="no data folder is left"),
        Broker() as broker,
        connected(broker.bootstrap) as wire,
    ):
        disk = gated(broker, "failing")
        disk.failure = OSError(errno.EIO, "Input/output error")
        disk.gate.set()
        answer = wire.request(produce("failing", batch(b"lost"), timeout_ms=60_000), 9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_topic_deleted_while_it_is_flushed_takes_nothing_offline() -> None:
    """The files of a deleted topic are gone, which says nothing about the disk."""
    with Broker() as broker, connected(broker.bootstrap) as first, connected(broker.bootstrap) as second:
        disk = gated(broker, "deleted")
        end = log_end(broker, "deleted")
        first.send(produce("deleted", batch(b"one")), 9)
        wait_until(lambda: disk.begun == 1)
        second.send(produce("deleted", batch(b"two")), 9)
        wait_until(lambda: end() == 3)
        broker.parts.logs.pool.fs = OsFilesystem()
        with connected(broker.bootstrap) as admin:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name="deleted")], timeout_ms=10_000)
            assert not admin.request(request, 6).responses[0].error_code
        disk.gate.set()
        codes = [one.receive().responses[0].partition_responses[0].error_code for one in (first, second)]
        assert ErrorCode.KAFKA_STORAGE_ERROR not in codes
        wait_until(lambda: not broker.parts.flusher._running)
        assert [folder.failure for folder in broker.parts.logs.folders] == [None]
        assert is_served(first)


def test_a_stop_waits_for_the_flush_under_way() -> None:
    """Files are not closed under a thread that syncs them; the stop is a clean one."""
    with Broker() as broker, connected(broker.bootstrap) as wire:
        disk = gated(broker, "stopped")
        wire.send(produce("stopped", batch(b"kept")), 9)
        wait_until(lambda: disk.begun == 1)
        broker.parts.request_stop_from_thread()
        assert wire.receive().responses
        assert wire.is_closed()
        broker.parts.logs.pool.fs = OsFilesystem()
        assert not (broker.data_dir / ".kafka_cleanshutdown").exists()
        disk.gate.set()
        broker.stop()
        assert (broker.data_dir / ".kafka_cleanshutdown").exists()
