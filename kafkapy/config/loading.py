"""From the command line to a configuration: a properties file, `--set KEY=VALUE`, and options that stand for keys.

Each is stronger than the one before. A wrong value is an error in one line that names its key and, if it came from the file,
the file and line. What does not stop a start is told as warnings: unknown keys, and keys that change nothing in kafkapy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from kafkapy.config.broker_checks import check_broker_config
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.broker_configs import BROKER_KEYS
from kafkapy.config.properties import Property, parse_properties
from kafkapy.config.validators import ConfigException
from kafkapy.errors import StartError

# Keys under these belong to plug-ins and to single listeners, so any name is right.
OPEN_PREFIXES = ("listener.name.", "rlmm.config.", "rsm.config.", "config.providers.")

# Keys that Kafka 4 no longer has, with what became of them; they are common in older files.
REMOVED_KEYS = {
    "zookeeper.connect": "there is no ZooKeeper any more",
    "zookeeper.connection.timeout.ms": "there is no ZooKeeper any more",
    "zookeeper.session.timeout.ms": "there is no ZooKeeper any more",
    "broker.id.generation.enable": "set node.id",
    "inter.broker.protocol.version": "the cluster has feature levels instead",
    "log.message.format.version": "records have one format",
    "log.message.timestamp.difference.max.ms": (
        "set log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"
    ),
    "port": "set listeners",
    "host.name": "set listeners",
    "advertised.port": "set advertised.listeners",
    "advertised.host.name": "set advertised.listeners",
    "offsets.commit.required.acks": "commits always wait for all replicas",
}


class LoadedConfig(NamedTuple):
    """A configuration and what its user should hear about it."""

    config: BrokerConfig
    warnings: tuple[str, ...]


def load(
    path: Path | str | None = None, settings: Iterable[str] = (), options: Mapping[str, str] | None = None
) -> LoadedConfig:
    """The configuration of `kafkapy start`. Raises StartError with one line."""
    origins: dict[str, str] = {}
    texts: dict[str, str] = {}
    for name, (value, line) in _read(path).items():
        texts[name], origins[name] = value, f"{path}:{line}"
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise StartError(f"--set {setting}: expected KEY=VALUE")
        texts[name.strip()], origins[name.strip()] = value, "--set"
    for name, value in (options or {}).items():
        texts[name] = value
        origins.pop(name, None)
    try:
        config = BrokerConfig(texts)
        check_broker_config(config)
    except ConfigException as error:
        origin = origins.get(error.name or "")
        raise StartError(f"{origin}: {error}" if origin else str(error)) from error
    return LoadedConfig(config, tuple(_warnings(texts, origins)))


def _read(path: Path | str | None) -> dict[str, Property]:
    if path is None:
        return {}
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise StartError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise StartError(f"{path}: not a text file in UTF-8") from error
    try:
        return parse_properties(text)
    except ConfigException as error:
        raise StartError(f"{path}: {error}") from error


def _warnings(texts: Mapping[str, str], origins: Mapping[str, str]) -> Iterable[str]:
    """What the user should hear about the keys that were set, one line each."""
    idle = []
    for name in texts:
        origin = f"{origins[name]}: " if name in origins else ""
        key = BROKER_KEYS.get(name)
        if key is not None:
            if not key.honoured:
                idle.append(name)
        elif name in REMOVED_KEYS:
            yield f"{origin}{name} does not exist in Kafka 4 and is ignored: {REMOVED_KEYS[name]}"
        elif not name.startswith(OPEN_PREFIXES):
            yield f"{origin}unknown key {name} is ignored{_suggestion(name)}"
    if idle:
        yield f"these keys change nothing in kafkapy: {', '.join(idle)}"


def _suggestion(name: str) -> str:
    from difflib import get_close_matches  # only those who mistype pay for it

    matches = get_close_matches(name, BROKER_KEYS, n=1, cutoff=0.75)
    return f"; did you mean {matches[0]}?" if matches else ""
