"""Records as JSON lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.cli.record_json import SCHEMA, RecordJsonError, parse_record, record_line
from kafkapy.client.producer import OutgoingRecord
from kafkapy.wire.records import Record
from tests.cli.test_percent import fetched

HEADER_KEYS = st.binary(max_size=8).map(lambda data: data.decode("utf-8", "surrogateescape"))
MAYBE = st.none() | st.binary(max_size=16)


@given(MAYBE, MAYBE, st.lists(st.tuples(HEADER_KEYS, MAYBE), max_size=3), st.integers(-1, 2**62))
def test_a_record_survives_the_way_out_and_in(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], timestamp: int
) -> None:
    """Key, value, headers, partition and timestamp, whatever bytes they are."""
    line = record_line(fetched(Record(3, timestamp, key, value, tuple(headers)), partition=2))
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert set(json.loads(line)) <= set(SCHEMA["properties"])
    assert parse_record(line) == ("orders", OutgoingRecord(key, value, tuple(headers), 2, timestamp))


def test_records_written_by_hand_need_hardly_anything() -> None:
    """What is left out is null, and a document may stand as it is."""
    assert parse_record(b"{}") == (None, OutgoingRecord(None, None))
    assert parse_record(b'{"value": {"id": 1}, "key": 7}')[1] == OutgoingRecord(b"7", b'{"id":1}')
    assert parse_record(b'{"headers": {"a": "1"}}')[1].headers == (("a", b"1"),)


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b'{"val": 1}',
        b'{"partition": "1"}',
        b'{"timestamp": true}',
        b'{"topic": 1}',
        b'{"value_base64": "?"}',
        b'{"value_base64": 1}',
        b'{"headers": 1}',
        b'{"headers": [1]}',
        b'{"headers": [{"key": 1}]}',
        b'{"value": "\\ud83d"}',
        b'{"headers": [{"key": "\\ud83d"}]}',
        b"\xff",
    ],
)
def test_lines_that_are_no_records_are_refused(line: bytes) -> None:
    """A misspelt name is an error, too: it would be lost otherwise."""
    with pytest.raises(RecordJsonError):
        parse_record(line)
