"""Records come back as they were written, in Apache Kafka's bytes, and damage never raises anything but KafkaError."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.wire.crc import crc32c
from kafkapy.wire.record_batch import (
    BATCH_HEADER,
    LOG_APPEND_TIME,
    BatchHeader,
    crc_is_valid,
    iterate_batches,
    read_header,
    set_crc,
)
from kafkapy.wire.records import (
    BatchBuilder,
    ControlType,
    EndTxnMarker,
    Record,
    control_key,
    encode_batch,
    encode_end_txn_marker,
    read_control_type,
    read_end_txn_marker,
    read_records,
    read_varint,
    read_varlong,
)

VECTORS = Path(__file__).resolve().parents[3] / "shared/protocol/batches.jsonl.gz"
NOW = 1_700_000_000_000


def vector_batches() -> list[tuple[str, bytes, BatchHeader, dict[str, Any]]]:
    """(case, bytes of one batch, header, what Kafka says is in it) for every valid batch of the vectors."""
    found = []
    with gzip.open(VECTORS, "rt") as lines:
        for vector in map(json.loads, lines):
            data = bytes.fromhex(vector["hex"])
            for (position, header), expected in zip(iterate_batches(data), vector["json"]["batches"], strict=True):
                if expected["valid"]:
                    found.append((vector["case"], data[position : position + header.size], header, expected))
    return found


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


needs_vectors = pytest.mark.skipif(not VECTORS.exists(), reason="the vectors are not here")


@needs_vectors
def test_records_of_the_vectors() -> None:
    """Every record of every batch that Apache Kafka wrote, in every codec; control records by their meaning too."""
    for case, data, header, expected in vector_batches():
        records = list(read_records(data, 0, header))
        for record, theirs in zip(records, expected["records"], strict=True):
            headers = tuple((key, decoded(value)) for key, value in theirs["headers"])
            key, value = decoded(theirs["key"]), decoded(theirs["value"])
            assert record == Record(theirs["offset"], theirs["timestamp"], key, value, headers), case
            if header.is_control:
                kind = read_control_type(record.key)
                assert kind is not None and kind.name == theirs["controlType"]
                marker = read_end_txn_marker(record)
                if "coordinatorEpoch" in theirs:
                    assert marker == (theirs["controlType"] == "COMMIT", theirs["coordinatorEpoch"])
                else:
                    assert marker is None


def rebuilt(data: bytes, header: BatchHeader, codec: int) -> bytearray:
    """The batch written anew from its records. With LogAppendTime the timestamps that the producer gave are read beneath it."""
    builder = BatchBuilder(
        codec=codec,
        base_offset=header.base_offset,
        base_timestamp=header.base_timestamp,
        leader_epoch=header.partition_leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        log_append_time_ms=header.max_timestamp if header.is_log_append_time else None,
        delete_horizon_ms=header.delete_horizon_ms,
    )
    plain = header._replace(attributes=header.attributes & ~LOG_APPEND_TIME)
    for offset, timestamp, key, value, headers in read_records(data, 0, plain):
        builder.append(timestamp, key, value, headers, offset)
    if not header.record_count:
        return builder.build(last_offset=header.last_offset, max_timestamp=header.max_timestamp)
    return builder.build(last_offset=header.last_offset)


@needs_vectors
def test_uncompressed_vectors_are_written_to_the_same_bytes() -> None:
    """Producers, coordinators and compaction write what Apache Kafka would."""
    written = 0
    for case, data, header, _ in vector_batches():
        if header.codec == 0:
            assert rebuilt(data, header, 0) == data, case
            written += 1
    assert written >= 40


@needs_vectors
def test_compressed_vectors_survive_being_written() -> None:
    """Compressed bytes differ from library to library, their content does not."""
    for case, data, header, _ in vector_batches():
        if header.codec:
            again = rebuilt(data, header, header.codec)
            changed = read_header(again)
            assert changed._replace(batch_length=0, crc=0) == header._replace(batch_length=0, crc=0), case
            assert crc_is_valid(again, 0, changed)
            assert list(read_records(again)) == list(read_records(data)), case


text = st.text(max_size=12)
content = st.none() | st.binary(max_size=80)
records = st.lists(
    st.tuples(
        st.integers(-(2**62), 2**62),
        content,
        content,
        st.lists(st.tuples(text, content), max_size=3).map(tuple),
    ),
    max_size=8,
)


@given(st.integers(0, 4), records, st.integers(0, 2**62))
@example(0, [(5, b"k" * 63, b"v" * 64, ()), (5, b"k" * 8191, b"v" * 8192, ()), (5, b"", None, ())], 0)
@settings(max_examples=50, deadline=None)
def test_round_trip(codec: int, rows: list[tuple[int, bytes | None, bytes | None, Any]], base_offset: int) -> None:
    """Whatever was appended comes back, in every codec."""
    written = [Record(base_offset + index, *row) for index, row in enumerate(rows)]
    data = encode_batch(written, codec=codec, base_offset=base_offset)
    header = read_header(data)
    assert header.size == len(data) and crc_is_valid(data, 0, header)
    assert list(read_records(b"before" + data, 6)) == written
    assert header.record_count == len(rows) == header.last_offset_delta + 1
    assert header.max_timestamp == max([-1] + [row[0] for row in rows])


def test_deltas_wrap_like_64_bit_arithmetic() -> None:
    """The distance between two timestamps can exceed what a varlong holds."""
    stamps = [2**62, -(2**62) - 5, 2**63 - 1, -(2**63), 0]
    data = encode_batch([Record(index, stamp, b"", b"") for index, stamp in enumerate(stamps)])
    assert [record.timestamp for record in read_records(data)] == stamps


def test_offsets_and_sizes_beyond_small_varints() -> None:
    """Deltas and lengths of one to five bytes, on either side of each limit."""
    written = [Record(offset, NOW, b"k", b"") for offset in (0, 63, 64, 8191, 8192, 2**20, 2**27, 2**31 - 1)]
    data = encode_batch(written)
    assert list(read_records(data)) == written
    long = [Record(0, NOW, b"k" * size, b"v" * size, (("h" * size, b"w" * size),)) for size in (63, 64, 8192, 2**20)]
    for record in long:
        assert list(read_records(encode_batch([record]))) == [record]


def test_builder_tells_its_size() -> None:
    """Who collects records needs to know when the batch is full."""
    builder = BatchBuilder()
    assert (builder.size, builder.count) == (61, 0)
    builder.append(NOW, None, b"v" * 100)
    assert builder.size == len(builder.build())
    assert builder.count == 1


def test_header_keys_that_are_no_text_keep_their_bytes() -> None:
    """Compaction writes records anew and must not change what a client called its headers."""
    data = encode_batch([Record(0, NOW, b"", b"", (("\udcff\udcfe", b"v"), ("gr\u00fcn", None)))])
    assert b"\xff\xfe" in data
    assert encode_batch(read_records(data)) == data


def raw_batch(payload: bytes, count: int = 1, attributes: int = 0) -> bytearray:
    data = bytearray(
        BATCH_HEADER.pack(0, 49 + len(payload), 0, 2, 0, attributes, max(count - 1, 0), NOW, NOW, -1, -1, -1, count)
    )
    data += payload
    set_crc(data, 0, len(data))
    return data


def code_of(payload: bytes, count: int = 1, attributes: int = 0) -> str:
    with pytest.raises(KafkaError) as caught:
        list(read_records(raw_batch(payload, count, attributes)))
    return caught.value.code.name


EMPTY_RECORD = b"\x0c\x00\x00\x00\x01\x01\x00"


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x10\x00\x00\x00\x7fabc",
        EMPTY_RECORD + b"x",
        EMPTY_RECORD + EMPTY_RECORD,
        b"\x0a\x00\x00\x00\x01\x01\x00",  # the length is one less than the record
        b"\x0e\x00\x00\x00\x01\x01\x00",  # one more, where nothing follows
        b"\x01\x00\x00\x00\x01\x01\x00",  # a negative length
        b"\x0c\x00\x00\x00\x01\x01\x01",  # a negative number of headers
        b"\x0c\x00\x00\x00\x01\x01\x02",  # a header that is not there
        b"\x14\x00\x00\x00\x01\x01\xfe\xff\xff\xff\x0f",  # 2^31 - 1 headers
        b"\x10\x00\x00\x00\x01\x01\x02\x01\x01",  # a header without a key
        b"\x16\x00\x00\x00\xfe\xff\xff\xff\x0f\x01\x01\x00",  # a key of 2^31 - 1 bytes
        b"\x8c\x80\x80\x80\x80\x00\x00\x00\x00\x01\x01\x00",  # a varint of 6 bytes
        b"\x20\x00" + b"\x80" * 10 + b"\x00\x00\x01\x01\x00",  # a varlong of 11 bytes
        b"\xff",
    ],
)
def test_damaged_structure_is_refused(payload: bytes) -> None:
    """A length or a count is believed only when the bytes are there, and every byte must belong to a record."""
    assert code_of(payload) == "INVALID_RECORD"
    assert code_of(zlib.compress(payload, wbits=31), attributes=1) == "INVALID_RECORD"


def test_what_kafka_tolerates() -> None:
    """Any negative length is null, the attributes of a record mean nothing, offsets may leap."""
    for payload in (b"\x0c\x05\x00\x00\x01\x01\x00", b"\x0c\x00\x00\x00\x03\x01\x00"):
        assert list(read_records(raw_batch(payload))) == [Record(0, NOW, None, None)]
    assert list(read_records(raw_batch(b"\x0c\x00\x00\x0e\x01\x01\x00"))) == [Record(7, NOW, None, None)]


def test_count_is_checked_against_the_records() -> None:
    """A batch with more or fewer records than it says is damaged, whatever it claims."""
    for count in (0, 1, 3, 2**31 - 1):
        assert code_of(EMPTY_RECORD * 2, count) == "INVALID_RECORD"
    assert len(list(read_records(raw_batch(EMPTY_RECORD * 2, 2)))) == 2
    assert list(read_records(raw_batch(b"", 0))) == []


def test_compressed_data_is_bounded() -> None:
    """A batch that unpacks to more than its reader allows is damaged."""
    data = encode_batch([Record(0, NOW, b"k", bytes(100_000))], codec=4)
    with pytest.raises(KafkaError) as caught:
        list(read_records(data, max_bytes=50_000))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert code_of(b"neither gzip nor anything", attributes=1) == "CORRUPT_MESSAGE"
    assert code_of(EMPTY_RECORD, attributes=6) == "CORRUPT_MESSAGE"


def test_an_incomplete_batch_is_refused() -> None:
    """The header may be there long before the records."""
    data = raw_batch(EMPTY_RECORD)
    for size in range(len(data)):
        with pytest.raises(KafkaError):
            list(read_records(data[:size]))


def test_an_absurd_base_timestamp_is_refused() -> None:
    """Within 64 milliseconds of the largest number nothing is meant seriously."""
    data = raw_batch(EMPTY_RECORD)
    for timestamp in (2**63 - 1, -(2**63)):
        header = read_header(data)._replace(base_timestamp=timestamp)
        with pytest.raises(KafkaError):
            list(read_records(data, 0, header))


MANY = [Record(i, NOW + i * 50, b"key%d" % i, b"v" * (i * 20), (("h", b"x"),) * (i % 3)) for i in range(8)]


@given(st.integers(0, 4), st.integers(0, 10_000), st.integers(1, 255))
@settings(max_examples=200, deadline=None)
def test_garbled_records_raise_nothing_else(codec: int, at: int, flip: int) -> None:
    """With the checksum out of the way, every field of every record meets a changed byte."""
    data = encode_batch(MANY, codec=codec)
    data[61 + at % (len(data) - 61)] ^= flip
    try:
        list(read_records(data))
    except KafkaError as error:
        assert error.code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)


def test_records_cut_at_every_byte() -> None:
    """A payload that ends early is refused wherever it ends."""
    payload = bytes(encode_batch(MANY)[61:])
    for size in range(len(payload)):
        assert code_of(payload[:size], len(MANY)) == "INVALID_RECORD"


@given(st.binary(max_size=60), st.integers(0, 4))
@settings(max_examples=200, deadline=None)
def test_garbage_raises_nothing_else(payload: bytes, count: int) -> None:
    """Bytes that were never records are refused or, by luck, read."""
    try:
        list(read_records(raw_batch(payload, count)))
    except KafkaError as error:
        assert error.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("encoded", "value"),
    [(b"\x00", 0), (b"\x01", -1), (b"\x02", 1), (b"\x7e", 63), (b"\x80\x01", 64), (b"\xff\xff\xff\xff\x0f", -(2**31))],
)
def test_varints(encoded: bytes, value: int) -> None:
    """Zigzag: the sign is the lowest bit."""
    assert read_varint(encoded, 0) == (value, len(encoded))
    assert read_varlong(b"\x80" + encoded, 1) == (value, len(encoded) + 1)


def test_varlong_limits() -> None:
    """Ten bytes hold 64 bits."""
    assert read_varlong(b"\xfe" + b"\xff" * 8 + b"\x01", 0) == (2**63 - 1, 10)
    assert read_varlong(b"\xff" * 9 + b"\x01", 0) == (-(2**63), 10)


@pytest.mark.parametrize("committed", [True, False])
def test_transaction_markers(committed: bool) -> None:
    """What ends a transaction is a control batch of the producer, with the coordinator's epoch in it."""
    data = encode_end_txn_marker(committed, 27, 4919, 13, NOW)
    header = read_header(data)
    assert header.is_control and header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4919, 13, -1)
    (record,) = read_records(data)
    assert read_end_txn_marker(record) == EndTxnMarker(committed, 27)


def test_control_records_of_a_later_version() -> None:
    """An unknown type is passed over, a newer version may have more bytes, a damaged one is refused."""
    assert read_control_type(b"\x00\x00\x00\x63") is None
    assert read_control_type(control_key(ControlType.COMMIT) + b"more") is ControlType.COMMIT
    assert read_end_txn_marker(Record(0, 0, control_key(ControlType.LEADER_CHANGE), b"")) is None
    commit = control_key(ControlType.COMMIT)
    for key, value in ((None, None), (b"\x00", None), (b"\xff\xff\x00\x01", None), (commit, None), (commit, b"\x00")):
        with pytest.raises(KafkaError):
            read_end_txn_marker(Record(0, 0, key, value))
    with pytest.raises(KafkaError):
        read_end_txn_marker(Record(0, 0, commit, b"\xff\xff\x00\x00\x00\x01"))


def test_crc_is_castagnoli_and_goes_on() -> None:
    """The checksum's own test value; it continues over pieces; memory is read in place."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(memoryview(b"x123456789")[5:], crc32c(b"1234")) == 0xE3069283


def test_a_start_pays_for_no_codec() -> None:
    """Neither the codecs nor the checksum's package are imported with the wire layer; the broker must start in a third of a second."""
    code = (
        "import sys, kafkapy.wire.records, kafkapy.wire.compression;"
        "print(*sorted({'zstandard', 'snappy', 'cramjam', 'lz4', 'crc32c', 'importlib.metadata'} & set(sys.modules)))"
    )
    root = Path(__file__).resolve().parents[2]
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert run.stdout.strip() == ""
