"""A broker with several log directories tells where its replicas are: once, again after a failure, and not what is known."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kafkapy.errors import ErrorCode
from kafkapy.raft.image import DIRECTORY_UNASSIGNED, PartitionImage
from kafkapy.server.directory_reporter import RETRY_MS, DirectoryReporter
from kafkapy.types import TopicPartition
from kafkapy.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

TOPIC_ID = b"T" * 16
IMAGE = PartitionImage((2, 1), (2, 1), 2, 0, 0, directories=(b"2" * 16, DIRECTORY_UNASSIGNED))


class Controller:
    """Keeps what it is asked until it is told to answer."""

    def __init__(self) -> None:
        self.asked: list[AssignReplicasToDirsRequest] = []
        self.pauses: list[int] = []
        self._due: list[Callable[[], None]] = []
        self._done: Callable[[Any], None] | None = None

    def ask(self, request: Any, version: int, done: Callable[[Any], None], timeout_ms: int) -> None:
        self.asked.append(request)
        self._done = done

    def later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self.pauses.append(delay_ms)
        self._due.append(callback)

    def run(self) -> None:
        """Time passes."""
        due, self._due = self._due, []
        for callback in due:
            callback()

    def answer(self, response: Any) -> None:
        assert self._done is not None
        self._done(response)


class Broker:
    """Number 1, with some logs in one of its directories."""

    def __init__(self, *numbers: int) -> None:
        folder = SimpleNamespace(directory_id=b"D" * 16)
        self.config = SimpleNamespace(node_id=1)
        self.metadata = SimpleNamespace(broker_epoch=10)
        self.logs = SimpleNamespace(contains=lambda name: name.partition in numbers, data_folder=lambda name: folder)
        self.controller_channel = Controller()
        self.image = SimpleNamespace(topics=SimpleNamespace(partition=lambda name, number: IMAGE))


def partition(number: int) -> Any:
    """As far as it matters here."""
    return SimpleNamespace(topic_id=TOPIC_ID, topic_partition=TopicPartition("t", number))


def reported(request: AssignReplicasToDirsRequest) -> list[tuple[bytes, int]]:
    """Directories and partitions."""
    return [
        (one.id, index.partition_index)
        for one in request.directories
        for topic in one.topics
        for index in topic.partitions
    ]


def test_what_the_controller_doesnt_know_is_told() -> None:
    """In one request, and only what has a log already."""
    broker = Broker(0, 1)
    reporter, controller = DirectoryReporter(broker), broker.controller_channel  # type: ignore[arg-type]
    for number in range(3):
        reporter.check(partition(number), IMAGE)
    reporter.check(partition(1), IMAGE._replace(directories=(b"2" * 16, b"D" * 16)))
    controller.run()
    (request,) = controller.asked
    assert (request.broker_id, request.broker_epoch) == (1, 10)
    assert reported(request) == [(b"D" * 16, 0)]
    reporter.opened(partition(1))
    controller.run()
    assert len(controller.asked) == 1, "one at a time"
    controller.answer(AssignReplicasToDirsResponse())
    controller.run()
    assert reported(controller.asked[1]) == [(b"D" * 16, 1)]
    controller.answer(AssignReplicasToDirsResponse())
    controller.run()
    assert len(controller.asked) == 2


def test_an_empty_disk_doesn_t_pass_for_the_old_one() -> None:
    """While nobody else leads the replica keeps silent; with a leader to copy from it says where it is now."""
    broker = Broker(0)
    reporter, controller = DirectoryReporter(broker), broker.controller_channel  # type: ignore[arg-type]
    replaced = IMAGE._replace(directories=(b"2" * 16, b"O" * 16))
    reporter.check(partition(0), replaced._replace(leader=-1, isr=()))
    controller.run()
    assert controller.asked == []
    reporter.check(partition(0), replaced)
    controller.run()
    assert [reported(request) for request in controller.asked] == [[(b"D" * 16, 0)]]


def test_what_was_not_heard_is_told_again() -> None:
    """No answer, or a refusal, or no registration yet: after a pause."""
    broker = Broker(0)
    reporter, controller = DirectoryReporter(broker), broker.controller_channel  # type: ignore[arg-type]
    broker.metadata.broker_epoch = -1
    reporter.check(partition(0), IMAGE)
    controller.run()
    assert controller.asked == []
    broker.metadata.broker_epoch = 10
    for answer in (None, AssignReplicasToDirsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)):
        controller.run()
        controller.answer(answer)
    controller.run()
    assert [reported(request) for request in controller.asked] == [[(b"D" * 16, 0)]] * 3
    assert controller.pauses == [0, RETRY_MS, RETRY_MS, RETRY_MS]
