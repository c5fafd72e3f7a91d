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
def reading(bootstrap: str, topic: str) -> Iterator[Consumer]:
    """A consumer of committed records, from the start of all partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    try:
        yield consumer
    finally:
        consumer.close()


def collect(consumer: Consumer, seen: dict[str, list[int]], total: int, application: Application) -> None:
    """Read until so many counts have been seen in all."""
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while sum(map(len, seen.values())) < total:
        assert time.monotonic() < deadline, f"{sum(map(len, seen.values()))} of {total} counts\n{application.told()}"
        assert application.process.poll() is None, application.told()
        for message in consumer.consume(500, 0.2):
            assert message.error() is None, message.error()
            seen[(message.key() or b"").decode()].append(int(message.value() or b""))


def test_exactly_once_word_count(target: Target, bootstrap: str, unique, tmp_path: Path) -> None:
    """Killed twice, restarted once with its state folder and once without: each word counts 1, 2, 3 ... to its exact number."""
    classpath = tools.java_program(Path(__file__).with_name("java"))
    source, sink, name = unique("lines"), unique("counts"), unique("word-count")
    target.create_topic(source, PARTITIONS)
    target.create_topic(sink, PARTITIONS)
    arguments = (bootstrap, name, source, sink)
    text = lines()
    expected = Counter(word for line in text for word in line.split())
    seen: dict[str, list[int]] = defaultdict(list)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    third = LINES // 3
    application = None
    try:
        with reading(bootstrap, sink) as consumer:
            for number, folder in enumerate(("first", "first", "second")):
                log = tmp_path / f"application-{number}.log"
                application = Application(classpath, log, *arguments, str(tmp_path / folder))
                for place in range(number * third, (number + 1) * third):
                    producer.produce(source, text[place], partition=place % PARTITIONS)
                producer.flush()
                if number < 2:  # the kill meets it with half of what it has been given still to do
                    collect(consumer, seen, (number * third + third // 2) * WORDS_PER_LINE, application)
                    application.kill()
            collect(consumer, seen, LINES * WORDS_PER_LINE, application)
            late = [message.value() for message in consumer.consume(1, 2.0)]
        assert late == []
        assert {word: len(counts) for word, counts in seen.items()} == expected
        assert all(counts == list(range(1, len(counts) + 1)) for counts in seen.values())
    finally:
        if application is not None and application.process.poll() is None:
            application.kill()
