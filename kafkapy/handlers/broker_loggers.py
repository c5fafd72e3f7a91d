"""The levels of this process's loggers as the settings of a BROKER_LOGGER resource: read, and changed until the next start.

Kafka's six levels are shown and taken: Python's CRITICAL is FATAL, and TRACE lies below DEBUG.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable

from kafkapy.config.definitions import ConfigType
from kafkapy.config.describe import ConfigEntry
from kafkapy.config.dynamic import Change
from kafkapy.config.resources import ConfigOperation, ConfigSource
from kafkapy.errors import ErrorCode, KafkaError

ROOT = "root"
LEVELS = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": 5,
    "WARN": logging.WARNING,
}


def describe_loggers(wanted: Container[str] | None = None) -> list[ConfigEntry]:
    """The level of every logger of kafkapy, and of the root that those of other packages inherit from."""
    return [
        ConfigEntry(
            name,
            _level_name(logging.getLogger(None if name == ROOT else name).getEffectiveLevel()),
            ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            (),
            ConfigType.UNKNOWN,
            documentation="",
        )
        for name in _names()
        if wanted is None or name in wanted
    ]


def alter_loggers(name: str, node_id: int, changes: Iterable[Change], validate_only: bool = False) -> None:
    """Make all changes or none. `name` is the resource's, which must be this node's id. Raises KafkaError."""
    if not name.removeprefix("-").isdecimal():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) != node_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {node_id}, but received {name}")
    changes = tuple(changes)
    known = set(_names())
    for change in changes:
        _check(change, known)
    if validate_only:
        return
    for change in changes:
        logger = logging.getLogger(None if change.name == ROOT else change.name)
        deleted = change.operation == ConfigOperation.DELETE
        logger.setLevel(logging.NOTSET if deleted else LEVELS[str(change.value)])


def _check(change: Change, known: Container[str]) -> None:
    logger, operation, value = change
    if operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        verb = ConfigOperation(operation).name
        message = f"{verb} operation is not allowed for the BROKER_LOGGER resource"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {operation}")
    if operation == ConfigOperation.SET and value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {logger}")
    if logger not in known:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {logger} does not exist!")
    if operation == ConfigOperation.DELETE:
        if logger == ROOT:
            message = "Removing the log level of the root logger is not allowed"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    elif value not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {logger} to {value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(LEVELS)}",
        )


def _names() -> list[str]:
    """Loggers that somebody has asked for; Python makes the ones between them only when they are used."""
    ours = (name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "kafkapy")
    return [ROOT, *sorted(ours)]


def _level_name(level: int) -> str:
    """The nearest level at or below that Kafka knows."""
    return max((value, name) for name, value in LEVELS.items() if value <= max(level, LEVELS["TRACE"]))[1]
