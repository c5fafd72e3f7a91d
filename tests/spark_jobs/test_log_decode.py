"""Decoding many batches at once gives what decoding record by record gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkapy.errors import KafkaError
from kafkapy.wire.record_batch import BatchHeader, iterate_batches
from kafkapy.wire.records import Record, encode_batch, read_records
from spark_jobs.log_decode import Payload, decode, unpacked

TEXT = st.text(max_size=5)
BYTES = st.one_of(st.none(), st.binary(max_size=200))
HEADER_LISTS = st.lists(st.tuples(TEXT, BYTES), max_size=3)
RECORDS = st.lists(st.tuples(st.integers(0, 2**41), BYTES, BYTES, HEADER_LISTS, st.integers(1, 300)), max_size=40)


def batch_of(rows: list[tuple], base: int, codec: int, append_time: int | None = None) -> tuple[bytes, int]:
    """(a batch, the offset after it); the last field of a row is the gap to the next offset."""
    records, offset = [], base
    for timestamp, key, value, headers, gap in rows:
        records.append(Record(offset, timestamp, key, value, headers))
        offset += gap
    return bytes(encode_batch(records, base_offset=base, codec=codec, log_append_time_ms=append_time)), offset


def expected(raw: bytes, start: int, end: int) -> list[dict]:
    """The rows by the decoder that the broker uses."""
    rows = []
    for position, header in iterate_batches(raw):
        for record in read_records(raw, position, header):
            if start <= record.offset < end:
                rows.append(
                    {
                        "key": record.key,
                        "value": record.value,
                        "topic": "t",
                        "partition": 3,
                        "offset": record.offset,
                        "timestamp": record.timestamp * 1000,
                        "timestampType": int(header.is_log_append_time),
                        "headers": [{"key": key, "value": value} for key, value in record.headers],
                    }
                )
    return rows


def decoded(raw: bytes, start: int, end: int) -> list[dict]:
    """The rows by the decoder under test."""
    data, payloads = unpacked(raw, list(iterate_batches(raw)))
    found = decode(data, payloads, "t", 3, start, end, True)
    if found is None:
        return []
    found.validate(full=True)
    times = found.column("timestamp").cast("int64").to_pylist()
    rows = found.set_column(5, "timestamp", found.column("timestamp").cast("int64")).to_pylist()
    assert [row["timestamp"] for row in rows] == times
    return rows


@settings(deadline=None)
@given(
    st.lists(st.tuples(RECORDS, st.integers(0, 4), st.booleans()), max_size=4), st.integers(0, 900), st.integers(0, 900)
)
def test_many_batches_at_once_are_what_they_are_one_by_one(batches: list, start: int, length: int) -> None:
    """Any records, any codec, append time or not, gaps in the offsets, any part of the range."""
    raw, offset = b"", 0
    for rows, codec, append_time in batches:
        if rows:
            batch, offset = batch_of(rows, offset, codec, 77 if append_time else None)
            raw += batch
    assert decoded(raw, start, start + length) == expected(raw, start, start + length)


@pytest.mark.parametrize("size", [1, 50, 70, 200, 20_000])
def test_runs_of_equal_records_are_found(size: int) -> None:
    """Where lengths repeat the walk jumps; one record of another length in between ends the jump."""
    rows = [(5, b"k", b"v" * (size + (number == 150)), [], 1) for number in range(300)]
    raw, _ = batch_of(rows, 10, 0)
    assert decoded(raw, 0, 10**6) == expected(raw, 0, 10**6)


@settings(deadline=None)
@given(st.data())
def test_damaged_records_are_refused_and_never_read_as_something_else(data: st.DataObject) -> None:
    """A byte of the records changed: an error that says so, or rows, but no crash and no other exception."""
    rows = [(5, b"key", b"value", [("a", b"1"), ("b", None)], 1) for _ in range(8)]
    raw = bytearray(batch_of(rows, 0, 0)[0])
    raw[data.draw(st.integers(61, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded(bytes(raw), 0, 100)
    except KafkaError as error:
        assert "damaged records" in error.message or "record" in str(error)


def test_a_count_that_the_bytes_cannot_hold_is_refused() -> None:
    """Too many records, too few, or bytes left over."""
    raw, _ = batch_of([(5, b"k", b"v", [], 1)] * 3, 0, 0)
    position, header = next(iterate_batches(raw))
    for count in (2, 4):
        wrong = BatchHeader(*header[:-1], count)
        with pytest.raises(KafkaError):
            decode(raw, [Payload(wrong, position + 61, position + header.size)], "t", 0, 0, 10, True)
