"""How log lines look: for a terminal, or as one JSON object a line for machines. Both carry the same fields.

    14:03:07.412 INFO  server: ready in 0.21 s  listen=localhost:9092 data=./kafkapy-data
    {"time": "2026-11-18T14:03:07.412Z", "level": "INFO", "logger": "server", "message": "ready in 0.21 s", "listen": "localhost:9092", ...}

Fields are what a call passes as `extra`. Lines go to standard error: standard output is for data.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

# What every LogRecord has; anything beyond is a field of the call's own.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


class TextFormatter(logging.Formatter):
    """One readable line; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger, message, fields."""
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        name = record.name.removeprefix("kafkapy.")
        fields = "".join(f" {key}={value}" for key, value in _fields(record).items())
        line = f"{clock}.{int(record.msecs):03d} {record.levelname:<5} {name}: {record.getMessage()}"
        if fields:
            line += " " + fields
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """The same fields as text, under fixed names."""
        import json

        clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{clock}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name.removeprefix("kafkapy."),
            "message": record.getMessage(),
        }
        line.update(_fields(record))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up(style: str, level: str) -> None:
    """Send all of kafkapy's log lines to standard error in this style ("text" or "json")."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    root = logging.getLogger("kafkapy")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
