"""The grammar of offsets."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.cli.offset_spec import (
    END,
    END_QUESTION,
    START,
    START_QUESTION,
    Bounds,
    Kind,
    OffsetSpecError,
    Point,
    Span,
    ask_bounds,
    parse_duration_ms,
    parse_span,
    resolve,
)
from kafkapy.types import TopicPartition

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
MIDNIGHT_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def at(time_ms: int) -> Point:
    """A point in time."""
    return Point(Kind.TIME, time_ms)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("start", Span(START)),
        ("end", Span(END)),
        ("47", Span(Point(Kind.OFFSET, 47))),
        ("+2", Span(Point(Kind.AFTER_START, 2))),
        ("-3", Span(Point(Kind.BEFORE_END, 3))),
        ("10:20", Span(Point(Kind.OFFSET, 10), Point(Kind.OFFSET, 20))),
        (":end", Span(START, END)),
        ("-5:", Span(Point(Kind.BEFORE_END, 5), END)),
        (":", Span(START, END)),
        ("@1767225600000", Span(at(MIDNIGHT_MS))),
        ("@1767225600", Span(at(MIDNIGHT_MS))),
        ("@2026-01-01", Span(at(MIDNIGHT_MS))),
        ("@2026-01-01T00:00:00Z", Span(at(MIDNIGHT_MS))),
        ("@2026-01-01T02:30:00+02:30", Span(at(MIDNIGHT_MS))),
        ("@2026-01-01T00:00:00Z:end", Span(at(MIDNIGHT_MS), END)),
        ("@2026-01-01T00:00:2026-01-01T01:00", Span(at(MIDNIGHT_MS), at(MIDNIGHT_MS + HOUR_MS))),
        ("@2026-01-01:end", Span(at(MIDNIGHT_MS), END)),
        ("@1h", Span(at(NOW_MS - HOUR_MS))),
        ("@-1h", Span(at(NOW_MS - HOUR_MS))),
        ("@-2h:-1h", Span(at(NOW_MS - 2 * HOUR_MS), at(NOW_MS - HOUR_MS))),
        ("@-1h:now", Span(at(NOW_MS - HOUR_MS), at(NOW_MS))),
        ("@-1h:@now", Span(at(NOW_MS - HOUR_MS), at(NOW_MS))),
        ("@1h:50", Span(at(NOW_MS - HOUR_MS), Point(Kind.OFFSET, 50))),
        ("10:@1h", Span(Point(Kind.OFFSET, 10), at(NOW_MS - HOUR_MS))),
    ],
)
def test_every_form_is_understood(text: str, span: Span) -> None:
    """The forms that the help lists, and their combinations."""
    assert parse_span(text, NOW_MS) == span


@pytest.mark.parametrize(
    "text", ["", "x", "1.5", "--3", "+-3", "@", "@yesterday", "@2026-13-01", "1:2:3", "@12", "٣", "9" * 20]
)
def test_everything_else_is_refused(text: str) -> None:
    """With a message that shows what there is."""
    with pytest.raises(OffsetSpecError, match="write start, end"):
        parse_span(text, NOW_MS)


@given(st.text(max_size=12))
def test_no_text_does_anything_else_than_mean_something_or_be_refused(text: str) -> None:
    """Whatever is typed."""
    with suppress(OffsetSpecError):
        parse_span(text, NOW_MS)


@given(st.integers(0, 10**15), st.sampled_from(["ms", "s", "m", "h", "d"]))
def test_durations_have_units(number: int, unit: str) -> None:
    """A number alone is no duration."""
    assert parse_duration_ms(f"{number}{unit}") == number * parse_duration_ms(f"1{unit}")  # type: ignore[operator]
    assert parse_duration_ms(str(number)) is None


A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def ask(questions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Partition 0 has the offsets 10 to 19, at the times 100 to 109; partition 1 is empty and starts at 5."""
    found = {}
    for item, question in questions.items():
        start, end = (10, 20) if item == A else (5, 5)
        if question == START_QUESTION:
            found[item] = start
        elif question == END_QUESTION:
            found[item] = end
        else:
            offset = max(question - 90, start)
            found[item] = offset if offset < end else -1
    return found


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("start", 10, 5),
        ("end", 20, 5),
        ("+3", 13, 5),
        ("+30", 20, 5),
        ("-3", 17, 5),
        ("-30", 10, 5),
        ("7", 7, 7),
    ],
)
def test_points_have_an_offset_in_each_partition(text: str, first: int, second: int) -> None:
    """Relative points stay within the partition; given numbers are left alone."""
    bounds = ask_bounds([A, B], ask)
    assert bounds == {A: Bounds(10, 20), B: Bounds(5, 5)}
    assert resolve(parse_span(text, NOW_MS).first, bounds, ask) == {A: first, B: second}


def test_a_time_after_the_last_record_is_the_end() -> None:
    """Brokers answer -1 then."""
    bounds = ask_bounds([A, B], ask)
    assert resolve(at(104), bounds, ask) == {A: 14, B: 5}
    assert resolve(at(1000), bounds, ask) == {A: 20, B: 5}
