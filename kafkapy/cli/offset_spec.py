"""The grammar of offsets that `consume` and `topic trim` share.

    start  end            the first record, the next one to be written
    47                    offset 47
    +2  -3                two after the start, three before the end
    @TIME                 the first record at or after that time
    FROM:TO               a range, TO excluded; either side may be left out: `:end`, `10:20`, `@2026-01-01:end`

TIME is one of: 13 digits (milliseconds), 10 digits (seconds), 2026-01-31, 2026-01-31T08:00:00Z (UTC where no zone is given),
1h or -1h (so long ago; ms, s, m, h, d), now. After `@FROM:` the end may be a time without its own @.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from kafkapy.types import TopicPartition

_DURATION = re.compile(r"-?(\d+)(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_OFFSET_DIGITS_MAX = 19


class OffsetSpecError(ValueError):
    """What was written is no offset."""


class Kind(Enum):
    """What a point's number means."""

    OFFSET = "offset"
    AFTER_START = "after the start"
    BEFORE_END = "before the end"
    TIME = "time in ms"


class Point(NamedTuple):
    """A place in a partition."""

    kind: Kind
    number: int = 0


class Span(NamedTuple):
    """From a point up to another; without an end it goes on as records come."""

    first: Point
    last: Point | None = None


START = Point(Kind.AFTER_START)
END = Point(Kind.BEFORE_END)


def parse_span(text: str, now_ms: int) -> Span:
    """Read what stands above."""
    point = _point(text, now_ms)
    if point is not None:
        return Span(point)
    # A time holds colons itself, so each colon may be the one that parts the range; only one reading makes sense.
    for at in (at for at, char in enumerate(text) if char == ":"):
        left, right = text[:at], text[at + 1 :]
        first = START if not left else _point(left, now_ms)
        last = END if not right else _point(right, now_ms)
        if left.startswith("@") and not right.startswith("@"):
            last = _point("@" + right, now_ms) or last
        if first is not None and last is not None:
            return Span(first, last)
    raise OffsetSpecError(
        f"{text!r} is no offset; write start, end, 47, +2, -3, @1h, @2026-01-31, @2026-01-31T08:00:00Z or a range such as 10:20"
    )


def _point(text: str, now_ms: int) -> Point | None:
    if text == "start":
        return START
    if text == "end":
        return END
    if text.startswith("@"):
        time_ms = parse_time(text[1:], now_ms)
        return None if time_ms is None else Point(Kind.TIME, time_ms)
    digits = text.lstrip("+-")
    if not digits.isascii() or not digits.isdigit() or len(text) - len(digits) > 1 or len(digits) > _OFFSET_DIGITS_MAX:
        return None
    kind = {"+": Kind.AFTER_START, "-": Kind.BEFORE_END}.get(text[0], Kind.OFFSET)
    return Point(kind, int(digits))


def parse_time(text: str, now_ms: int) -> int | None:
    """Milliseconds since 1970 of a TIME; None for anything else."""
    if text == "now":
        return now_ms
    if re.fullmatch(r"[0-9]{13}", text):
        return int(text)
    if re.fullmatch(r"[0-9]{10}", text):
        return int(text) * 1000
    duration_ms = parse_duration_ms(text.removeprefix("-"))
    if duration_ms is not None:
        return now_ms - duration_ms
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}.*", text):
        return None
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def parse_duration_ms(text: str) -> int | None:
    """90s, 5m, 1h ... in milliseconds; None for anything else."""
    found = _DURATION.fullmatch(text)
    return int(found[1]) * _UNIT_MS[found[2]] if found and text[0] != "-" else None


# Asks the cluster: partitions with a time in ms, or START_QUESTION, or END_QUESTION -> their offsets, -1 for "none that late".
Ask = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int]]

END_QUESTION = -1
START_QUESTION = -2


class Bounds(NamedTuple):
    """Where a partition starts and ends."""

    start: int
    end: int


def ask_bounds(partitions: Iterable[TopicPartition], ask: Ask) -> dict[TopicPartition, Bounds]:
    """Start and end of each partition."""
    items = list(partitions)
    starts, ends = ask(dict.fromkeys(items, START_QUESTION)), ask(dict.fromkeys(items, END_QUESTION))
    return {item: Bounds(starts[item], ends[item]) for item in items}


def resolve(point: Point, bounds: Mapping[TopicPartition, Bounds], ask: Ask) -> dict[TopicPartition, int]:
    """The point's offset in each partition. A relative one stays within the partition; a number that was given is left alone."""
    if point.kind is Kind.TIME:
        found = ask(dict.fromkeys(bounds, point.number))
        return {item: found[item] if found[item] >= 0 else bounds[item].end for item in bounds}
    if point.kind is Kind.AFTER_START:
        return {item: min(bound.start + point.number, bound.end) for item, bound in bounds.items()}
    if point.kind is Kind.BEFORE_END:
        return {item: max(bound.end - point.number, bound.start) for item, bound in bounds.items()}
    return dict.fromkeys(bounds, point.number)
