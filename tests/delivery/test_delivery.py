"""The examples of docs/delivery.md, killed where it matters: what is lost, what is done twice, and what is neither."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest

from kafkapy.testing import Broker

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[1] / "docs/delivery.md"
EXAMPLES = ("at_most_once", "at_least_once", "exactly_once")
VALUES = ["a", "b", "c", "d", "e"]
WAIT_S = 20.0

pytestmark = pytest.mark.slow


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A new one each time, without the group of the test before. Groups settle at once."""
    with Broker(config={"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker


@pytest.fixture
def source(broker: Broker) -> str:
    """A topic with five records."""
    name = "source"
    broker.create_topic(name)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    for value in VALUES:
        producer.produce(name, value)
    assert producer.flush(WAIT_S) == 0
    return name


def crash(example: str, point: str, when: str, *arguments: str) -> list[str]:
    """Run the example until it dies with the second record; what it has printed until then."""
    words = [sys.executable, str(FOLDER / "crashing.py"), str(FOLDER / f"{example}.py"), point, when, "2", *arguments]
    done = subprocess.run(words, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == -9, done.stderr
    return done.stdout.split()


@contextmanager
def running(example: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The example once more, undisturbed, for the length of a with block."""
    words = [sys.executable, str(FOLDER / f"{example}.py"), *arguments]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def printed_until(process: subprocess.Popen[str], last: str) -> list[str]:
    """What the example prints, up to that."""
    assert process.stdout is not None
    found: list[str] = []
    for line in process.stdout:
        found.append(line.strip())
        if found[-1] == last:
            break
    return found


def read(broker: Broker, topic: str, isolation: str, last: str) -> list[str]:
    """What stands in a topic, up to that."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "nobody", "isolation.level": isolation}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[str] = []
    try:
        while not found or found[-1] != last:
            message = consumer.poll(WAIT_S)
            assert message is not None and message.error() is None, found
            found.append(message.value().decode())
    finally:
        consumer.close()
    return found


def test_at_most_once_may_lose(broker: Broker, source: str) -> None:
    """Killed between the offset and the work: nobody does the work."""
    before = crash("at_most_once", "Consumer.commit", "after", broker.bootstrap, source)
    with running("at_most_once", broker.bootstrap, source) as process:
        assert (before, printed_until(process, "e")) == (["a"], ["c", "d", "e"])


def test_at_least_once_may_repeat(broker: Broker, source: str) -> None:
    """Killed between the work and the offset: the work is done again."""
    before = crash("at_least_once", "Consumer.commit", "before", broker.bootstrap, source)
    with running("at_least_once", broker.bootstrap, source) as process:
        assert (before, printed_until(process, "e")) == (["a", "b"], ["b", "c", "d", "e"])


@pytest.mark.parametrize(
    ("point", "when", "written"),
    [
        ("Producer.send_offsets_to_transaction", "before", "ABBCDE"),
        ("Producer.commit_transaction", "before", "ABBCDE"),
        ("Producer.commit_transaction", "after", "ABCDE"),
    ],
)
def test_exactly_once_does_neither(broker: Broker, source: str, point: str, when: str, written: str) -> None:
    """Killed at any of its points: what was written twice is seen once."""
    sink = "sink"
    broker.create_topic(sink)
    crash("exactly_once", point, when, broker.bootstrap, source, sink)
    with running("exactly_once", broker.bootstrap, source, sink):
        assert read(broker, sink, "read_committed", "E") == ["A", "B", "C", "D", "E"]
        assert "".join(read(broker, sink, "read_uncommitted", "E")) == written


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_page_shows_the_very_files(example: str) -> None:
    """What is read is what has been tested."""
    assert f"```python\n{(FOLDER / f'{example}.py').read_text()}```\n" in PAGE.read_text()
