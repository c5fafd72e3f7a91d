"""`kafkapy start`: from the command line to a running broker, or to one clear line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafkapy.cli.start import start
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.errors import StartError
from tests.cli.runner import run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[BrokerConfig]:
    """The configurations that brokers would have been started with."""
    configs: list[BrokerConfig] = []

    def run_broker(config: BrokerConfig) -> int:
        configs.append(config)
        return 0

    monkeypatch.setattr("kafkapy.server.broker.run", run_broker)
    monkeypatch.setattr("kafkapy.server.log_output.set_up", lambda style, level: None)
    return configs


def test_without_options_it_is_a_cluster_of_one(started: list[BrokerConfig]) -> None:
    """On localhost:9092, with its data in ./kafkapy-data."""
    assert run("start").code == 0
    (config,) = started
    assert config.values["listeners"] == ("PLAINTEXT://localhost:9092",)
    assert config.values["log.dirs"] == ("kafkapy-data",)


def test_options_are_stronger_than_set_and_set_than_the_file(started: list[BrokerConfig], tmp_path: Path) -> None:
    """Kafka's keys all the way."""
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=3\nlog.retention.hours=1\nlog.dirs=/elsewhere\n")
    args = ("--config", str(path), "--set", "num.partitions=5", "--data-dir", "d", "--listen", "[::1]:0")
    assert run("start", *args).code == 0
    values = started[0].values
    assert (values["num.partitions"], values["log.retention.hours"], values["log.dirs"]) == (5, 1, ("d",))
    assert values["listeners"] == ("PLAINTEXT://[::1]:0",)


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("--set", "num.partitions=x"), 1, "num.partitions"),
        (("--set", "num.partitions"), 1, "KEY=VALUE"),
        (("--config", "/no/such/file"), 1, "/no/such/file"),
        (("--listen", "9092"), 2, "write HOST:PORT"),
        (("--listen", "::1:9092"), 2, "brackets"),
        (("--listen", "localhost:99999"), 2, "HOST:PORT"),
    ],
)
def test_what_is_wrong_is_one_line(started: list[BrokerConfig], args: tuple[str, ...], code: int, message: str) -> None:
    """The key or file is named, and nothing starts."""
    result = run("start", *args)
    assert (result.code, started) == (code, [])
    assert message in result.err and "Traceback" not in result.err


def test_a_reason_not_to_start_is_one_line(started: list[BrokerConfig], monkeypatch: pytest.MonkeyPatch) -> None:
    """What the broker raises is told without a traceback."""

    def fail(config: Any) -> None:
        raise StartError("the port is taken")

    monkeypatch.setattr("kafkapy.server.broker.run", fail)
    result = run("start")
    assert (result.code, result.err) == (1, "error: the port is taken\n")


def test_a_reason_not_to_start_is_taken_out_of_its_groups() -> None:
    """Tasks wrap what ends them; a single reason comes out as itself, several stay together."""
    from kafkapy.server.broker import only_reason

    reason = StartError("the port is taken")
    assert only_reason(ExceptionGroup("tasks", [ExceptionGroup("tasks", [reason])])) is reason
    both = ExceptionGroup("tasks", [reason, ValueError()])
    assert only_reason(both) is both


def test_only_the_command_itself_imports_the_server() -> None:
    """What it imports to show its help is next to nothing."""
    assert start.callback is not None
    script = "import sys, kafkapy.cli.start; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not [name for name in done.stdout.split() if name.startswith(("kafkapy.server", "kafkapy.config", "trio"))]


@pytest.mark.slow
def test_a_broker_logs_where_it_listens_warns_of_unknown_keys_and_stops_cleanly(tmp_path: Path) -> None:
    """As JSON, in a process of its own."""
    args = ["--listen", "127.0.0.1:0", "--log-format", "json", "--set", "no.such.key=1"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "kafkapy", "start", *args]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(json.loads(line))
            if "listen" in lines[-1]:
                process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    warning = next(line for line in lines if "no.such.key" in line["message"])
    assert warning["level"] == "WARNING"
    assert (tmp_path / "kafkapy-data").is_dir()
