"""Taking records out of a batch and leaving everything else as it was.

What is kept of a batch: base offset, last offset, producer, epoch, base sequence, codec, kind of timestamps. So offsets never change, and
the last sequence of a producer can still be computed from a batch that has lost its last record. What changes:

    record_count      what is left
    max_timestamp     the largest that is left (with LogAppendTime it stays)
    base_timestamp    the first record's that is left, or the delete horizon once the batch has one (attribute bit 6)
    crc

A record that is kept keeps its bytes, but for the delta to another base timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.wire.primitives import write_uvarint
from kafkapy.wire.record_batch import (
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    set_crc,
)
from kafkapy.wire.records import read_varint, read_varlong


class RawRecord(NamedTuple):
    """Where a record stands in the decompressed records of its batch, and what decides about it."""

    start: int
    end: int
    after_timestamp: int  # position
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool


# Short varints are read inline, as in wire/records.py and for the same reason: a call costs more than the rest of a field.
def raw_records(data: bytes, count: int) -> Iterator[RawRecord]:
    """The records of a batch without their values and headers. Raises KafkaError(INVALID_RECORD) for damage."""
    new, record = tuple.__new__, RawRecord
    pos = start = 0
    total = len(data)
    try:
        for _ in range(count):
            start = pos
            n = data[pos]
            if n < 128:
                end = pos + 1 + (n >> 1 ^ -(n & 1))
                pos += 2
            elif (m := data[pos + 1]) < 128:
                n += (m << 7) - 128
                end = pos + 2 + (n >> 1 ^ -(n & 1))
                pos += 3
            else:
                n, pos = read_varint(data, pos)
                end = pos + n
                pos += 1
            n = data[pos]
            if n < 128:
                timestamp_delta = n >> 1 ^ -(n & 1)
                after = pos + 1
            else:
                timestamp_delta, after = read_varlong(data, pos)
            n = data[after]
            if n < 128:
                offset_delta = n >> 1 ^ -(n & 1)
                pos = after + 1
            elif (m := data[after + 1]) < 128:
                n += (m << 7) - 128
                offset_delta = n >> 1 ^ -(n & 1)
                pos = after + 2
            else:
                offset_delta, pos = read_varint(data, after)
            n = data[pos]
            if n < 128:
                n = n >> 1 ^ -(n & 1)
                pos += 1
            else:
                n, pos = read_varint(data, pos)
            key = None if n < 0 else data[pos : (pos := pos + n)]
            if pos >= end or end > total:
                raise _invalid(start)
            # Of the value only its being there matters: the lowest bit of a varint is the sign, and a null has the length -1.
            yield new(record, (start, end, after, timestamp_delta, offset_delta, key, not data[pos] & 1))
            pos = end
    except IndexError:
        raise _invalid(start) from None
    if pos != total:
        raise _invalid(pos)


def _invalid(position: int) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"damaged records: what stands at byte {position} is no record")


def rewritten(header: BatchHeader, data: bytes, kept: list[RawRecord], delete_horizon_ms: int | None) -> bytearray:
    """The batch with only the records in `kept`, of which there is at least one. `data` are its decompressed records."""
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    if append_time is None:
        times = _int64s([header.base_timestamp + record.timestamp_delta for record in kept])
    else:
        times = [append_time] * len(kept)
    base_timestamp = times[0] if delete_horizon_ms is None else delete_horizon_ms
    payload: bytearray | bytes = _joined(data, kept, _int64s([time - base_timestamp for time in times]))
    codec = header.attributes & CODEC_MASK
    if codec:
        from kafkapy.wire.compression import compress

        payload = compress(codec, None, payload)
    attributes = header.attributes & ~DELETE_HORIZON
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON
    return _batch(header, attributes, base_timestamp, max(times), len(kept), payload)


def emptied(header: BatchHeader) -> bytearray:
    """The batch without any records, which still says what its producer's last sequence and epoch were."""
    attributes = header.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    return _batch(header, attributes, NO_TIMESTAMP, header.max_timestamp, 0, b"")


def _joined(data: bytes, kept: list[RawRecord], deltas: list[int]) -> bytearray:
    """The records one after another with new timestamp deltas; neighbours whose delta stays are copied together."""
    body = bytearray()
    run_start = run_end = 0
    for record, delta in zip(kept, deltas, strict=True):
        if delta == record.timestamp_delta:
            if record.start != run_end:
                body += data[run_start:run_end]
                run_start = record.start
            run_end = record.end
            continue
        body += data[run_start:run_end]
        run_start = run_end = 0
        timestamp = bytearray()
        write_uvarint(timestamp, delta << 1 if delta >= 0 else ~(delta << 1))
        length = 1 + len(timestamp) + record.end - record.after_timestamp
        write_uvarint(body, length << 1)
        body.append(0)
        body += timestamp
        body += data[record.after_timestamp : record.end]
    body += data[run_start:run_end]
    return body


def _int64s(numbers: list[int]) -> list[int]:
    """The numbers as 64-bit arithmetic has them: a client may have sent times whose sums no batch can carry."""
    if min(numbers) >= -(2**63) and max(numbers) < 2**63:
        return numbers
    return [(number + 2**63) % 2**64 - 2**63 for number in numbers]


def _batch(
    header: BatchHeader,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    count: int,
    payload: bytes | bytearray,
) -> bytearray:
    batch = bytearray(BATCH_HEADER_BYTES)
    BATCH_HEADER.pack_into(
        batch,
        0,
        header.base_offset,
        BATCH_HEADER_BYTES - LENGTH_END + len(payload),
        header.partition_leader_epoch,
        MAGIC,
        0,
        attributes,
        header.last_offset_delta,
        base_timestamp,
        max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        count,
    )
    batch += payload
    set_crc(batch, 0, len(batch))
    return batch
