"""The batch header is read, checked and patched as Apache Kafka does it."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.wire.compression import compress
from kafkapy.wire.record_batch import (
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    BatchHeader,
    Buffer,
    ProduceRules,
    RecordsRefused,
    assign_log_append_time,
    assign_offsets,
    crc_is_valid,
    iterate_batches,
    read_header,
    set_crc,
    validate_produced,
)
from kafkapy.wire.records import BatchBuilder, encode_end_txn_marker, read_records

VECTORS = Path(__file__).resolve().parents[3] / "shared/protocol/batches.jsonl.gz"
NOW = 1_700_000_000_000
RULES = ProduceRules()
FAR = 10**9


def vectors() -> list[dict[str, Any]]:
    if not VECTORS.exists():
        return []
    with gzip.open(VECTORS, "rt") as lines:
        return [json.loads(line) for line in lines]


def batch(*timestamps: int, key: bytes | None = b"k", value: bytes = b"v", **options: Any) -> bytearray:
    """A batch as a client would send it, one record for each timestamp."""
    builder = BatchBuilder(**options)
    for timestamp in timestamps or (NOW,):
        builder.append(timestamp, key, value)
    return builder.build()


def patched(data: bytearray, form: str, at: int, value: int, crc: bool = True) -> bytearray:
    struct.pack_into(form, data, at, value)
    if crc:
        set_crc(data, 0, len(data))
    return data


def refusal(data: Buffer, rules: ProduceRules = RULES, version: int = 9) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        validate_produced(data, rules, NOW, version)
    return caught.value.code


@pytest.mark.skipif(not VECTORS.exists(), reason="the vectors are not here")
def test_headers_of_the_vectors() -> None:
    """All header fields, what follows from them, the checksum's verdict and the length of the incomplete tail."""
    names = {
        "baseOffset": "base_offset",
        "batchLength": "batch_length",
        "partitionLeaderEpoch": "partition_leader_epoch",
        "magic": "magic",
        "crc": "crc",
        "attributes": "attributes",
        "lastOffsetDelta": "last_offset_delta",
        "baseTimestamp": "base_timestamp",
        "maxTimestamp": "max_timestamp",
        "producerId": "producer_id",
        "producerEpoch": "producer_epoch",
        "baseSequence": "base_sequence",
        "count": "record_count",
        "lastOffset": "last_offset",
        "nextOffset": "next_offset",
        "lastSequence": "last_sequence",
        "transactional": "is_transactional",
        "control": "is_control",
    }
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    for vector in vectors():
        data = bytes.fromhex(vector["hex"])
        found = list(iterate_batches(data))
        assert len(found) == len(vector["json"]["batches"])
        for (position, header), expected in zip(found, vector["json"]["batches"], strict=True):
            assert {name: getattr(header, ours) for name, ours in names.items()} == {n: expected[n] for n in names}
            assert crc_is_valid(data, position, header) is expected["valid"]
            assert codecs[header.codec] == expected["compression"]
            assert header.is_log_append_time is (expected["timestampType"] == "LogAppendTime")
            assert header.delete_horizon_ms == expected.get("deleteHorizonMs")
        assert sum(header.size for _, header in found) == vector["json"]["validBytes"]
        assert len(data) - vector["json"]["validBytes"] == vector["json"]["trailingBytes"]


def test_layout() -> None:
    """The header is 61 bytes, and the raw struct gives the fields in the order of BatchHeader."""
    assert BATCH_HEADER.size == BATCH_HEADER_BYTES == 61
    fields = BatchHeader(7, 49, 3, 2, 0xFFFFFFFF, 0x7FFF, 5, -1, 2**62, 99, 12, 2**31 - 1, 6)
    assert read_header(b"xx" + BATCH_HEADER.pack(*fields), 2) == fields
    assert fields.last_sequence == 4


def test_offsets_are_assigned_outside_the_checksum() -> None:
    """A leader patches a batch in the receive buffer, and the checksum of the client goes on to hold."""
    data = bytearray(b"before") + batch(NOW, NOW + 1) + b"after"
    header = read_header(data, 6)
    view = memoryview(data)
    assign_offsets(view, 6, header, 2**40, 17)
    changed = read_header(view, 6)
    assert changed == header._replace(base_offset=2**40, partition_leader_epoch=17)
    assert crc_is_valid(view, 6, changed)
    assert data[:6] == b"before" and data[-5:] == b"after"


def test_log_append_time_is_assigned_with_a_new_checksum() -> None:
    """The attribute and the newest timestamp are covered by the checksum, so it is computed again."""
    data = batch(NOW, NOW + 5, codec=1)
    header = read_header(data)
    assign_log_append_time(data, 0, header, NOW + 77)
    changed = read_header(data)
    assert changed.is_log_append_time and changed.codec == 1 and changed.crc != header.crc
    assert crc_is_valid(data, 0, changed)
    assert [record.timestamp for record in read_records(data)] == [NOW + 77] * 2


def test_iterating_stops_at_an_incomplete_batch() -> None:
    """A segment or a Fetch response may end anywhere."""
    first, second = batch(NOW), batch(NOW, NOW)
    data = first + second
    for size in range(len(data) + 1):
        found = [position for position, _ in iterate_batches(data[:size])]
        assert found == [0, len(first)][: (size >= len(first)) + (size == len(data))]


@pytest.mark.parametrize(
    "change",
    [
        lambda data: patched(data, ">b", 16, 1, crc=False),
        lambda data: patched(data, ">i", 8, 48, crc=False),
        lambda data: patched(data, ">i", 8, -1, crc=False),
        lambda data: patched(data, ">i", 8, -(2**31), crc=False),
    ],
)
def test_iterating_refuses_what_is_no_batch(change: Callable[[bytearray], bytearray]) -> None:
    """Another magic or an impossible length means that the place is wrong or the file damaged, however little of it is there."""
    data = change(batch(NOW))
    for damaged in (data, batch(NOW) + data, batch(NOW) + data[:17]):
        with pytest.raises(KafkaError) as caught:
            list(iterate_batches(damaged))
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_header_cut_short_is_refused() -> None:
    """Reading one header needs 61 bytes."""
    data = batch(NOW)
    for size in range(BATCH_HEADER_BYTES):
        with pytest.raises(KafkaError):
            read_header(data[:size])


@pytest.mark.parametrize("codec", range(5))
def test_an_ordinary_batch_is_accepted(codec: int) -> None:
    """Idempotent or not, compressed or not, from every kind of buffer."""
    data = batch(NOW, NOW + 1, codec=codec, producer_id=5, producer_epoch=0, base_sequence=0)
    for form in (data, bytes(data), memoryview(data)):
        assert validate_produced(form, RULES, NOW, 9) == read_header(data)


@pytest.mark.parametrize("tail", [b"hello", batch()[:40], batch()[:17], batch()[:60]])
def test_an_incomplete_second_batch_is_tolerated(tail: bytes) -> None:
    """Apache Kafka cuts it off and answers with success."""
    data = batch() + tail
    assert validate_produced(data, RULES, NOW, 9).size == len(data) - len(tail)


# Each of these was sent to Apache Kafka 4.3.1, which answered with the same code.
REFUSED: dict[str, tuple[bytes | bytearray, str]] = {
    "empty": (b"", "INVALID_RECORD"),
    "five bytes": (b"hello", "INVALID_RECORD"),
    "text": (b"hello world hello wor", "CORRUPT_MESSAGE"),
    "zeros": (bytes(100), "CORRUPT_MESSAGE"),
    "all ones": (b"\xff" * 100, "CORRUPT_MESSAGE"),
    "magic 0": (patched(batch(), ">b", 16, 0), "INVALID_RECORD"),
    "magic 1": (patched(batch(), ">b", 16, 1), "INVALID_RECORD"),
    "magic 3": (patched(batch(), ">b", 16, 3), "CORRUPT_MESSAGE"),
    "magic -1": (patched(batch(), ">b", 16, -1), "CORRUPT_MESSAGE"),
    "length -1": (patched(batch(), ">i", 8, -1), "CORRUPT_MESSAGE"),
    "length 13": (patched(batch(), ">i", 8, 13), "CORRUPT_MESSAGE"),
    "length 48": (patched(batch(), ">i", 8, 48), "CORRUPT_MESSAGE"),
    "length one less": (patched(batch(), ">i", 8, len(batch()) - 13), "CORRUPT_MESSAGE"),
    "length one more": (patched(batch(), ">i", 8, len(batch()) - 11), "INVALID_RECORD"),
    "cut in the header": (batch()[:60], "INVALID_RECORD"),
    "cut after the header": (batch()[:61], "INVALID_RECORD"),
    "two batches": (batch() + batch(), "INVALID_RECORD"),
    "garbage after it": (batch() + b"x" * 20, "CORRUPT_MESSAGE"),
    "zeros after it": (batch() + bytes(80), "CORRUPT_MESSAGE"),
    "a short batch after it": (batch() + patched(batch(), ">i", 8, 20)[:40], "INVALID_RECORD"),
    "wrong checksum": (patched(batch(), ">I", 17, 5, crc=False), "CORRUPT_MESSAGE"),
    "base offset": (patched(batch(), ">q", 0, 5), "INVALID_RECORD"),
    "negative base offset": (patched(batch(), ">q", 0, -1), "INVALID_RECORD"),
    "no record": (BatchBuilder().build(), "INVALID_RECORD"),
    "count 0": (patched(batch(), ">i", 57, 0), "INVALID_RECORD"),
    "count -1": (patched(batch(), ">i", 57, -1), "INVALID_RECORD"),
    "count 2": (patched(batch(), ">i", 57, 2), "INVALID_RECORD"),
    "last offset delta 1": (patched(batch(), ">i", 23, 1), "INVALID_RECORD"),
    "last offset delta -1": (patched(batch(), ">i", 23, -1), "INVALID_RECORD"),
    "count beyond the bytes": (patched(patched(batch(), ">i", 57, 2), ">i", 23, 1), "INVALID_RECORD"),
    "control": (batch(control=True), "INVALID_RECORD"),
    "transaction marker": (encode_end_txn_marker(True, 1, 5, 0, NOW), "INVALID_RECORD"),
    "no sequence": (batch(producer_id=5, producer_epoch=0), "INVALID_RECORD"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_as_kafka_does(case: str) -> None:
    """The code decides whether a client retries, splits or gives up."""
    data, code = REFUSED[case]
    assert refusal(data).name == code
    assert refusal(memoryview(data)).name == code


@pytest.mark.parametrize("codec", [0, 1])
def test_a_count_that_no_batch_can_hold_is_refused(codec: int) -> None:
    """A few bytes must not take two thousand million offsets."""
    data = patched(patched(batch(codec=codec), ">i", 57, 2**31 - 1), ">i", 23, 2**31 - 2)
    assert refusal(data) is ErrorCode.INVALID_RECORD


def test_unknown_codecs_are_refused() -> None:
    """Kafka fails with an unknown error here; the precise code tells the client more."""
    for codec in (5, 6, 7):
        assert refusal(patched(batch(), ">h", 21, codec)) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_size_is_checked_before_the_checksum() -> None:
    """MESSAGE_TOO_LARGE makes clients split the batch, so it must not hide behind another code; a base offset may."""
    small = ProduceRules(max_message_bytes=200)
    large = batch(value=b"v" * 300)
    assert refusal(large, small) is ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(patched(bytearray(large), ">I", 17, 5, crc=False), small) is ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(patched(bytearray(large), ">q", 0, 5), small) is ErrorCode.INVALID_RECORD
    exact = ProduceRules(max_message_bytes=len(large))
    assert validate_produced(large, exact, NOW, 9).record_count == 1


def test_zstd_needs_a_produce_version_that_knows_it() -> None:
    """A client that speaks an older version has consumers that could not read it."""
    assert refusal(batch(codec=4), version=6) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert refusal(patched(batch(codec=4), ">I", 17, 5, crc=False), version=6) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert validate_produced(batch(codec=4), RULES, NOW, 7).codec == 4


def test_log_append_time_from_a_client_is_refused() -> None:
    """Only the broker says when it appended."""
    for rules in (RULES, ProduceRules(log_append_time=True)):
        assert refusal(batch(log_append_time_ms=NOW), rules) is ErrorCode.INVALID_TIMESTAMP


def record_errors(data: bytes | bytearray, rules: ProduceRules) -> tuple[ErrorCode, list[int]]:
    with pytest.raises(RecordsRefused) as caught:
        validate_produced(data, rules, NOW, 9)
    assert all(text for _, text in caught.value.record_errors)
    return caught.value.code, [index for index, _ in caught.value.record_errors]


@pytest.mark.parametrize("codec", [0, 1, 4])
def test_records_without_a_key_in_a_compacted_topic(codec: int) -> None:
    """The producer is told which records they are."""
    rules = ProduceRules(compacted=True)
    builder = BatchBuilder(codec=codec)
    for key in (b"a", None, b"", None):
        builder.append(NOW, key, b"v")
    assert record_errors(builder.build(), rules) == (ErrorCode.INVALID_RECORD, [1, 3])
    assert validate_produced(batch(codec=codec), rules, NOW, 9).record_count == 1


@pytest.mark.parametrize("codec", [0, 2])
def test_timestamps_after_the_window(codec: int) -> None:
    """An hour ahead is allowed by default; the records beyond it are named."""
    edge = NOW + 3_600_000
    assert validate_produced(batch(edge, NOW, codec=codec), RULES, NOW, 9).max_timestamp == edge
    data = batch(NOW, edge + 1, NOW, NOW + FAR, codec=codec)
    assert record_errors(data, RULES) == (ErrorCode.INVALID_TIMESTAMP, [1, 3])


def test_timestamps_before_the_window() -> None:
    """The header does not tell the oldest timestamp of several records, so they are opened where the age is limited."""
    rules = ProduceRules(before_max_ms=60_000)
    edge = NOW - 60_000
    for good in (batch(edge), batch(NOW, edge), batch(-1), batch(NOW, -1), batch(-1, -1)):
        validate_produced(good, rules, NOW, 9)
    assert record_errors(batch(edge - 1), rules) == (ErrorCode.INVALID_TIMESTAMP, [0])
    assert record_errors(batch(NOW, NOW - FAR, NOW), rules) == (ErrorCode.INVALID_TIMESTAMP, [1])
    assert record_errors(batch(NOW - FAR, NOW), rules) == (ErrorCode.INVALID_TIMESTAMP, [0])
    assert record_errors(batch(-5), rules) == (ErrorCode.INVALID_TIMESTAMP, [0])


def test_timestamps_do_not_matter_where_the_broker_sets_them() -> None:
    """With LogAppendTime the producer's clock is not looked at."""
    rules = ProduceRules(log_append_time=True, before_max_ms=1)
    validate_produced(batch(NOW + FAR, 5), rules, NOW, 9)
    compacted = ProduceRules(log_append_time=True, compacted=True)
    validate_produced(batch(NOW + FAR, 5), compacted, NOW, 9)


def test_a_key_error_and_a_timestamp_error_together() -> None:
    """One timestamp among the errors makes the whole answer INVALID_TIMESTAMP; a record is reported once."""
    rules = ProduceRules(compacted=True)
    builder = BatchBuilder()
    builder.append(NOW + FAR, None, b"v")
    assert record_errors(builder.build(), rules) == (ErrorCode.INVALID_RECORD, [0])
    builder.append(NOW + FAR, b"k", b"v")
    assert record_errors(builder.build(), rules) == (ErrorCode.INVALID_TIMESTAMP, [0, 1])


def test_a_header_that_claims_a_late_timestamp_is_refused() -> None:
    """Retention and the time index go by the header, so it must not lie about the future."""
    assert refusal(patched(batch(), ">q", 35, NOW + FAR)) is ErrorCode.INVALID_TIMESTAMP


def test_damaged_records_are_refused_where_they_are_opened() -> None:
    """The codes are those of the two kinds of damage."""
    rules = ProduceRules(compacted=True)
    data = batch(value=b"v" * 20)
    data[61] = 0x7E
    set_crc(data, 0, len(data))
    assert refusal(data, rules) is ErrorCode.INVALID_RECORD
    data = bytearray(BATCH_HEADER.pack(0, 49 + 9, -1, 2, 0, 1, 0, NOW, NOW, -1, -1, -1, 1) + b"not gzip!")
    set_crc(data, 0, len(data))
    assert refusal(data, rules) is ErrorCode.CORRUPT_MESSAGE
    packed = compress(1, None, bytes(20))
    data = bytearray(BATCH_HEADER.pack(0, 49 + len(packed), -1, 2, 0, 1, 0, NOW, NOW, -1, -1, -1, 1) + packed)
    set_crc(data, 0, len(data))
    assert refusal(data, rules) is ErrorCode.INVALID_RECORD


def test_cut_short_at_every_byte_is_refused() -> None:
    """Nothing shorter than the batch passes."""
    data = batch(NOW, NOW + 1)
    for size in range(len(data)):
        assert refusal(data[:size]) is ErrorCode.INVALID_RECORD


@given(st.integers(0, 10_000), st.integers(1, 255))
@settings(max_examples=200, deadline=None)
def test_no_changed_byte_passes(at: int, flip: int) -> None:
    """Whatever is damaged on the way is noticed, but for the leader epoch, which the leader sets."""
    data = batch(NOW, NOW + 1, value=b"value" * 5)
    at %= len(data)
    data[at] ^= flip
    if 12 <= at < 16:
        validate_produced(data, RULES, NOW, 9)
    else:
        refusal(data)


@given(st.binary(max_size=120))
@settings(max_examples=200, deadline=None)
def test_garbage_raises_nothing_else(data: bytes) -> None:
    """Any bytes end in a KafkaError."""
    refusal(data)
    try:
        list(iterate_batches(data))
    except KafkaError as error:
        assert error.code is ErrorCode.CORRUPT_MESSAGE
