"""From the bytes of many record batches to Arrow columns, all records at once.

The one sequential step is to find where each record begins, since a record says its own length in a varint (the layout is in
kafkapy/wire/records.py). From then on a field is decoded for all records together: a vectorised varint reads one byte at each position
and goes on with those whose top bit is set. Keys and values are not copied one by one either: Arrow sees the buffer as one array of
pieces (key, gap, value, gap, key ...) whose boundaries have just been found, and takes every fourth of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.wire.record_batch import BATCH_HEADER_BYTES, BatchHeader
from kafkapy.wire.records import decompressed_records, read_varint

Array = np.ndarray[Any, Any]

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
)
SCHEMA_WITH_HEADERS = SCHEMA.append(pa.field("headers", HEADERS))

_RUN_MIN = 32  # Equal records in a row are found faster by comparing than by walking, from about this many on.


class Payload(NamedTuple):
    """The records of one batch: where they stand in a buffer."""

    header: BatchHeader
    start: int
    end: int


class Fields(NamedTuple):
    """All records of a buffer, one element each: times, offsets, and where the parts begin and end."""

    offsets: Array
    timestamps: Array
    timestamp_types: Array
    key_start: Array
    key_end: Array
    key_null: Array
    value_start: Array
    value_end: Array
    value_null: Array
    header_count: Array
    header_start: Array
    ends: Array


def damaged(why: str) -> KafkaError:
    """What is raised for records that are not what their batch header says."""
    return KafkaError(ErrorCode.INVALID_RECORD, f"damaged records: {why}")


def decode(
    data: bytes,
    payloads: Sequence[Payload],
    topic: str,
    partition: int,
    start_offset: int,
    end_offset: int,
    include_headers: bool,
) -> pa.RecordBatch | None:
    """The records with offsets from `start_offset` to before `end_offset` as an Arrow batch; None if there are none."""
    fields = read_fields(data, payloads)
    first, last = np.searchsorted(fields.offsets, (start_offset, end_offset))
    if first >= last:
        return None
    if last - first < len(fields.offsets):
        fields = Fields(*(column[first:last] for column in fields))
    count = int(last - first)
    keys, values = keys_and_values(data, fields)
    columns = [
        keys,
        values,
        pa.repeat(pa.scalar(topic, pa.string()), count),
        pa.repeat(pa.scalar(partition, pa.int32()), count),
        pa.array(fields.offsets),
        pa.array(fields.timestamps * 1000).cast(SCHEMA.field("timestamp").type),
        pa.array(fields.timestamp_types),
    ]
    if not include_headers:
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    return pa.RecordBatch.from_arrays([*columns, headers(data, fields)], schema=SCHEMA_WITH_HEADERS)


def unpacked(raw: bytes, batches: Sequence[tuple[int, BatchHeader]]) -> tuple[bytes, list[Payload]]:
    """A buffer in which the records of all batches stand uncompressed; that is `raw` itself where nothing is compressed."""
    if not any(header.codec for _, header in batches):
        return raw, [
            Payload(header, position + BATCH_HEADER_BYTES, position + header.size) for position, header in batches
        ]
    pieces, payloads, at = [], [], 0
    for position, header in batches:
        piece = decompressed_records(raw, position, header)
        payloads.append(Payload(header, at, at + len(piece)))
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces), payloads


def record_starts(data: bytes, payloads: Sequence[Payload]) -> Array:
    """Where each record of all the batches begins."""
    view = np.frombuffer(data, np.uint8)
    found: list[Array] = []
    for header, start, end in payloads:
        try:
            found.extend(_starts_of_batch(data, view, header.record_count, start, end))
        except IndexError:
            raise damaged("they end early") from None
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _starts_of_batch(data: bytes, view: Array, count: int, position: int, end: int) -> Iterator[Array]:
    """Walk over the lengths. Where many records in a row have the same length, which is proved by looking at all of their
    lengths at once, the walk jumps over them."""
    walked: list[int] = []
    append = walked.append
    left, last_size, same = count, 0, 0
    while left:
        append(position)
        left -= 1
        n = data[position]
        if n < 128:
            size = 1 + (n >> 1)
        elif (m := data[position + 1]) < 128:
            size = 2 + ((n & 127 | m << 7) >> 1)
        else:
            length, after = read_varint(data, position)
            size = after - position + length
            if length < 0:
                raise damaged("a record of negative length")
        if size != last_size:
            last_size, same = size, 0
        else:
            same += 1
            if same == 4 and left > _RUN_MIN:
                run = _run(view, position, size, min(left, (end - position) // size))
                if run > 1:
                    yield np.array(walked, np.int64)
                    walked.clear()
                    yield position + size * np.arange(1, run, dtype=np.int64)
                    left -= run - 1
                    position += size * (run - 1)
                same = 0
        position += size
    if position != end:
        raise damaged(f"{end - position} bytes after the last of {count}")
    yield np.array(walked, np.int64)


def _run(view: Array, position: int, size: int, most: int) -> int:
    """How many records from `position` on have the length of the first, one right after the other."""
    run = max(most, 0)
    for at in range(2 if view[position] >= 128 else 1):
        lengths = view[position + at : position + at + run * size : size]
        other: Any = np.flatnonzero(lengths != view[position + at]) if run else ()
        if len(other):
            run = int(other[0])
    return run


def varints(view: Array, positions: Array) -> tuple[Array, Array]:
    """The zigzag varints at all the positions, and the positions after them. IndexError where the data ends within one."""
    byte = view[positions]
    value = (byte & 0x7F).astype(np.uint64)
    after = positions + 1
    more = np.flatnonzero(byte > 0x7F)
    shift = 7
    while more.size:
        if shift > 63:
            raise damaged("a varint of more than 10 bytes")
        byte = view[after[more]]
        value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[more] += 1
        more = more[byte > 0x7F]
        shift += 7
    half, sign = value >> np.uint64(1), value & np.uint64(1)
    values: Array = (half ^ (~sign + np.uint64(1))).view(np.int64)
    return values, after


def read_fields(data: bytes, payloads: Sequence[Payload]) -> Fields:
    """Decode every field of every record but the content of its headers."""
    view = np.frombuffer(data, np.uint8)
    starts = record_starts(data, payloads)
    counts = np.array([payload.header.record_count for payload in payloads], np.int64)
    try:
        length, at = varints(view, starts)
        ends = at + length
        timestamp, at = varints(view, at + 1)  # after the attributes, which are unused
        offset, at = varints(view, at)
        key_start, key_end, key_null = _piece(view, at)
        value_start, value_end, value_null = _piece(view, key_end)
        header_count, header_start = varints(view, value_end)
    except IndexError:
        raise damaged("they end early") from None
    if (
        (header_count < 0).any()
        or (header_start > ends).any()
        or (header_start[header_count == 0] != ends[header_count == 0]).any()
    ):
        raise damaged("a record does not end where its length says")
    append_time = np.array([payload.header.is_log_append_time for payload in payloads], bool)
    base_timestamp = np.array([payload.header.base_timestamp for payload in payloads], np.int64)
    newest = np.array([payload.header.max_timestamp for payload in payloads], np.int64)
    base_offset = np.array([payload.header.base_offset for payload in payloads], np.int64)
    timestamp += np.repeat(base_timestamp, counts)
    if append_time.any():
        timestamp = np.where(np.repeat(append_time, counts), np.repeat(newest, counts), timestamp)
    offset += np.repeat(base_offset, counts)
    if (np.diff(offset) <= 0).any():
        raise damaged("offsets that do not rise")
    kinds = np.repeat(append_time.astype(np.int32), counts)
    return Fields(
        offset,
        timestamp,
        kinds,
        key_start,
        key_end,
        key_null,
        value_start,
        value_end,
        value_null,
        header_count,
        header_start,
        ends,
    )


def _piece(view: Array, positions: Array) -> tuple[Array, Array, Array]:
    """(start, end, is null) of the byte strings whose length stands at the positions."""
    length, start = varints(view, positions)
    null = length < 0
    if null.any():
        if (length < -1).any():
            raise damaged("a negative length")
        length = np.where(null, 0, length)
    end = start + length
    if len(end) and int(end.max()) > len(view):
        raise IndexError
    return start, end, null


def keys_and_values(data: bytes, fields: Fields) -> tuple[pa.Array, pa.Array]:
    """The two byte columns, each gathered by Arrow in one call."""
    bounds = np.stack((fields.key_start, fields.key_end, fields.value_start, fields.value_end), axis=1)
    pieces = _pieces(data, bounds, pa.binary())
    every_fourth = np.arange(0, 4 * len(bounds), 4)
    return _take(pieces, every_fourth, fields.key_null), _take(pieces, every_fourth + 2, fields.value_null)


def _pieces(data: bytes, bounds: Array, type_: pa.DataType) -> pa.Array:
    """The buffer as an array of byte strings from each bound to the next. Nothing is copied."""
    edges = bounds.astype(np.int32).ravel()
    return pa.Array.from_buffers(type_, len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)])


def _take(pieces: pa.Array, indexes: Array, null: Array) -> pa.Array:
    return pieces.take(pa.array(indexes, mask=null if null.any() else None))


def headers(data: bytes, fields: Fields) -> pa.Array:
    """The header column. All first headers are read together, then all second ones, and so on."""
    view = np.frombuffer(data, np.uint8)
    counts = fields.header_count
    if (counts * 2 > fields.ends - fields.header_start).any():
        raise damaged("more headers than there is room for")
    edges = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    total = int(edges[-1])
    bounds = np.empty((total, 4), np.int64)
    null = np.zeros(total, bool)
    at, left = fields.header_start.copy(), np.flatnonzero(counts)
    try:
        turn = 0
        while left.size:
            slot = edges[left] + turn
            key_start, key_end, key_null = _piece(view, at[left])
            value_start, value_end, null[slot] = _piece(view, key_end)
            if key_null.any():
                raise damaged("a header without a key")
            bounds[slot] = np.stack((key_start, key_end, value_start, value_end), axis=1)
            at[left] = value_end
            turn += 1
            left = left[counts[left] > turn]
    except IndexError:
        raise damaged("they end early") from None
    if (at != fields.ends).any():
        raise damaged("a record does not end where its length says")
    key, value = _header_columns(data, bounds, null, total)
    pairs = pa.StructArray.from_arrays([key, value], fields=list(HEADERS.value_type))
    return pa.ListArray.from_arrays(pa.array(edges, pa.int32()), pairs, type=HEADERS)


def _header_columns(data: bytes, bounds: Array, null: Array, total: int) -> tuple[pa.Array, pa.Array]:
    if not total:
        return pa.array([], pa.string()), pa.array([], pa.binary())
    pieces = _pieces(data, bounds, pa.binary())
    every_fourth = np.arange(0, 4 * total, 4)
    key = pieces.take(pa.array(every_fourth))
    try:
        key = key.cast(pa.string())
    except pa.ArrowInvalid:  # As Java's clients do with what is no UTF-8, so that the result is what they read.
        key = pa.array([name.decode("utf-8", "replace") for name in key.to_pylist()], pa.string())
    return key, _take(pieces, every_fourth + 2, null)
