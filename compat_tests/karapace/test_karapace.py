"""Schemas go into karapace by REST, and are there again after a restart, because the broker has kept them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from compat_tests import tools
from compat_tests.karapace import VERSION
from compat_tests.target import Target

WAIT_S = 60.0
STOP_TIMEOUT_S = 20.0


class Refused(Exception):
    """An answer with an error; its argument is the HTTP status."""


class Registry:
    """A karapace in a process of its own, on a topic of its own."""

    def __init__(self, target: Target, name: str, log: Path) -> None:
        tools.program("git", "pip fetches karapace with it")
        tools.program("go", "https://go.dev/dl; karapace brings a part in Go")
        source = f"karapace @ git+https://github.com/Aiven-Open/karapace@{VERSION}"
        self._command = [str(tools.python_with(source)), "-m", "karapace"]
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        self._url, self._log = f"http://127.0.0.1:{port}", log
        settings = {
            "bootstrap_uri": target.bootstrap,
            "karapace_registry": "true",
            "host": "127.0.0.1",
            "port": port,
            "advertised_hostname": "127.0.0.1",
            "registry_host": "127.0.0.1",
            "registry_port": port,
            "topic_name": name,
            "group_id": name,
            "log_level": "WARNING",
        }
        self._env = {f"KARAPACE_{key.upper()}": value for key, value in settings.items()}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Up, and the group's elected writer."""
        with open(self._log, "ab") as output:
            process = subprocess.Popen(self._command, stdout=output, stderr=output, env={**os.environ, **self._env})
        try:
            self._until_it_writes(process)
            yield
        finally:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def request(self, method: str, path: str, body: object = None) -> Any:
        """The answer's JSON."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            raise Refused(refused.code) from refused

    def _until_it_writes(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + WAIT_S
        while True:
            told = self._log.read_text(errors="replace")[-3000:]
            assert process.poll() is None, f"karapace ended:\n{told}"
            assert time.monotonic() < deadline, f"karapace is not ready:\n{told}"
            try:
                if self.request("GET", "/master_available")["master_available"]:
                    return
            except (Refused, OSError):
                pass  # not there yet, or no writer is elected yet
            time.sleep(0.2)


@pytest.fixture
def registry(target: Target, unique: Callable[[str], str], tmp_path: Path) -> Registry:
    """A new one, not yet running."""
    return Registry(target, unique("schemas"), tmp_path / "log")


def schema(**fields: str) -> dict[str, str]:
    """A record's, as it is registered."""
    rows = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"schema": json.dumps({"type": "record", "name": "Order", "fields": rows})}


def test_register_and_read_schemas(registry: Registry) -> None:
    """By id and by version; the same schema has the same id; what breaks readers is refused; a subject can be deleted."""
    with registry.running():
        first = registry.request("POST", "/subjects/orders-value/versions", schema(a="int", b="string"))["id"]
        assert registry.request("POST", "/subjects/orders-value/versions", schema(a="int", b="string"))["id"] == first
        second = registry.request("POST", "/subjects/orders-value/versions", schema(a="int"))["id"]
        assert second != first
        with pytest.raises(Refused, match="409"):
            registry.request("POST", "/subjects/orders-value/versions", schema(a="string"))
        assert registry.request("GET", "/subjects/orders-value/versions") == [1, 2]
        read = registry.request("GET", f"/schemas/ids/{first}")
        assert json.loads(read["schema"]) == json.loads(schema(a="int", b="string")["schema"])
        assert registry.request("DELETE", "/subjects/orders-value") == [1, 2]
        assert registry.request("GET", "/subjects") == []


def test_schemas_survive_a_restart(registry: Registry) -> None:
    """What one process has written into the topic is what the next one serves, ids included."""
    with registry.running():
        ids = [registry.request("POST", f"/subjects/s{n}/versions", schema(**{f"f{n}": "int"}))["id"] for n in range(5)]
        registry.request("PUT", "/config/s0", {"compatibility": "NONE"})
    with registry.running():
        found = [registry.request("GET", f"/subjects/s{n}/versions/latest")["id"] for n in range(5)]
        assert found == ids
        assert registry.request("GET", "/config/s0")["compatibilityLevel"] == "NONE"
        assert registry.request("POST", "/subjects/s9/versions", schema(new="int"))["id"] not in ids
