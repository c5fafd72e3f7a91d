"""Every example in a help text is run as it stands, against a real broker."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkapy.cli.docs import commands
from kafkapy.cli.framework import Command
from kafkapy.testing.broker import Broker
from tests.cli.runner import Result, run
from tests.support.transactions import open_transaction

ROOT = Path(__file__).resolve().parents[2]
TOPICS = {"orders": 3, "users": 1, "archive": 3, "pictures": 1}

# A broker is started by a test of its own; what needs Apache Spark is run in compat_tests/spark.
ELSEWHERE = {"start", "archive", "replay", "audit", "transform", "split", "stats"}
LINES = [
    pytest.param(line, id=line)
    for path, command in commands()
    if isinstance(command, Command) and path[1] not in ELSEWHERE
    for line in command.examples.splitlines()
]
SCRIPTS = [
    pytest.param(command.examples, id="-".join(path))
    for path, command in commands()
    if not isinstance(command, Command)
]
STARTS = [
    pytest.param(line, id=line)
    for path, command in commands()
    if path[1:] == ["start"]
    for line in command.examples.splitlines()
]


def stages(line: str) -> list[list[str]]:
    """The words of each command of a pipeline."""
    found: list[list[str]] = [[]]
    for word in shlex.split(line):
        if word == "|":
            found.append([])
        else:
            found[-1].append(word)
    return found


def run_line(line: str, bootstrap: str) -> Result:
    """A line as the shell would run it; kafkapy itself runs in this process."""
    data = b""
    result = Result(0, "", "", b"")
    for words in stages(line):
        if words[0] == "kafkapy":
            result = run(*words[1:], stdin=data, env={"KAFKAPY_BOOTSTRAP": bootstrap})
            assert result.code == 0, f"{line}\n{result.out}\n{result.err}"
            data = result.out_bytes
        else:
            assert words[0] in ("echo", "printf"), words[0]
            data = subprocess.run(words, capture_output=True, check=True).stdout
    return result


@pytest.fixture(scope="session")
def stopped_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data folder of a broker that has run."""
    folder = tmp_path_factory.mktemp("examples") / "data"
    with Broker(topics=TOPICS, data_dir=folder) as broker:
        run_line("printf 'a\\nb\\nc\\n' | kafkapy produce orders -p 0", broker.bootstrap)
    yield folder


@pytest.fixture
def folder(tmp_path: Path, stopped_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the files that the examples name."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(stopped_folder, tmp_path / "kafkapy-data")
    (tmp_path / "orders.jsonl").write_text('{"key": "a", "value": "1"}\n{"key": "b", "value": "2"}\n')
    (tmp_path / "logo.png").write_bytes(bytes(range(256)))
    (tmp_path / "offsets.txt").write_text("orders 0 1\n")
    (tmp_path / "server.properties").write_text("num.partitions=3\n")
    vector = {"key": 12, "kind": "response", "version": 0, "json": {"errorCode": 27}, "hex": "001b"}
    (tmp_path / "vectors.jsonl").write_text(json.dumps(vector) + "\n")
    return tmp_path


@pytest.fixture
def filled(broker: Broker) -> Iterator[Broker]:
    """A broker with the topics that the examples name, and a few records."""
    for name, partitions in TOPICS.items():
        broker.create_topic(name, partitions)
    run_line("printf 'a 1\\nb 2\\nc 3\\nd 4\\ne 5\\nf 6\\n' | kafkapy produce orders -f '%k %v\\n'", broker.bootstrap)
    for group in ("billing", "audit"):
        run_line(f"kafkapy group seek {group} -t orders --to start --yes", broker.bootstrap)
    with open_transaction(broker.port, "pictures", 0, "payments"):
        yield broker


@pytest.mark.parametrize("line", LINES)
def test_an_example_does_what_it_shows(line: str, filled: Broker, folder: Path) -> None:
    """Each line by itself, with the topics and files there that it names."""
    run_line(line, filled.bootstrap)


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_examples_of_a_noun_are_a_session(
    script: str, broker: Broker, folder: Path, request: pytest.FixtureRequest
) -> None:
    """One line after another, in a cluster without topics if the first thing is to create one."""
    if "topic create" not in script:
        request.getfixturevalue("filled")
    for line in script.splitlines():
        if line != "kafkapy start":
            run_line(line, broker.bootstrap)


@pytest.mark.slow
@pytest.mark.parametrize("line", STARTS)
def test_a_broker_starts_as_the_examples_say(line: str, folder: Path) -> None:
    """In a process of its own, until it says that it listens; only the port is another one."""
    shutil.rmtree(folder / "kafkapy-data")
    words = [sys.executable, "-m", *shlex.split(line), "--listen", "127.0.0.1:0"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr is not None
        lines = []
        stopping = False
        for text in process.stderr:
            lines.append(text)
            if "listen" in text and "127.0.0.1" in text and not stopping:
                stopping = True  # Several brokers say so, and a second signal would end them at once.
                process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0, "".join(lines)
