"""A Connect worker in a process of its own, and its REST interface."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compat_tests import tools

JVM = ("-Xmx300m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
WAIT_S = 90.0
STOP_TIMEOUT_S = 30.0
STRINGS = "org.apache.kafka.connect.storage.StringConverter"


class Worker:
    """May be stopped or killed, and started again as the same member of its cluster."""

    def __init__(self, classpath: str, bootstrap: str, name: str, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._url = f"http://127.0.0.1:{free.getsockname()[1]}"
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "config.storage.topic": f"{name}-configs",
            "offset.storage.topic": f"{name}-offsets",
            "status.storage.topic": f"{name}-status",
            "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "offset.storage.partitions": "2",
            "status.storage.partitions": "1",
            "exactly.once.source.support": "enabled",
            "offset.flush.interval.ms": "500",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            "consumer.session.timeout.ms": "6000",  # a killed sink's partition is not kept for the default of 45 s
            "consumer.heartbeat.interval.ms": "1000",
            "producer.transaction.timeout.ms": "10000",  # nor its open transaction for the default of 60 s
            "scheduled.rebalance.max.delay.ms": "0",  # a killed worker's tasks do not wait for it to come back
            "key.converter": STRINGS,
            "value.converter": STRINGS,
            "plugin.discovery": "service_load",
            "listeners": self._url,
        }
        properties = folder / "worker.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._log = folder / "worker.log"
        self._command = [tools.program("java", "a JRE, version 17 or later"), *JVM]
        self._command += ["-cp", classpath, MAIN, str(properties)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Come back when it has joined its group, which is when it answers what it knows of the cluster."""
        with open(self._log, "ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output)
        self.until(lambda: self.request("GET", "/connectors") is not None, "it does not answer")

    def stop(self) -> None:
        """As an operator stops it."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()
        self._process = None

    def kill(self) -> None:
        """As a crash ends it: nothing is committed, no group is left."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None

    def create(self, name: str, **config: str) -> None:
        """A connector with one task; come back when that runs."""
        settings = {"tasks.max": "1", **{key.replace("_", "."): value for key, value in config.items()}}
        self.request("PUT", f"/connectors/{name}/config", settings)
        self.until(lambda: self.state(name) == ["RUNNING", "RUNNING"], f"{name} does not run")

    def state(self, name: str) -> list[str]:
        """Of a connector, then of its tasks."""
        status = self.request("GET", f"/connectors/{name}/status") or {"connector": {"state": "unknown"}, "tasks": []}
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def request(self, method: str, path: str, body: object = None) -> Any:
        """The answer's JSON, or None where the worker is not there yet, is rebalancing, or does not know the connector yet."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
                text = answer.read()
        except urllib.error.HTTPError as refused:
            assert refused.code in (404, 409, 503), f"{refused}: {refused.read().decode()}"
            return None
        except (urllib.error.URLError, ConnectionError):
            return None
        return json.loads(text) if text else {}

    def until(self, condition: Callable[[], bool], complaint: str) -> None:
        """Wait for it, with a deadline."""
        deadline = time.monotonic() + WAIT_S
        while not condition():
            ended = self._process is not None and self._process.poll() is not None
            told = self._log.read_text(errors="replace")[-3000:]
            assert not ended, f"the worker ended:\n{told}"
            assert time.monotonic() < deadline, f"{complaint} within {WAIT_S:.0f} s:\n{told}"
            time.sleep(0.1)
