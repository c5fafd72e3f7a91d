"""The records inside a batch: read them, write them, and the control records that end transactions.

After the 61 bytes of the batch header (record_batch.py) stand `record_count` records, compressed together where the batch has a codec:

    length            varint    bytes of the record after this field
    attributes        int8      unused, 0
    timestamp delta   varlong   to base_timestamp
    offset delta      varint    to base_offset
    key length        varint    -1: null
    key
    value length      varint    -1: null
    value
    header count      varint
    per header: key length varint, key (UTF-8), value length varint (-1: null), value

A varint is the zigzag form (0, -1, 1, -2 ... as 0, 1, 2, 3 ...) in groups of 7 bits, lowest first, the top bit set on all but
the last byte; at most 5 bytes, a varlong at most 10.

In a control batch the key is int16 version, int16 type; the value of a type that ends a transaction is int16 version,
int32 coordinator epoch.

What is read here was stored or sent as opaque bytes and may be anything. Damage raises `KafkaError`: INVALID_RECORD for the
structure of a record, CORRUPT_MESSAGE for compressed data, as Kafka tells them apart. Time and memory are in proportion to the
batch and to limits.DECOMPRESSED_BATCH_BYTES_MAX; a count or a length allocates nothing by itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.limits import DECOMPRESSED_BATCH_BYTES_MAX
from kafkapy.wire.record_batch import (
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    read_header,
    set_crc,
)

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record. Header keys that are no UTF-8 keep their bytes as surrogates, so that writing them again changes nothing."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()


def read_records(
    buffer: Buffer,
    position: int = 0,
    header: BatchHeader | None = None,
    max_bytes: int = DECOMPRESSED_BATCH_BYTES_MAX,
) -> Iterator[Record]:
    """The records of the batch at `position`, one at a time; decompression happens at the first, all at once."""
    if header is None:
        header = read_header(buffer, position)
    return _parse(decompressed_records(buffer, position, header, max_bytes), header)


def decompressed_records(
    buffer: Buffer, position: int, header: BatchHeader, max_bytes: int = DECOMPRESSED_BATCH_BYTES_MAX
) -> bytes:
    """The bytes of all records of the batch at `position`. Python slices bytes fastest, so what is not compressed is copied once."""
    if header.size > len(buffer) - position:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the record batch is incomplete")
    with memoryview(buffer) as view, view[position + BATCH_HEADER_BYTES : position + header.size] as payload:
        if header.codec == 0:
            return bytes(payload)
        from kafkapy.wire.compression import decompress

        return decompress(header.codec, payload, max_bytes)


# The zigzag value of every varint that is one byte long.
_ONE_BYTE = tuple((byte >> 1) ^ -(byte & 1) for byte in range(128))


# Reading past the end raises IndexError, slicing past it shortens: so one comparison at the end of a record finds every length
# that is wrong, and nothing has been allocated that the data does not hold.
def _parse(data: bytes, header: BatchHeader) -> Iterator[Record]:
    """The fields of each record in order, with the one- and two-byte varints inline: a call costs more than the rest of a field."""
    one_byte, new, record = _ONE_BYTE, tuple.__new__, Record
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    _check_base_timestamp(base_timestamp)
    pos, total = 0, len(data)
    try:
        for _ in range(header.record_count):
            n = data[pos]
            if n < 128:
                end = pos + 1 + one_byte[n]
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
                timestamp = base_timestamp + one_byte[n]
                pos += 1
            else:
                n, pos = read_varlong(data, pos)
                timestamp = _int64(base_timestamp + n)
            n = data[pos]
            if n < 128:
                offset = base_offset + one_byte[n]
                pos += 1
            elif (m := data[pos + 1]) < 128:
                n += (m << 7) - 128
                offset = base_offset + (n >> 1 ^ -(n & 1))
                pos += 2
            else:
                n, pos = read_varint(data, pos)
                offset = base_offset + n
            n = data[pos]
            if n < 128:
                n = one_byte[n]
                pos += 1
            else:
                n, pos = read_varint(data, pos)
            key = None if n < 0 else data[pos : (pos := pos + n)]
            n = data[pos]
            if n < 128:
                n = one_byte[n]
                pos += 1
            elif (m := data[pos + 1]) < 128:
                n += (m << 7) - 128
                n = n >> 1 ^ -(n & 1)
                pos += 2
            else:
                n, pos = read_varint(data, pos)
            value = None if n < 0 else data[pos : (pos := pos + n)]
            headers: tuple[Header, ...] = ()
            if data[pos]:
                headers, pos = _read_headers(data, pos, end)
            else:
                pos += 1
            if pos != end or end > total:
                raise _invalid(f"a record at byte {pos} does not end where its length says")
            yield new(record, (offset, timestamp if append_time is None else append_time, key, value, headers))
    except IndexError:
        raise _invalid("the records end early") from None
    if pos != total:
        raise _invalid(f"{total - pos} bytes after the last of {header.record_count} records")


def _read_headers(data: bytes, pos: int, end: int) -> tuple[tuple[Header, ...], int]:
    """The header count at `pos` and as many headers. Each takes two bytes at least, which bounds a count before it is believed."""
    count, pos = read_varint(data, pos)
    if not 0 <= count <= (end - pos) // 2:
        raise _invalid(f"{count} headers in {end - pos} bytes")
    headers: list[Header] = []
    for _ in range(count):
        n = data[pos]
        n, pos = (_ONE_BYTE[n], pos + 1) if n < 128 else read_varint(data, pos)
        if n < 0:
            raise _invalid("a header without a key")
        key = data[pos : (pos := pos + n)].decode("utf-8", "surrogateescape")
        n = data[pos]
        n, pos = (_ONE_BYTE[n], pos + 1) if n < 128 else read_varint(data, pos)
        headers.append((key, None if n < 0 else data[pos : (pos := pos + n)]))
    return tuple(headers), pos


def read_varint(data: Buffer, pos: int) -> tuple[int, int]:
    """(value, position after it) of a zigzag varint of 32 bits. IndexError where the data ends within it."""
    byte = data[pos]
    pos += 1
    value = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        if shift > 28:
            raise _invalid("a varint of more than 5 bytes")
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    value &= 0xFFFFFFFF
    return (value >> 1) ^ -(value & 1), pos


def read_varlong(data: Buffer, pos: int) -> tuple[int, int]:
    """(value, position after it) of a zigzag varint of 64 bits. IndexError where the data ends within it."""
    byte = data[pos]
    pos += 1
    value = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        if shift > 63:
            raise _invalid("a varlong of more than 10 bytes")
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    value &= 0xFFFFFFFFFFFFFFFF
    return (value >> 1) ^ -(value & 1), pos


def _int64(value: int) -> int:
    """`value` as 64-bit arithmetic has it, so that a batch never yields a timestamp that no batch can carry."""
    return (value + 2**63) % 2**64 - 2**63


def _check_base_timestamp(base_timestamp: int) -> None:
    """Deltas of one byte are added without a thought of overflow, which is right for any base but these."""
    if not 64 - 2**63 <= base_timestamp < 2**63 - 64:
        raise _invalid(f"the base timestamp {base_timestamp}")


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"damaged records: {why}")


class _ZigZag(dict[int, bytes]):
    """int -> its varint. Small numbers, which nearly all lengths and deltas are, are remembered."""

    def __missing__(self, number: int) -> bytes:
        number = _int64(number)
        rest = (number << 1) ^ (number >> 63)
        encoded = bytearray()
        while rest > 0x7F:
            encoded.append(rest & 0x7F | 0x80)
            rest >>= 7
        encoded.append(rest)
        varint = bytes(encoded)
        if -1 <= number < 8192:
            self[number] = varint
        return varint


_varint = _ZigZag()
_NULL = _varint[-1]
_NO_HEADERS = _varint[0]


class BatchBuilder:
    """Collects records and makes one batch of them: `append` as often as needed, then `build`.

    `base_timestamp` is the first record's unless it is given. `log_append_time_ms` makes it the timestamp of all records, a
    delete horizon (which takes the place of the base timestamp) is what compaction notes on a batch with tombstones. Compaction
    keeps the gaps it makes: it gives each record its offset, and `build` the last offset that the batch had.
    """

    __slots__ = (
        "_attributes",
        "_body",
        "_level",
        "_log_append_time_ms",
        "_producer",
        "base_offset",
        "base_timestamp",
        "count",
        "last_offset",
        "leader_epoch",
        "max_timestamp",
    )

    def __init__(
        self,
        *,
        codec: int = 0,
        level: int | None = None,
        base_offset: int = 0,
        base_timestamp: int | None = None,
        leader_epoch: int = -1,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
        log_append_time_ms: int | None = None,
        delete_horizon_ms: int | None = None,
    ) -> None:
        self._attributes = (
            codec
            | (LOG_APPEND_TIME if log_append_time_ms is not None else 0)
            | (TRANSACTIONAL if transactional else 0)
            | (CONTROL if control else 0)
            | (DELETE_HORIZON if delete_horizon_ms is not None else 0)
        )
        self._body = bytearray()
        self._level = level
        self._log_append_time_ms = log_append_time_ms
        self._producer = (producer_id, producer_epoch, base_sequence)
        self.base_offset = base_offset
        self.base_timestamp = base_timestamp if delete_horizon_ms is None else delete_horizon_ms
        self.leader_epoch = leader_epoch
        self.last_offset = base_offset - 1
        self.max_timestamp = NO_TIMESTAMP
        self.count = 0

    @property
    def size(self) -> int:
        """Bytes of the batch so far, before compression."""
        return BATCH_HEADER_BYTES + len(self._body)

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        offset: int | None = None,
    ) -> None:
        """Add a record; without an offset it gets the one after the last."""
        if self.base_timestamp is None:
            self.base_timestamp = timestamp
        if offset is None:
            offset = self.last_offset + 1
        varint = _varint
        record = b"".join(
            (
                b"\0",
                varint[timestamp - self.base_timestamp],
                varint[offset - self.base_offset],
                _NULL if key is None else varint[len(key)] + key,
                _NULL if value is None else varint[len(value)] + value,
                _encode_headers(headers) if headers else _NO_HEADERS,
            )
        )
        self._body += varint[len(record)]
        self._body += record
        self.last_offset = offset
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.count += 1

    def build(self, *, last_offset: int | None = None, max_timestamp: int | None = None) -> bytearray:
        """The finished batch. Compaction gives what a batch keeps although the records that had it are gone."""
        codec = self._attributes & CODEC_MASK
        payload: Buffer = self._body
        if codec:
            from kafkapy.wire.compression import compress

            payload = compress(codec, self._level, payload)
        if max_timestamp is None:
            max_timestamp = self.max_timestamp if self._log_append_time_ms is None else self._log_append_time_ms
        batch = bytearray(BATCH_HEADER_BYTES)
        BATCH_HEADER.pack_into(
            batch,
            0,
            self.base_offset,
            BATCH_HEADER_BYTES - LENGTH_END + len(payload),
            self.leader_epoch,
            MAGIC,
            0,
            self._attributes,
            (self.last_offset if last_offset is None else last_offset) - self.base_offset,
            NO_TIMESTAMP if self.base_timestamp is None else self.base_timestamp,
            max_timestamp,
            *self._producer,
            self.count,
        )
        batch += payload
        set_crc(batch, 0, len(batch))
        return batch


def encode_batch(records: Iterable[Record], **options: Any) -> bytearray:
    """One batch of `records`, which keep their offsets; the options are those of BatchBuilder. The first gives the base offset."""
    builder: BatchBuilder | None = None
    for offset, timestamp, key, value, headers in records:
        if builder is None:
            builder = BatchBuilder(**{"base_offset": offset, **options})
        builder.append(timestamp, key, value, headers, offset)
    return (builder or BatchBuilder(**options)).build()


def _encode_headers(headers: Sequence[Header]) -> bytes:
    varint = _varint
    parts = [varint[len(headers)]]
    for name, value in headers:
        key = name.encode("utf-8", "surrogateescape")
        parts += (varint[len(key)], key)
        parts += (_NULL,) if value is None else (varint[len(value)], value)
    return b"".join(parts)


class ControlType(IntEnum):
    """What a control record says; the last five stand only in the metadata log and its snapshots."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTxnMarker(NamedTuple):
    """The end of a producer's transaction in one partition."""

    committed: bool
    coordinator_epoch: int


_CONTROL_KEY = struct.Struct(">hh")
_END_TXN_VALUE = struct.Struct(">hi")


def control_key(type_: ControlType) -> bytes:
    """The key of a control record of that type."""
    return _CONTROL_KEY.pack(0, type_)


def read_control_type(key: bytes | None) -> ControlType | None:
    """The type that the key of a control record tells; None for one that a later version may have added."""
    if key is None or len(key) < _CONTROL_KEY.size:
        raise _invalid("a control record without a type")
    version, type_ = _CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise _invalid(f"version {version} of a control record's key")
    return ControlType(type_) if type_ in ControlType._value2member_map_ else None


def encode_end_txn_marker(
    committed: bool, coordinator_epoch: int, producer_id: int, producer_epoch: int, timestamp_ms: int
) -> bytearray:
    """The control batch that ends a transaction, ready for `append_as_leader`."""
    builder = BatchBuilder(producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True)
    type_ = ControlType.COMMIT if committed else ControlType.ABORT
    builder.append(timestamp_ms, control_key(type_), _END_TXN_VALUE.pack(0, coordinator_epoch))
    return builder.build()


def read_end_txn_marker(record: Record) -> EndTxnMarker | None:
    """The marker that a record of a control batch is; None where it is of another type."""
    type_ = read_control_type(record.key)
    if type_ not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if record.value is None or len(record.value) < _END_TXN_VALUE.size:
        raise _invalid("a transaction marker without its coordinator epoch")
    version, coordinator_epoch = _END_TXN_VALUE.unpack_from(record.value)
    if version < 0:
        raise _invalid(f"version {version} of a transaction marker")
    return EndTxnMarker(type_ is ControlType.COMMIT, coordinator_epoch)
