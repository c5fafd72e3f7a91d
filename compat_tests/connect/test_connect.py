"""A file goes through a topic into another file, across restarts and kills of the worker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from compat_tests import tools
from compat_tests.connect.worker import Worker
from compat_tests.target import Target

READ_TIMEOUT_S = 30.0
Unique = Callable[[str], str]

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def worker(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """One worker, which each test leaves running."""
    folder = tmp_path_factory.mktemp("connect")
    classpath = tools.java_program(Path(__file__).with_name("java"))
    made = Worker(classpath, target.bootstrap, f"connect-{time.time_ns()}", folder)
    try:
        made.start()
        yield made
    finally:
        made.kill()


class Pipeline:
    """From one file through a topic of one partition into another file."""

    def __init__(self, worker: Worker, topic: str, folder: Path) -> None:
        self.topic, self.source, self._worker = topic, f"{topic}-source", worker
        self._from, self._to = folder / "from", folder / "to"
        self._from.touch()
        worker.create(self.source, connector_class="FileStreamSource", file=str(self._from), topic=topic)
        worker.create(f"{topic}-sink", connector_class="FileStreamSink", file=str(self._to), topics=topic)

    def write(self, lines: list[str]) -> None:
        """To the end of the source's file."""
        with open(self._from, "a") as file:
            file.writelines(line + "\n" for line in lines)

    def written(self) -> list[str]:
        """What the sink's file holds."""
        return self._to.read_text().splitlines() if self._to.exists() else []

    def wait_for(self, line: str) -> None:
        """Until the sink has written it."""
        self._worker.until(lambda: line in self.written(), f"{line} does not arrive")

    def offsets(self) -> list[int]:
        """The places in the file that the source has stored."""
        answer = self._worker.request("GET", f"/connectors/{self.source}/offsets") or {"offsets": []}
        return [row["offset"]["position"] for row in answer["offsets"]]

    def size(self) -> int:
        """Of the source's file."""
        return self._from.stat().st_size


@pytest.fixture
def pipeline(worker: Worker, target: Target, unique: Unique, tmp_path: Path) -> Pipeline:
    """A new one, running."""
    topic = unique("lines")
    target.create_topic(topic, 1)
    return Pipeline(worker, topic, tmp_path)


def lines(start: int, count: int) -> list[str]:
    """Each other than all others."""
    return [f"line {number}" for number in range(start, start + count)]


def committed_records(bootstrap: str, topic: str, last: str) -> list[str]:
    """What a read_committed consumer sees up to a value."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "nobody", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[str] = []
    deadline = time.monotonic() + READ_TIMEOUT_S
    try:
        while last not in found:
            assert time.monotonic() < deadline, f"{last} is not in the topic: {found[-3:]}"
            found += [(message.value() or b"").decode() for message in consumer.consume(1000, 0.2)]
    finally:
        consumer.close()
    return found


def test_file_to_topic_to_file(pipeline: Pipeline, bootstrap: str) -> None:
    """All lines, in order, once."""
    pipeline.write(lines(0, 500))
    pipeline.wait_for("line 499")
    assert pipeline.written() == lines(0, 500)
    assert committed_records(bootstrap, pipeline.topic, "line 499") == lines(0, 500)


def test_connectors_by_rest(worker: Worker, pipeline: Pipeline) -> None:
    """Connectors are listed, paused, resumed, their stored offsets shown, changed and reset, and they are deleted."""
    pipeline.write(lines(0, 10))
    pipeline.wait_for("line 9")
    worker.until(lambda: pipeline.offsets() == [pipeline.size()], "the offset is not stored")
    source = f"/connectors/{pipeline.source}"
    assert pipeline.source in worker.request("GET", "/connectors")
    worker.request("PUT", f"{source}/pause")
    worker.until(lambda: worker.state(pipeline.source) == ["PAUSED", "PAUSED"], "it is not paused")
    pipeline.write(["paused"])
    worker.request("PUT", f"{source}/resume")
    pipeline.wait_for("paused")
    worker.request("PUT", f"{source}/stop")
    worker.until(lambda: worker.state(pipeline.source) == ["STOPPED"], "it is not stopped")
    (row,) = worker.request("GET", f"{source}/offsets")["offsets"]
    again = {"partition": row["partition"], "offset": {"position": row["offset"]["position"] - len("paused\n")}}
    assert worker.request("PATCH", f"{source}/offsets", {"offsets": [again]}) is not None
    worker.request("PUT", f"{source}/resume")
    worker.until(lambda: pipeline.written()[-2:] == ["paused", "paused"], "it is not read again")
    worker.request("PUT", f"{source}/stop")
    worker.until(lambda: worker.state(pipeline.source) == ["STOPPED"], "it is not stopped")
    assert worker.request("DELETE", f"{source}/offsets") is not None
    assert pipeline.offsets() == []
    worker.request("DELETE", source)
    worker.until(lambda: pipeline.source not in (worker.request("GET", "/connectors") or []), "it is not deleted")


def test_restart_keeps_offsets(worker: Worker, pipeline: Pipeline, bootstrap: str) -> None:
    """Stopped and started again, the worker goes on where it was, on both sides."""
    pipeline.write(lines(0, 200))
    pipeline.wait_for("line 199")
    worker.stop()
    pipeline.write(lines(200, 200))
    worker.start()
    pipeline.wait_for("line 399")
    assert pipeline.written() == lines(0, 400)
    assert committed_records(bootstrap, pipeline.topic, "line 399") == lines(0, 400)


def test_exactly_once_source_across_a_kill(worker: Worker, pipeline: Pipeline, bootstrap: str) -> None:
    """Killed in the middle of its work, the source's records are in the topic once; the sink may write some again, but loses none."""
    pipeline.write(lines(0, 5000))
    worker.until(lambda: len(pipeline.written()) > 0, "nothing arrives")
    pipeline.write(lines(5000, 5000))
    worker.kill()
    pipeline.write(lines(10000, 100))
    worker.start()
    pipeline.wait_for("line 10099")
    assert committed_records(bootstrap, pipeline.topic, "line 10099") == lines(0, 10100)
    assert list(dict.fromkeys(pipeline.written())) == lines(0, 10100)
