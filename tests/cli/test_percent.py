"""Percent formats: what is printed can be read back."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.cli.percent import FormatError, ReadError, RecordReader, Source, make_printer, parse_format
from kafkapy.client.fetcher import FetchedRecord
from kafkapy.client.producer import OutgoingRecord
from kafkapy.types import TopicPartition
from kafkapy.wire.record_batch import BatchHeader
from kafkapy.wire.records import Record

HEADER = BatchHeader(0, 0, 3, 2, 0, 0, 0, -1, -1, 7, 1, 0, 1)


def fetched(record: Record, topic: str = "orders", partition: int = 1) -> FetchedRecord:
    """A record as a consumer has it."""
    return FetchedRecord(record, TopicPartition(topic, partition), HEADER, 100, 90, 10)


def shown(text: str, record: Record) -> bytes:
    """The record in a format."""
    return make_printer(text)(fetched(record), 4)


def read(text: str, data: bytes) -> list[tuple[str | None, OutgoingRecord]]:
    """The records in the input."""
    return list(RecordReader(text).read_all(Source.of(io.BytesIO(data))))


RECORD = Record(47, 1_767_225_600_123, b"k", b"value", (("h", b"x"), ("n", None)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"%v\n", b"value\n"),
        (r"%t/%p@%o %k=%v", b"orders/1@47 k=value"),
        (r"%T %K %V %H %e %a %x %y %i", b"6 1 5 2 3 0 7 1 4"),
        (r"%[ %| %]", b"10 90 100"),
        (r"%h{%k:%v,}", b"h:x,n:,"),
        (r"%h{%K%k%V}", b"1h11n-1"),
        (r"%d %d{s} %d{iso}", b"1767225600123 1767225600 2026-01-01T00:00:00.123Z"),
        (r"%d{%Y-%m-%d %H:%M}", b"2026-01-01 00:00"),
        (r"%v{hex} %v{base64} %v{json}", b'76616c7565 dmFsdWU= "value"'),
        (r"%o{hex32} %p{big16}", b"0000002f \x00\x01"),
        (r"%k{big8}", b"107"),
        (r"%% %{ %} \t\\\x41\0", b"% { } \t\\A\0"),
    ],
)
def test_formats_print_what_the_grammar_says(text: str, expected: bytes) -> None:
    """Each verb, modifier and escape."""
    assert shown(text, RECORD) == expected


@pytest.mark.parametrize("text", ["%", "%q", "%h", "%h{%k", "%v{nope}", "%v{", "%o{base64}", r"\q", r"\xg1", "%h{%o}"])
def test_formats_that_mean_nothing_are_refused(text: str) -> None:
    """A format is checked before anything is printed."""
    with pytest.raises(FormatError):
        parse_format(text)


@pytest.mark.parametrize(
    "text", ["%k%v", "%p%o %v", "%K%k%v\\n", "%v%h{%k}", "%v %h{%k=%v}\\n", "%o", "%p1%v\\n", "%H%v\\n"]
)
def test_formats_that_leave_open_where_a_value_ends_are_refused_for_reading(text: str) -> None:
    """Reading never guesses."""
    with pytest.raises(FormatError):
        RecordReader(text)


def test_a_last_line_may_lack_its_end() -> None:
    """Files without a newline at the end are common."""
    assert [record.value for _, record in read(r"%v\n", b"a\nb")] == [b"a", b"b"]


def test_an_empty_input_has_no_records_and_an_empty_line_is_one() -> None:
    """The end of the input is told from an empty value."""
    assert read(r"%v\n", b"") == []
    assert [record.value for _, record in read(r"%v\n", b"\n\n")] == [b"", b""]


def test_a_missing_delimiter_does_not_swallow_the_next_line() -> None:
    """The error names the record and what should have come."""
    with pytest.raises(ReadError, match=r"record 2: b' ' should come behind %k"):
        read(r"%k %v\n", b"a b\nc\nd e\n")


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (r"%v{hex}\n", b"abc\n"),
        (r"%v{base64}\n", b"a\n"),
        (r"%v{json}\n", b"1\n"),
        (r"%v{json}\n", b'"a\n'),
        (r"%V{big32}%v", b"\0\0\0\x05ab"),
        (r"%V %v\n", b"-2 x\n"),
        (r"%p %v\n", b"x y\n"),
        (r"%d{iso} %v\n", b"yesterday x\n"),
        (r"%k{big8} %v\n", b"300 x\n"),
    ],
)
def test_input_that_does_not_fit_is_an_error(text: str, data: bytes) -> None:
    """Never a wrong record."""
    with pytest.raises(ReadError):
        read(text, data)


def test_headers_end_where_the_text_behind_them_begins() -> None:
    """Without a count the text that follows tells."""
    ((_, record),) = read(r"%k %h{%k=%v,};%v\n", b"a h=1,i=2,;x\n")
    assert record.headers == (("h", b"1"), ("i", b"2"))
    assert record.value == b"x"


def test_input_is_read_in_pieces_of_any_size() -> None:
    """Delimiters may be cut by the end of a read."""
    data = b"key--value==key2--value2=="
    for size in range(1, len(data)):
        stream = io.BytesIO(data)
        source = Source(lambda _, stream=stream, size=size: stream.read(size))  # type: ignore[misc]
        records = [record for _, record in RecordReader("%k--%v==").read_all(source)]
        assert [(record.key, record.value) for record in records] == [(b"key", b"value"), (b"key2", b"value2")]


# Values that a delimiter of these tests never stands in.
BYTES = st.binary(max_size=20)
PLAIN = st.binary(max_size=20).map(lambda data: data.translate(None, b"|\n;="))
MAYBE = st.none() | BYTES

# How a text can be written so that it can be read back whatever it holds: (format, allows null).
SAFE_TEXT = {
    "k": [("%K{big32}%k", True), ("%K %k", True), ("%k{json}", True), ("%K %k{hex}", True), ("%k{hex}|", False)],
    "v": [("%V{little64}%v", True), ("%V{hex16}%v{base64}", True), ("%v{json}", True), ("%v{base64}|", False)],
}


@st.composite
def formats_and_records(draw: st.DrawFn) -> tuple[str, Record]:
    """A format in which nothing is ambiguous, and a record that fits it."""
    parts = []
    key = value = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    kind = draw(st.sampled_from([*SAFE_TEXT["k"], ("%k|", False), ("", True)]))
    parts.append(kind[0])
    if kind[0]:
        key = draw(PLAIN if kind[0] == "%k|" else MAYBE if kind[1] else BYTES)
    kind = draw(st.sampled_from([*SAFE_TEXT["v"], ("%v|", False)]))
    parts.append(kind[0])
    value = draw(PLAIN if kind[0] == "%v|" else MAYBE if kind[1] else BYTES)
    if draw(st.booleans()):
        pairs = st.tuples(PLAIN.map(lambda data: data.decode("utf-8", "surrogateescape")), MAYBE)
        headers = tuple(draw(st.lists(pairs, max_size=3)))
        parts.append(draw(st.sampled_from(["%H|%h{%k=%V %v}", "%H{big16}%h{%K{big8}%k%V{big32}%v}"])))
    parts.append(draw(st.sampled_from(["", "%d|", "%d{iso}|"])))
    parts = draw(st.permutations(parts))
    timestamp = draw(st.integers(-1, 4_102_444_800_000))
    return "%p|" + "".join(parts) + draw(st.sampled_from(["", "\\n", ";"])), Record(0, timestamp, key, value, headers)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=3), formats_and_records())
def test_formatting_and_parsing_is_identity(partitions: list[int], case: tuple[str, Record]) -> None:
    """Whatever a format shows of records comes back from reading them with it."""
    text, record = case
    printer = make_printer(text)
    data = b"".join(printer(fetched(record, partition=index), 1) for index in partitions)
    timestamp = record.timestamp if "%d" in text else None
    expected = [
        (None, OutgoingRecord(record.key, record.value, tuple(record.headers), index, timestamp))
        for index in partitions
    ]
    assert read(text, data) == expected
