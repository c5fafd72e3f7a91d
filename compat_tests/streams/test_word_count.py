"""A word count with processing.guarantee=exactly_once_v2, whose process is killed in the middle of its work."""

from __future__ import annotations

import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests import tools
from compat_tests.target import Target

PARTITIONS = 2
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta")
LINES = 600
WORDS_PER_LINE = 5
RUN_TIMEOUT_S = 90.0
JVM = ("-Xmx300m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")

pytestmark = pytest.mark.timeout(300)


def lines() -> list[str]:
    """The input: the words turn, so that each line has other ones."""
    return [
        " ".join(WORDS[(number * 3 + place) % len(WORDS)] for place in range(WORDS_PER_LINE)) for number in range(LINES)
    ]


class Application:
    """The application in a process of its own; `kill` ends it as a crash would."""

    def __init__(self, classpath: str, log: Path, *arguments: str) -> None:
        self._log = log
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                ["java", *JVM, "-cp", classpath, "WordCount", *arguments], stdout=output, stderr=output
            )

    def kill(self) -> None:
        """SIGKILL: no shutdown hook, no last commit."""
        assert self.process.poll() is None, "it ended by itself:\n" + self.told()
        self.process.kill()
        self.process.wait()

    def told(self) -> str:
        """The end of what it has printed."""
        return self._log.read_text(errors="replace")[-4000:]


@contextmanager
def reading(bootstrap: str, topic: str, isolation: str) -> Iterator[Consumer]:
    """A consumer of all partitions, from their start."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": isolation,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    try:
        yield consumer
    finally:
        consumer.close()


def collect(consumer: Consumer, count: int, application: Application) -> list[tuple[str, int]]:
    """So many counts at least, as (word, count)."""
    deadline = time.monotonic() + RUN_TIMEOUT_S
    found: list[tuple[str, int]] = []
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} counts\n{application.told()}"
        assert application.process.poll() is None, application.told()
        for message in consumer.consume(500, 0.02):
            assert message.error() is None, message.error()
            found.append(((message.key() or b"").decode(), int(message.value() or b"")))
    return found


def test_exactly_once_word_count(target: Target, bootstrap: str, unique, tmp_path: Path) -> None:
    """Killed twice, restarted once with its state folder and once without: each word counts 1, 2, 3 ... to its exact number."""
    classpath = tools.java_program(Path(__file__).with_name("java"))
    source, sink, name = unique("lines"), unique("counts"), unique("word-count")
    target.create_topic(source, PARTITIONS)
    target.create_topic(sink, PARTITIONS)
    arguments = (bootstrap, name, source, sink)
    text = lines()
    expected = Counter(word for line in text for word in line.split())
    total = expected.total()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    third = LINES // 3
    application = None
    try:
        with (
            reading(bootstrap, sink, "read_uncommitted") as everything,
            reading(bootstrap, sink, "read_committed") as committed,
        ):
            written = 0
            for number, folder in enumerate(("first", "first", "second")):
                log = tmp_path / f"application-{number}.log"
                application = Application(classpath, log, *arguments, str(tmp_path / folder))
                for place in range(number * third, (number + 1) * third):
                    producer.produce(source, text[place], partition=place % PARTITIONS)
                producer.flush()
                if number < 2:  # killed as soon as its results are written, which is before it commits them
                    written += len(collect(everything, third * WORDS_PER_LINE // 2, application))
                    application.kill()
            found = collect(committed, total, application)
            late = [message.value() for message in committed.consume(1, 2.0)]
            written += len(collect(everything, total - written, application))
            written += len(everything.consume(total, 2.0))
        counts: dict[str, list[int]] = defaultdict(list)
        for word, count in found:
            counts[word].append(count)
        assert late == []
        assert {word: len(seen) for word, seen in counts.items()} == expected
        assert all(seen == list(range(1, len(seen) + 1)) for seen in counts.values())
        assert written > total, "no kill has met an open transaction"
    finally:
        if application is not None and application.process.poll() is None:
            application.kill()
