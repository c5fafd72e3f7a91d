"""Client properties under the names that Java's clients and librdkafka give them, so that an existing file can be used as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from kafkapy.cli.terminal import note

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = {"0": 0, "1": 1, "-1": -1, "all": -1}


class PropertyError(ValueError):
    """A value that the property cannot have."""


def _number(first: int, last: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.lstrip("-").isdigit() or not first <= int(text) <= last:
            raise PropertyError(f"must be a number from {first} to {last}")
        return int(text)

    return parse


def _one_of(values: dict[str, Any]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        if text.lower() not in values:
            raise PropertyError(f"must be one of {', '.join(values)}")
        return values[text.lower()]

    return parse


def _plaintext(text: str) -> str:
    if text.upper() != "PLAINTEXT":
        raise PropertyError("only PLAINTEXT listeners can be reached")
    return "PLAINTEXT"


_INT32_MAX = 2**31 - 1
_BOOLEAN = _one_of({"true": True, "false": False})


class _Known(NamedTuple):
    """The attribute that a property sets, and what reads its value."""

    attribute: str
    parse: Callable[[str], Any]


_KNOWN: dict[str, _Known] = {
    "bootstrap.servers": _Known("bootstrap", str),
    "metadata.broker.list": _Known("bootstrap", str),
    "client.id": _Known("client_id", str),
    "request.timeout.ms": _Known("timeout_ms", _number(1, _INT32_MAX)),
    "socket.timeout.ms": _Known("timeout_ms", _number(1, _INT32_MAX)),
    "security.protocol": _Known("security_protocol", _plaintext),
    "acks": _Known("acks", _one_of(ACKS)),
    "request.required.acks": _Known("acks", _one_of(ACKS)),
    "batch.size": _Known("batch_bytes", _number(1, _INT32_MAX)),
    "compression.type": _Known("codec", _one_of({name: name for name in CODECS})),
    "compression.codec": _Known("codec", _one_of({name: name for name in CODECS})),
    "enable.idempotence": _Known("idempotent", _BOOLEAN),
    "delivery.timeout.ms": _Known("delivery_timeout_ms", _number(1, _INT32_MAX)),
    "message.timeout.ms": _Known("delivery_timeout_ms", _number(1, _INT32_MAX)),
    "isolation.level": _Known("read_committed", _one_of({"read_committed": True, "read_uncommitted": False})),
    "fetch.min.bytes": _Known("fetch_min_bytes", _number(0, _INT32_MAX)),
    "fetch.max.bytes": _Known("fetch_max_bytes", _number(0, _INT32_MAX)),
    "fetch.max.wait.ms": _Known("fetch_max_wait_ms", _number(0, _INT32_MAX)),
    "fetch.wait.max.ms": _Known("fetch_max_wait_ms", _number(0, _INT32_MAX)),
    "max.partition.fetch.bytes": _Known("partition_max_bytes", _number(0, _INT32_MAX)),
    "fetch.message.max.bytes": _Known("partition_max_bytes", _number(0, _INT32_MAX)),
}


class ClientProperties:
    """The properties that mean something here, with their defaults."""

    def __init__(self) -> None:
        self.bootstrap = ""
        self.client_id = "kafkapy"
        self.timeout_ms = 30_000
        self.security_protocol = "PLAINTEXT"
        self.acks = -1
        self.batch_bytes = 512 * 1024
        self.codec = "none"
        self.idempotent = True
        self.delivery_timeout_ms = 120_000
        self.read_committed = False
        self.fetch_min_bytes = 1
        self.fetch_max_bytes = 50 * 1024 * 1024
        self.fetch_max_wait_ms = 500
        self.partition_max_bytes = 1024 * 1024

    @classmethod
    def load(cls, path: str, assignments: Sequence[str]) -> ClientProperties:
        """Those of the file, then those of the command line. A file made for another client may hold what we have no use for."""
        properties = cls()
        if path:
            from kafkapy.config.properties import parse_properties

            ignored = []
            for key, (value, line) in parse_properties(Path(path).read_text()).items():
                if key in _KNOWN:
                    properties._set(key, value, f"{path}, line {line}")
                else:
                    ignored.append(key)
            if ignored:
                note(f"{path}: no use for {', '.join(ignored)}")
        for assignment in assignments:
            key, equals, value = assignment.partition("=")
            if not equals:
                raise click.UsageError(f"-X {assignment}: write KEY=VALUE")
            if key not in _KNOWN:
                raise click.UsageError(f"-X {key}: no such client property.{_suggestion(key)}")
            properties._set(key, value, f"-X {key}")
        return properties

    def _set(self, key: str, value: str, where: str) -> None:
        try:
            setattr(self, _KNOWN[key].attribute, _KNOWN[key].parse(value.strip()))
        except PropertyError as error:
            raise click.UsageError(f"{where}: {key}={value}: {error}") from None


def _suggestion(key: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key, _KNOWN, 3, 0.5) or sorted(_KNOWN)
    return f" There are: {', '.join(near)}."
