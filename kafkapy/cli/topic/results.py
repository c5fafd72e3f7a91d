"""What commands that change several topics print: one row per topic, with what became of it."""

from __future__ import annotations

from collections.abc import Iterable

from kafkapy.cli.failures import finish
from kafkapy.cli.output import Column, Output, Row
from kafkapy.errors import KafkaError

TOPIC = Column("topic", "the topic's name")
STATUS = Column("status", "ok, or the name of Kafka's error")
MESSAGE = Column("message", "the reason of an error, null without one", wide=True)


def outcome(error: KafkaError | None, done: str = "ok") -> Row:
    """The columns STATUS and MESSAGE."""
    return {"status": done if error is None else error.code.name, "message": error and error.message}


def print_results(out: Output, rows: Iterable[Row], errors: Iterable[KafkaError | None]) -> None:
    """All rows on standard output, errors in words on standard error; the exit code follows from them."""
    out.rows(list(rows))
    finish(errors)
