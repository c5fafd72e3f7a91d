"""A real Apache Kafka, started for a test. Needs java 17 and Kafka's jars; without them the caller is told what is missing.

The jars are looked for in `KAFKA_LIBS` (the `libs` folder of a Kafka download), then where the benchmarks keep theirs.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.support.ports import free_ports

VERSION = "4.3.1"
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 30.0
CLUSTER_ID = "mJ2tIyr8T1eXqEq8o5Hb3A"

_LOG4J = """Configuration:
  Appenders: {Console: {name: STDOUT, PatternLayout: {pattern: '[%d] %p %m (%c)%n'}}}
  Loggers: {Root: {level: WARN, AppenderRef: [{ref: STDOUT}]}}
"""


def missing() -> str | None:
    """What keeps Apache Kafka from running here, or None."""
    if shutil.which("java") is None:
        return "java is not installed"
    if not list(libs().glob("kafka_*.jar")):
        return f"no Apache Kafka {VERSION} in {libs()}; set KAFKA_LIBS to the libs folder of a download"
    return None


def libs() -> Path:
    """The folder with Kafka's jars."""
    given = os.environ.get("KAFKA_LIBS")
    return Path(given) if given else Path.home() / ".cache" / "kafkapy-bench" / f"kafka-{VERSION}" / "libs"


class KafkaBroker:
    """A single Kafka node, broker and controller in one, in a folder of its own."""

    def __init__(self, config: Mapping[str, str] | None = None, heap: str = "400m") -> None:
        self.root = Path(tempfile.mkdtemp(prefix="kafkapy-compat-"))
        self.port, controller = free_ports(2)
        self._heap = heap
        self._process: subprocess.Popen[bytes] | None = None
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.root / "data"),
            **(config or {}),
        }
        self._properties = self.root / "server.properties"
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        (self.root / "log4j2.yaml").write_text(_LOG4J)

    @property
    def bootstrap(self) -> str:
        """What clients call bootstrap.servers."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        classpath = f"{libs()}/*"
        format_storage = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._properties)]
        subprocess.run(
            ["java", "-cp", classpath, *format_storage],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with open(self.root / "output", "wb") as output:
            self._process = subprocess.Popen(
                [
                    "java",
                    f"-Xmx{self._heap}",
                    f"-Dlog4j2.configurationFile={self.root}/log4j2.yaml",
                    "-cp",
                    classpath,
                    "kafka.Kafka",
                    str(self._properties),
                ],
                stdout=output,
                stderr=output,
            )
        try:
            self._wait_until_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError("Apache Kafka ended:\n" + (self.root / "output").read_text()[-2000:])
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.2)
            else:
                return
        raise RuntimeError("Apache Kafka did not come up:\n" + (self.root / "output").read_text()[-2000:])

    def __exit__(self, *exc: object) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.root, ignore_errors=True)
