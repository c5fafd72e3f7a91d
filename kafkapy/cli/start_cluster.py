"""`kafkapy start --brokers N`: one process per broker on this machine, started, watched and stopped together.

The brokers are ordinary `kafkapy start --config FILE` processes in sessions of their own, so that Ctrl-C reaches them only through here. They
log in JSON to a pipe; each line is printed again with the number of its broker. A broker that dies is reported and, unless --restart is given,
left dead: who kills one to see what happens wants to see it, and the message says how to start it again by hand.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from kafkapy.cli.terminal import styled
from kafkapy.config.local_cluster import (
    Address,
    check_settings,
    existing_nodes,
    existing_voters,
    voter_count,
    write_properties,
)
from kafkapy.config.properties import parse_properties
from kafkapy.config.validators import ConfigException
from kafkapy.errors import StartError

# Controllers listen this far above the brokers, so that a cluster which grows does not meet its own controllers.
CONTROLLER_PORT_DISTANCE = 1000

RESTART_PAUSE_S = 1.0

# What runs one broker.
COMMAND = (sys.executable, "-m", "kafkapy", "start")

# The fields of a log line that have a place of their own in the text form.
_PLACED = ("time", "level", "logger", "message", "exception")

_PR_SET_PDEATHSIG = 1


class Plan(NamedTuple):
    """What was asked for."""

    brokers: int
    folder: Path
    host: str
    port: int
    settings: dict[str, str]
    racks: tuple[str, ...]
    log_format: str
    log_level: str
    restart: bool


def plan_of(
    brokers: int,
    data_dir: str | None,
    listen: str | None,
    config: str | None,
    settings: Sequence[str],
    racks: str | None,
    log_format: str,
    log_level: str,
    restart: bool,
) -> Plan:
    """The options, checked as far as this process can. Raises StartError."""
    folder = Path(data_dir or "kafkapy-data")
    host, _, port = (listen or "localhost:9092").rpartition("://")[2].rpartition(":")
    given = _file_settings(config)
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise StartError(f"--set {setting}: expected KEY=VALUE")
        check_settings({name.strip(): value}, "--set")
        given[name.strip()] = value
    names = tuple(name.strip() for name in (racks or "").split(",") if name.strip())
    _check_folder(folder, brokers)
    return Plan(brokers, folder, host, int(port), given, names, log_format, log_level, restart)


def _file_settings(config: str | None) -> dict[str, str]:
    if config is None:
        return {}
    try:
        found = parse_properties(Path(config).read_text(encoding="utf-8"))
    except OSError as error:
        raise StartError(f"cannot read {config}: {error.strerror}") from error
    except (ConfigException, UnicodeDecodeError) as error:
        raise StartError(f"{config}: {error}") from error
    settings = {name: item.value for name, item in found.items()}
    check_settings(settings, config)
    return settings


def _check_folder(folder: Path, brokers: int) -> None:
    """Data of another shape must not be mixed with ours, nor may a cluster lose nodes that hold data."""
    if (folder / "meta.properties").exists():
        raise StartError(f"{folder} holds the data of a single broker; name another folder with --data-dir")
    nodes = existing_nodes(folder)
    if nodes and max(nodes) > brokers:
        raise StartError(
            f"{folder} holds a cluster of {max(nodes)} brokers; start it with --brokers {max(nodes)}, "
            "or name another folder with --data-dir"
        )


def addresses_of(plan: Plan) -> dict[int, Address]:
    """A port for each broker and each controller. Raises StartError where one is taken."""
    voters = len(existing_voters(plan.folder)) or voter_count(plan.brokers)
    nodes = range(1, plan.brokers + 1)
    host = plan.host.strip("[]") or "127.0.0.1"
    if plan.port == 0:
        ports = _free_ports(host, plan.brokers + voters)
        controllers = [*ports[plan.brokers :], *[0] * plan.brokers]
        return {node: Address(plan.host, ports[node - 1], controllers[node - 1]) for node in nodes}
    distance = CONTROLLER_PORT_DISTANCE
    if plan.port + distance + plan.brokers > 65535:
        distance = -CONTROLLER_PORT_DISTANCE
    found = {node: Address(plan.host, plan.port + node - 1, plan.port + distance + node - 1) for node in nodes}
    for node, address in found.items():
        for port in (address.port, address.controller_port if node <= voters else 0):
            _check_free(host, port)
    return found


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _free_ports(host: str, count: int) -> list[int]:
    """Ports that were free a moment ago. All are held until the last is found, so none comes twice."""
    held: list[socket.socket] = []
    try:
        for _ in range(count):
            sock = socket.socket(_family(host))
            held.append(sock)
            sock.bind((host, 0))
        return [sock.getsockname()[1] for sock in held]
    except OSError as error:
        raise StartError(f"cannot listen on {host}: {error.strerror}") from error
    finally:
        for sock in held:
            sock.close()


def _check_free(host: str, port: int) -> None:
    """Better one line now than a broker that dies among others that wait for it."""
    with socket.socket(_family(host)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
        except OSError as error:
            raise StartError(f"cannot listen on {host}:{port}: {(error.strerror or str(error)).lower()}") from error


def run_cluster(plan: Plan) -> None:
    """Run the cluster until a signal stops it. Raises StartError when it cannot start, or when no broker is left."""
    addresses = addresses_of(plan)
    files = write_properties(plan.folder, addresses, plan.settings, racks=plan.racks)
    Supervisor(plan, addresses, files).run()


class Child:
    """One broker's process and what it has said so far."""

    def __init__(self, node_id: int, file: Path) -> None:
        self.node_id = node_id
        self.file = file
        self.process: subprocess.Popen[bytes] | None = None
        self.ready = False
        self.rest = b""
        self.restart_at: float | None = None

    @property
    def alive(self) -> bool:
        """Whether there is a process; its end is noticed by the end of its pipe."""
        return self.process is not None

    def start(self, log_level: str) -> IO[bytes]:
        """Start the process; returns where it logs to."""
        command = [*COMMAND, "--config", str(self.file), "--log-format", "json", "--log-level", log_level]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
        self.ready, self.rest, self.restart_at = False, b"", None
        assert self.process.stderr is not None
        return self.process.stderr


def _die_with_parent() -> None:
    """Linux stops a broker whose supervisor was killed, so that its port and its data are not held by an orphan."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Supervisor:
    """Starts the brokers, prints what they log, passes signals on, and says when one dies."""

    def __init__(self, plan: Plan, addresses: dict[int, Address], files: Sequence[Path]) -> None:
        self._plan = plan
        self._addresses = addresses
        self._children = [Child(node_id, file) for node_id, file in zip(sorted(addresses), files, strict=True)]
        self._selector = selectors.DefaultSelector()
        self._signals_seen = 0
        self._was_ready = False
        self._began = time.monotonic()
        self._failure: str | None = None

    def run(self) -> None:
        """See `run_cluster`."""
        with _signals() as wakeup:
            self._selector.register(wakeup, selectors.EVENT_READ)
            try:
                for child in self._children:
                    self._start(child)
                while self._going_on():
                    for key, _ in self._selector.select(self._timeout_s()):
                        if key.data is None:
                            self._on_signals(wakeup.recv(64))
                        else:
                            self._on_output(key.data)
                    self._restart_due()
            finally:
                self._kill_all()
        if self._failure is not None:
            raise StartError(self._failure)
        self._say("INFO", "all brokers have stopped")

    def _going_on(self) -> bool:
        return any(child.alive or child.restart_at is not None for child in self._children)

    def _start(self, child: Child) -> None:
        self._selector.register(child.start(self._plan.log_level), selectors.EVENT_READ, child)

    def _timeout_s(self) -> float | None:
        due = [child.restart_at for child in self._children if child.restart_at is not None]
        return max(min(due) - time.monotonic(), 0) if due else None

    def _restart_due(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if child.restart_at is not None and child.restart_at <= now:
                self._start(child)

    # ---- what the brokers say

    def _on_output(self, child: Child) -> None:
        assert child.process is not None and child.process.stderr is not None
        data = os.read(child.process.stderr.fileno(), 65536)
        if not data:
            self._on_end(child)
            return
        *lines, child.rest = (child.rest + data).split(b"\n")
        for line in lines:
            self._on_line(child, line.decode(errors="replace"))

    def _on_line(self, child: Child, line: str) -> None:
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            # What comes from below the logger: a crash of the interpreter, an error in one line.
            entry = {"time": _now(), "level": "INFO", "logger": "stderr", "message": line}
        self._print(entry, child.node_id)
        if "listen" in entry and not child.ready:
            child.ready = True
            self._on_ready()

    def _on_ready(self) -> None:
        if self._was_ready or not all(child.ready for child in self._children):
            return
        self._was_ready = True
        bootstrap = ",".join(f"{one.host}:{one.port}" for one in self._addresses.values())
        seconds = time.monotonic() - self._began
        message = f"{len(self._children)} brokers ready in {seconds:.2f} s"
        self._say("INFO", message, bootstrap=bootstrap, data=str(self._plan.folder))

    def _on_end(self, child: Child) -> None:
        process = child.process
        assert process is not None and process.stderr is not None
        self._selector.unregister(process.stderr)
        process.stderr.close()
        status = process.wait()
        child.process = None
        if child.rest:
            self._on_line(child, child.rest.decode(errors="replace"))
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"has ended with status {status}"
        if self._signals_seen:
            if status != 0:
                self._failure = self._failure or f"broker {child.node_id} {how}"
            return
        if not self._was_ready:
            self._failure = self._failure or f"broker {child.node_id} {how} before the cluster was ready"
            self._stop_all(signal.SIGTERM)
        elif self._plan.restart:
            self._say("ERROR", f"broker {child.node_id} {how}; it is started again")
            child.restart_at = time.monotonic() + RESTART_PAUSE_S
        elif any(other.alive for other in self._children):
            again = f"kafkapy start --config {child.file}"
            self._say("ERROR", f"broker {child.node_id} {how}; the others go on. To start it again: {again}")
        else:
            self._failure = f"broker {child.node_id} {how}, and no other is left"

    # ---- signals

    def _on_signals(self, numbers: bytes) -> None:
        for number in numbers:
            if number not in (signal.SIGTERM, signal.SIGINT):
                continue
            self._signals_seen += 1
            for child in self._children:
                child.restart_at = None
            if self._signals_seen == 1:
                self._say("INFO", f"stopping {len(self._children)} brokers on {signal.Signals(number).name}")
                self._stop_all(signal.SIGTERM)
            else:
                self._say("WARNING", "second signal: ending at once")
                self._failure = "ended by a second signal"
                self._stop_all(signal.SIGKILL)

    def _stop_all(self, number: signal.Signals) -> None:
        for child in self._children:
            if child.process is not None:
                with suppress(ProcessLookupError):
                    child.process.send_signal(number)

    def _kill_all(self) -> None:
        """Nothing of ours outlives this process, whatever ends it."""
        self._stop_all(signal.SIGKILL)
        for child in self._children:
            if child.process is not None:
                child.process.wait()

    # ---- printing

    def _say(self, level: str, message: str, **fields: str) -> None:
        entry = {"time": _now(), "level": level, "logger": "cluster", "message": message, **fields}
        self._print(entry, None)

    def _print(self, entry: dict[str, Any], node_id: int | None) -> None:
        if self._plan.log_format == "json":
            line = json.dumps(entry if node_id is None else {"node": node_id, **entry}, default=str)
        else:
            line = _text_line(entry, node_id, len(str(len(self._children))))
        print(line, file=sys.stderr, flush=True)


def _text_line(entry: dict[str, Any], node_id: int | None, width: int) -> str:
    """A line as a single broker prints it, behind the number of the broker."""
    clock = _local_clock(str(entry.get("time", "")))
    fields = "".join(f" {key}={value}" for key, value in entry.items() if key not in _PLACED)
    level, logger = entry.get("level", "INFO"), entry.get("logger", "")
    label = "*" * width if node_id is None else f"{node_id:>{width}}"
    colour = "white" if node_id is None else ("cyan", "magenta", "yellow", "green", "blue")[node_id % 5]
    line = f"{styled(f'[{label}]', sys.stderr, fg=colour)} {clock} {level:<5} {logger}: {entry.get('message', '')}"
    if fields:
        line += " " + fields
    return f"{line}\n{entry['exception']}" if entry.get("exception") else line


def _now() -> str:
    now = time.time()
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03d}Z"


def _local_clock(text: str) -> str:
    """2026-11-18T14:03:07.412Z as the clock on this wall, without the date."""
    import calendar

    try:
        seconds = calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return text
    return time.strftime("%H:%M:%S", time.localtime(seconds)) + text[19:23]


@contextmanager
def _signals() -> Iterator[socket.socket]:
    """A socket from which the numbers of the signals that arrive can be read."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    old_fd = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(old_fd)
        for number, handler in before.items():
            signal.signal(number, handler)
        reader.close()
        writer.close()
