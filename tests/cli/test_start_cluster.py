"""`kafkapy start --brokers N`: the files, the processes and what becomes of them. The brokers here are small scripts that log as brokers do."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkapy.cli import start_cluster
from kafkapy.cli.start_cluster import Plan, Supervisor, addresses_of, plan_of
from kafkapy.config.local_cluster import Address, existing_nodes, existing_voters, voter_count, write_properties
from kafkapy.config.properties import parse_properties
from kafkapy.errors import StartError
from tests.cli.runner import run

# Says that it is ready, then does what the file beside its properties says, once; otherwise waits to be stopped.
FAKE_BROKER = """
import json, os, signal, sys
from pathlib import Path

signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
config = Path(sys.argv[sys.argv.index("--config") + 1])
once = config.with_suffix(".once")
action = once.read_text() if once.exists() else ""
once.unlink(missing_ok=True)
if action == "fail":
    print("error: no", file=sys.stderr)
    sys.exit(1)
line = {"time": "2026-11-18T14:03:07.412Z", "level": "INFO", "logger": "broker", "message": "ready in 0.1 s", "listen": "x:1"}
print(json.dumps(line), file=sys.stderr, flush=True)
if action == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    signal.pause()
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[str], Any]]:
    """Run a cluster of such brokers; returns the messages, and what the end of it was."""
    script = tmp_path / "fake_broker.py"
    script.write_text(FAKE_BROKER)
    monkeypatch.setattr(start_cluster, "COMMAND", (sys.executable, "-S", str(script)))
    monkeypatch.setattr(start_cluster, "RESTART_PAUSE_S", 0.0)

    def call(
        react: Callable[[Supervisor, dict[str, Any], int | None], None], actions: dict[int, str], **options: Any
    ) -> tuple[list[str], Any]:
        folder = tmp_path / "data"
        plan = Plan(3, folder, "127.0.0.1", 0, {}, (), "json", "info", False)._replace(**options)
        addresses = {node: Address("127.0.0.1", node, 10 + node) for node in (1, 2, 3)}
        files = write_properties(folder, addresses, {})
        for node, action in actions.items():
            (folder / f"broker{node}.once").write_text(action)
        messages: list[str] = []
        supervisor = Supervisor(plan, addresses, files)

        def heard(entry: dict[str, Any], node_id: int | None) -> None:
            messages.append(f"{'*' if node_id is None else node_id} {entry['message']}")
            react(supervisor, entry, node_id)

        monkeypatch.setattr(supervisor, "_print", heard)
        try:
            supervisor.run()
        except StartError as error:
            return messages, str(error)
        return messages, None

    return call


def kill(supervisor: Supervisor, node_id: int) -> None:
    """As the out-of-memory killer does."""
    process = supervisor._children[node_id - 1].process
    assert process is not None
    process.kill()


def stop_when(text: str) -> Callable[[Supervisor, dict[str, Any], int | None], None]:
    """Send this process SIGTERM as soon as somebody says so."""

    def react(supervisor: Supervisor, entry: dict[str, Any], node_id: int | None) -> None:
        if text in entry["message"]:
            os.kill(os.getpid(), signal.SIGTERM)

    return react


def test_all_are_started_and_stopped_together(cluster: Any) -> None:
    """One line when all are ready, and a signal is passed on to each."""
    messages, failure = cluster(stop_when("brokers ready"), {})
    assert failure is None
    assert sorted(messages[:3]) == ["1 ready in 0.1 s", "2 ready in 0.1 s", "3 ready in 0.1 s"]
    assert messages[3].startswith("* 3 brokers ready in ")
    assert messages[4:] == ["* stopping 3 brokers on SIGTERM", "* all brokers have stopped"]


def test_a_second_signal_ends_at_once(cluster: Any) -> None:
    """Even what doesn't want to stop."""

    def react(supervisor: Supervisor, entry: dict[str, Any], node_id: int | None) -> None:
        if "brokers ready" in entry["message"] or "stopping" in entry["message"]:
            os.kill(os.getpid(), signal.SIGINT)

    messages, failure = cluster(react, {2: "stubborn"})
    assert failure == "ended by a second signal"
    assert "* second signal: ending at once" in messages


def test_a_broker_that_dies_is_reported_and_left_dead(cluster: Any) -> None:
    """With the command that starts it again; the others go on."""

    def react(supervisor: Supervisor, entry: dict[str, Any], node_id: int | None) -> None:
        if "brokers ready" in entry["message"]:
            kill(supervisor, 2)
        elif "the others go on" in entry["message"]:
            os.kill(os.getpid(), signal.SIGTERM)

    messages, failure = cluster(react, {})
    assert failure is None
    (line,) = [message for message in messages if "the others go on" in message]
    assert line.startswith("* broker 2 was ended by SIGKILL") and "broker2.properties" in line


def test_a_broker_that_dies_is_started_again_where_that_is_wanted(cluster: Any) -> None:
    """With --restart."""
    deaths = [0]

    def react(supervisor: Supervisor, entry: dict[str, Any], node_id: int | None) -> None:
        if "brokers ready" in entry["message"]:
            kill(supervisor, 2)
        elif "is started again" in entry["message"]:
            deaths[0] += 1
        elif node_id == 2 and deaths[0]:
            os.kill(os.getpid(), signal.SIGTERM)

    messages, failure = cluster(react, {}, restart=True)
    assert failure is None
    assert messages.count("2 ready in 0.1 s") == 2


def test_a_broker_that_cannot_start_ends_the_others(cluster: Any) -> None:
    """Its own words are printed, and nothing is left running."""
    messages, failure = cluster(lambda *_: None, {3: "fail"})
    assert failure == "broker 3 has ended with status 1 before the cluster was ready"
    assert "3 error: no" in messages


def test_the_last_broker_that_dies_ends_the_command(cluster: Any) -> None:
    """There is nothing left to watch."""

    def react(supervisor: Supervisor, entry: dict[str, Any], node_id: int | None) -> None:
        if "brokers ready" in entry["message"]:
            for node in (1, 2, 3):
                kill(supervisor, node)

    _, failure = cluster(react, {})
    assert failure is not None and "was ended by SIGKILL" in failure


def test_lines_carry_the_number_of_their_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In front of the text, or as a field of the JSON object."""
    monkeypatch.setenv("TZ", "UTC")
    entry = {
        "time": "2026-11-18T14:03:07.412Z",
        "level": "INFO",
        "logger": "broker",
        "message": "ready",
        "listen": "a:1",
    }
    for style in ("text", "json"):
        plan = Plan(3, tmp_path, "127.0.0.1", 0, {}, (), style, "info", False)
        supervisor = Supervisor(plan, {}, [])
        supervisor._print(entry, 2)
        supervisor._print(entry | {"exception": "Traceback"}, None)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("[2] ") and lines[0].endswith(".412 INFO  broker: ready  listen=a:1")
    assert lines[1].startswith("[*] ") and lines[2] == "Traceback"
    assert json.loads(lines[3]) == {"node": 2, **entry}
    assert "node" not in json.loads(lines[4])


def test_each_broker_gets_a_file_that_a_person_can_read(tmp_path: Path) -> None:
    """Ports from --listen upward, controllers far above, replication as far as there are brokers; settings win."""
    plan = plan_of(
        4, str(tmp_path), "PLAINTEXT://127.0.0.1:21900", None, ("min.insync.replicas=1",), "a,b", "text", "info", False
    )
    addresses = addresses_of(plan)
    assert [address.port for address in addresses.values()] == [21900, 21901, 21902, 21903]
    assert addresses[1].controller_port == 22900
    paths = write_properties(plan.folder, addresses, plan.settings, racks=plan.racks)
    found = [{key: item.value for key, item in parse_properties(path.read_text()).items()} for path in paths]
    assert [one["process.roles"] for one in found] == [*["broker,controller"] * 3, "broker"]
    assert [one["broker.rack"] for one in found] == ["a", "b", "a", "b"]
    assert len({one["controller.quorum.voters"] for one in found}) == 1
    assert found[3]["listeners"] == "PLAINTEXT://127.0.0.1:21903"
    assert found[0]["listeners"] == "PLAINTEXT://127.0.0.1:21900,CONTROLLER://127.0.0.1:22900"
    assert {one["log.dirs"] for one in found} == {str(tmp_path / f"broker{node}") for node in (1, 2, 3, 4)}
    assert (found[0]["min.insync.replicas"], found[0]["default.replication.factor"]) == ("1", "3")
    assert existing_nodes(tmp_path) == [1, 2, 3, 4]


def test_a_cluster_that_grows_keeps_its_voters(tmp_path: Path) -> None:
    """They are written down with the data; a cluster must not shrink, nor mix with a single broker's data."""
    three = {node: Address("h", node, 100 + node) for node in range(1, 4)}
    write_properties(tmp_path, three, {})
    five = {node: Address("h", node, 100 + node) for node in range(1, 6)}
    write_properties(tmp_path, five, {})
    assert existing_voters(tmp_path) == [1, 2, 3]
    with pytest.raises(StartError, match="holds a cluster of 5 brokers"):
        plan_of(3, str(tmp_path), None, None, (), None, "text", "info", False)
    assert run("start", "--data-dir", str(tmp_path)).err.startswith(f"error: {tmp_path} holds a cluster")
    single = tmp_path / "single"
    single.mkdir()
    (single / "meta.properties").write_text("version=1\n")
    with pytest.raises(StartError, match="single broker"):
        plan_of(3, str(single), None, None, (), None, "text", "info", False)


@pytest.mark.parametrize(("brokers", "voters"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (9, 5)])
def test_voters_are_an_odd_number(brokers: int, voters: int) -> None:
    """Two would both be needed, which is worse than one."""
    assert voter_count(brokers) == voters


def test_values_survive_the_file(tmp_path: Path) -> None:
    """Backslashes, colons in keys, and spaces in front."""
    settings = {"a:b c": " x\\y", "plain": "a=b:c"}
    (path,) = write_properties(tmp_path, {1: Address("h", 1, 2)}, settings)
    found = parse_properties(path.read_text())
    assert {key: found[key].value for key in settings} == settings


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--set", "node.id=7"), "node.id is different for each broker"),
        (("--set", "num.partitions"), "KEY=VALUE"),
        (("--config", "/no/such/file"), "/no/such/file"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, args: tuple[str, ...], message: str) -> None:
    """And nothing starts."""
    result = run("start", "--brokers", "3", "--data-dir", str(tmp_path), *args)
    assert result.code == 1 and message in result.err and "Traceback" not in result.err
    assert os.listdir(tmp_path) == []


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    """Before any broker is started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("start", "--brokers", "2", "--data-dir", str(tmp_path), "--listen", f"127.0.0.1:{port}")
    assert (result.code, result.err) == (1, f"error: cannot listen on 127.0.0.1:{port}: address already in use\n")


def test_options_of_a_cluster_need_one() -> None:
    """--racks and --restart mean nothing for one broker."""
    assert run("start", "--racks", "a").code == 2
    assert run("start", "--restart").code == 2
    assert run("start", "--brokers", "65").code == 2
