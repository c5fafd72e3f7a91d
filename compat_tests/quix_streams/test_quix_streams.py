"""A word count whose process is stopped or killed, and goes on with what it has counted."""

from __future__ import annotations

import signal
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests import tools
from compat_tests.quix_streams import VERSION
from compat_tests.target import Target

SCRIPT = Path(__file__).with_name("script.py")
PARTITIONS = 2
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta")
READ_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 30.0

pytestmark = pytest.mark.timeout(300)


class Stream:
    """The application's topics, and its process, which may be started more than once."""

    def __init__(self, target: Target, unique: Callable[[str], str], folder: Path, guarantee: str) -> None:
        self.bootstrap = target.bootstrap
        self._name, self._source, self._sink = unique("word-count"), unique("words"), unique("counts")
        for topic in (self._source, self._sink):
            target.create_topic(topic, PARTITIONS)
        self._guarantee, self._log = guarantee, folder / "log"
        self._python = tools.python_with(f"quixstreams=={VERSION}")
        self._written = 0
        self._process: subprocess.Popen[bytes] | None = None

    def write(self, count: int) -> None:
        """So many words, which take turns."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        for _ in range(count):
            word = WORDS[self._written % len(WORDS)]
            producer.produce(self._source, word, word, partition=len(word) % PARTITIONS)
            self._written += 1
        producer.flush()

    @contextmanager
    def running(self, state: Path, how: signal.Signals) -> Iterator[None]:
        """The application with its state in this folder, ended by this signal."""
        arguments = [self.bootstrap, self._name, self._source, self._sink, str(state), self._guarantee]
        with open(self._log, "ab") as output:
            self._process = subprocess.Popen([self._python, SCRIPT, *arguments], stdout=output, stderr=output)
        try:
            yield
            assert self._process.poll() is None, "it ended by itself:\n" + self.told()
            self._process.send_signal(how)
            self._process.wait(STOP_TIMEOUT_S)
        finally:
            self._process.kill()
            self._process.wait()

    def counts(self, total: int, isolation: str = "read_committed") -> dict[str, list[int]]:
        """The counts of each word in their order, when there are so many in all."""
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "nobody", "isolation.level": isolation}
        consumer = Consumer({**settings, "enable.auto.commit": False})
        consumer.assign([TopicPartition(self._sink, partition, 0) for partition in range(PARTITIONS)])
        found: dict[str, list[int]] = defaultdict(list)
        deadline = time.monotonic() + READ_TIMEOUT_S
        try:
            while (seen := sum(map(len, found.values()))) < total:
                assert time.monotonic() < deadline, f"{seen} of {total} counts\n{self.told()}"
                for message in consumer.consume(500, 0.1):
                    found[(message.key() or b"").decode()].append(int(message.value() or b""))
        finally:
            consumer.close()
        return found

    def expected(self) -> dict[str, list[int]]:
        """Each word counts from 1 to the number of times it was written."""
        numbers = Counter(WORDS[place % len(WORDS)] for place in range(self._written))
        return {word: list(range(1, number + 1)) for word, number in numbers.items()}

    def told(self) -> str:
        """The end of what it has printed."""
        return self._log.read_text(errors="replace")[-3000:]


def test_state_survives_a_restart(target: Target, unique: Callable[[str], str], tmp_path: Path) -> None:
    """Stopped and started again with its state folder, then with an empty one, which the changelog topic fills."""
    stream = Stream(target, unique, tmp_path, "at-least-once")
    for round_number, folder in enumerate(("first", "first", "second"), 1):
        stream.write(350)
        with stream.running(tmp_path / folder, signal.SIGTERM):
            stream.counts(350 * round_number)
    assert stream.counts(1050) == stream.expected()


def test_exactly_once_across_a_kill(target: Target, unique: Callable[[str], str], tmp_path: Path) -> None:
    """Killed in the middle of its transactions, each word still counts 1, 2, 3 ... to its exact number."""
    stream = Stream(target, unique, tmp_path, "exactly-once")
    stream.write(5000)
    with stream.running(tmp_path / "first", signal.SIGKILL):
        stream.counts(150, "read_uncommitted")
    stream.write(350)
    with stream.running(tmp_path / "second", signal.SIGTERM):
        assert stream.counts(5350) == stream.expected()
