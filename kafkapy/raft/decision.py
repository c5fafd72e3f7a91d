"""What a controller's decision is: data, made by a pure function of an image and a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kafkapy.wire.schema import Record

# As many as Apache Kafka's controller takes in one operation; it bounds the time of one step of the loop and the size of an entry.
DECISION_RECORDS_MAX = 10_000

UuidSource = Callable[[], bytes]


class Decision(NamedTuple):
    """What is to be written, and what is answered when it is."""

    records: list[Record]
    response: Any
    notes: tuple[str, ...] = ()  # what an operator must be told when it is made
