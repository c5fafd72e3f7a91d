"""The brokers that are compared: kafkapy and a real Apache Kafka, each a process of its own with the same server.properties.

Apache Kafka needs java and its jars. Those come from Maven and are kept in ~/.cache/kafkapy-bench (or KAFKAPY_BENCH_CACHE).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

KAFKAPY = "kafkapy"
KAFKA = "kafka"
KINDS = (KAFKAPY, KAFKA)
TITLES = {KAFKAPY: "kafkapy", KAFKA: "Apache Kafka"}

KAFKA_VERSION = "4.3.1"
CLUSTER_ID = "YmVuY2gtY2x1c3Rlci0wMQ"
STOP_TIMEOUT_S = 120.0

_CACHE = Path(os.environ.get("KAFKAPY_BENCH_CACHE", Path.home() / ".cache" / "kafkapy-bench"))
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# What Kafka's own start script gives a broker.
_JAVA_OPTIONS = (
    *("-server", "-Xms1G", "-Xmx1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    "-XX:InitiatingHeapOccupancyPercent=35",
)
_MAVEN_PROJECT = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bench</groupId> <artifactId>broker</artifactId> <version>1</version>
  <dependencies>{}</dependencies>
</project>
"""
_MAVEN_DEPENDENCY = (
    "<dependency><groupId>org.apache.kafka</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)
_LOGGING = """Configuration:
  Appenders:
    Console: {name: OUT, PatternLayout: {pattern: '%d %p %c %m%n'}}
  Loggers:
    Root: {level: WARN, AppenderRef: [{ref: OUT}]}
"""


class PeerError(Exception):
    """A broker did not do what every benchmark needs: start, or stop."""


def missing(kind: str) -> str | None:
    """What keeps this kind of broker from running here, or None. Fetches Apache Kafka when that is possible."""
    if kind == KAFKAPY:
        return None
    if shutil.which("java") is None:
        return "java is not installed"
    if list(_libs().glob("kafka_*.jar")):
        return None
    if shutil.which("mvn") is None:
        return f"its jars are not in {_libs()}, and mvn, which fetches them, is not installed"
    return _fetch()


def _libs() -> Path:
    return _CACHE / f"kafka-{KAFKA_VERSION}" / "libs"


def _fetch() -> str | None:
    folder = _libs().parent
    folder.mkdir(parents=True, exist_ok=True)
    wanted = "".join(_MAVEN_DEPENDENCY.format(name, KAFKA_VERSION) for name in ("kafka_2.13", "kafka-tools"))
    (folder / "pom.xml").write_text(_MAVEN_PROJECT.format(wanted))
    print(f"fetching Apache Kafka {KAFKA_VERSION} with Maven into {folder}", file=sys.stderr)
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs"]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return None if done.returncode == 0 else f"Maven could not fetch it: {done.stdout.strip()[-300:]}"


class Peer:
    """One broker of either kind in a new folder; `stop` and `start` again keep its data."""

    def __init__(self, kind: str, folder: str | None = None) -> None:
        self.kind = kind
        self.title = TITLES[kind]
        self.root = Path(tempfile.mkdtemp(prefix=f"bench-{kind}-", dir=folder))
        self.port, controller = _free_ports(2)
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._properties = self.root / "server.properties"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.root / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        if kind == KAFKA:
            self._format()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.root, ignore_errors=True)

    def _format(self) -> None:
        (self.root / "log4j2.yaml").write_text(_LOGGING)
        command = ["java", "-cp", f"{_libs()}/*", "kafka.tools.StorageTool", "format"]
        command += ["-t", CLUSTER_ID, "-c", str(self._properties)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _command(self) -> list[str]:
        if self.kind == KAFKAPY:
            return [str(Path(sys.executable).with_name("kafkapy")), "start", "--config", str(self._properties)]
        logging = f"-Dlog4j2.configurationFile={self.root}/log4j2.yaml"
        return ["java", *_JAVA_OPTIONS, logging, "-cp", f"{_libs()}/*", "kafka.Kafka", str(self._properties)]

    def start(self) -> None:
        """Start the process; it does not answer yet."""
        assert self._process is None
        with open(self.root / "output", "ab") as output:
            self._process = subprocess.Popen(self._command(), stdout=output, stderr=output)

    def stop(self) -> float:
        """Stop cleanly; how many seconds that took."""
        assert self._process is not None
        begun = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise PeerError(f"{self.title} did not stop in {STOP_TIMEOUT_S:.0f} s") from None
        self._process = None
        return time.monotonic() - begun

    def check_alive(self) -> None:
        """Raise with the end of its output if the process has ended."""
        assert self._process is not None
        status = self._process.poll()
        if status is not None:
            tail = (self.root / "output").read_text(errors="replace")[-1500:]
            raise PeerError(f"{self.title} ended with status {status}:\n{tail}")

    # What the process and its children take

    def rss_mb(self) -> float:
        """Resident memory."""
        total = 0
        for pid in self._pids():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                total += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return total * _PAGE_BYTES / 1e6

    def cpu_s(self) -> float:
        """Processor time since the process began."""
        total = 0
        for pid in self._pids():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                total += int(fields[11]) + int(fields[12])
        return total / _TICKS_PER_S

    def open_files(self) -> int:
        """Open descriptors."""
        total = 0
        for pid in self._pids():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                total += len(os.listdir(f"/proc/{pid}/fd"))
        return total

    def _pids(self) -> list[int]:
        assert self._process is not None
        pids = [self._process.pid]
        for pid in pids:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                for task in os.listdir(f"/proc/{pid}/task"):
                    pids += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
        return pids


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports
