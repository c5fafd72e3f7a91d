"""The record batch of Kafka (magic 2): its header, its checksum, what a broker may change in it, what it refuses.

A record set, on the wire and in a segment file alike, is one batch after another:

    offset size  field                   notes (all integers big-endian)
         0    8  base_offset             int64; set by the leader when it appends
         8    4  batch_length            int32; bytes after this field, so at least 49
        12    4  partition_leader_epoch  int32; set by the leader when it appends
        16    1  magic                   int8; 2
        17    4  crc                     uint32; CRC-32C of everything from attributes to the end
        21    2  attributes              int16; bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control, 6 delete horizon
        23    4  last_offset_delta       int32; last offset - base_offset, kept when compaction removes records
        27    8  base_timestamp          int64; record timestamps are deltas to it; the delete horizon where bit 6 is set
        35    8  max_timestamp           int64; with bit 3 it is the timestamp of every record
        43    8  producer_id             int64; -1 without idempotence
        51    2  producer_epoch          int16
        53    4  base_sequence           int32; -1 without idempotence
        57    4  record_count            int32
        61       records                 compressed together; see records.py

The first three fields lie outside the checksum: an append patches base_offset and partition_leader_epoch in the receive buffer
and nothing else is touched or computed.

Damage is told by `KafkaError` here, never by `ProtocolError`: the request around the batch was well formed and is answered.
CORRUPT_MESSAGE stands for a batch whose frame, checksum or compressed data is broken, INVALID_RECORD for content that Kafka refuses.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.limits import DECOMPRESSED_BATCH_BYTES_MAX
from kafkapy.wire.crc import crc32c

Buffer = bytes | bytearray | memoryview

# For the hottest paths, which unpack into locals: the fields in the order of the table above.
BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
BATCH_HEADER_BYTES = 61
LENGTH_END = 12  # batch_length counts from here
CRC_START = 21  # the checksum covers everything from here

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

MAGIC = 2
NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1

_ZSTD = 4
_CODEC_MAX = 4
_PRODUCE_VERSION_WITH_ZSTD = 7
_LENGTH_MIN = BATCH_HEADER_BYTES - LENGTH_END
_LENGTH_MIN_OF_ANY_MAGIC = 14

# A record with nothing in it takes 7 bytes. Without this check a batch of 61 bytes could take two thousand million offsets.
_RECORD_BYTES_MIN = 7

_LENGTH = struct.Struct(">i")
_OFFSET_LENGTH_EPOCH = struct.Struct(">qii")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_TIMESTAMP = struct.Struct(">q")
_LENGTH_AT = 8
_MAGIC_AT = 16
_CRC_AT = 17
_ATTRIBUTES_AT = 21
_CODEC_AT = 22
_MAX_TIMESTAMP_AT = 35


class BatchHeader(NamedTuple):
    """The 61 bytes before the records; nothing of the records is read to make one."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, the length field and what is before it included."""
        return self.batch_length + LENGTH_END

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record: it wraps from 2^31-1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the tombstones and markers of this batch; None until compaction has decided."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; the rest of the batch need not be there yet. Its checksum is not looked at."""
    try:
        header = BatchHeader._make(BATCH_HEADER.unpack_from(buffer, position))
    except struct.error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the record batch ends within its header") from None
    if header.magic != MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a record batch of magic {header.magic} where only 2 is stored")
    if header.batch_length < _LENGTH_MIN:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"a record batch of length {header.batch_length}, less than a header"
        )
    return header


def iterate_batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every complete batch, in order. An incomplete tail, which Kafka's Fetch may send, ends it silently."""
    end = len(buffer)
    while end - position >= BATCH_HEADER_BYTES:
        header = read_header(buffer, position)
        if header.size > end - position:
            return
        yield position, header
        position += header.size
    if end - position > _MAGIC_AT:
        _refuse_impossible_start(buffer, position)


def _refuse_impossible_start(buffer: Buffer, position: int) -> None:
    """A tail shorter than a header is no batch, but it can already tell that it never becomes one."""
    (length,) = _LENGTH.unpack_from(buffer, position + _LENGTH_AT)
    if length < _LENGTH_MIN or buffer[position + _MAGIC_AT] != MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "what follows the last record batch is not the start of another")


def crc_is_valid(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the batch at `position`, which must be complete, matches its checksum. Reads the bytes where they are."""
    with memoryview(buffer) as view:
        return crc32c(view[position + CRC_START : position + header.size]) == header.crc


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """`crc_is_valid`, or CORRUPT_MESSAGE."""
    if not crc_is_valid(buffer, position, header):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"the record batch at offset {header.base_offset} does not match its checksum"
        )


def assign_offsets(
    buffer: bytearray | memoryview, position: int, header: BatchHeader, base_offset: int, leader_epoch: int
) -> None:
    """What a leader writes into a batch that it appends. Both fields lie outside the checksum."""
    _OFFSET_LENGTH_EPOCH.pack_into(buffer, position, base_offset, header.batch_length, leader_epoch)


def assign_log_append_time(
    buffer: bytearray | memoryview, position: int, header: BatchHeader, append_time_ms: int
) -> None:
    """Make `append_time_ms` the timestamp of every record of the batch; this changes checksummed bytes, so the crc is computed anew."""
    _ATTRIBUTES.pack_into(buffer, position + _ATTRIBUTES_AT, header.attributes | LOG_APPEND_TIME)
    _TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_AT, append_time_ms)
    set_crc(buffer, position, header.size)


def set_crc(buffer: bytearray | memoryview, position: int, size: int) -> None:
    """Compute and write the checksum of the batch of `size` bytes at `position`."""
    with memoryview(buffer) as view, view[position + CRC_START : position + size] as covered:
        _CRC.pack_into(buffer, position + _CRC_AT, crc32c(covered))


class RecordsRefused(KafkaError):
    """Some records of a batch were refused, so the whole batch was; `record_errors` says which and why, as (index, text)."""

    def __init__(self, code: ErrorCode, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(code, f"{len(record_errors)} records of the batch were refused")
        self.record_errors = record_errors


class ProduceRules:
    """What a topic demands of the batches that clients produce to it: built when its configuration changes, not per request."""

    __slots__ = ("after_max_ms", "before_max_ms", "compacted", "log_append_time", "max_message_bytes")

    def __init__(
        self,
        max_message_bytes: int = 1_048_588,
        compacted: bool = False,
        log_append_time: bool = False,
        before_max_ms: int = 2**63 - 1,
        after_max_ms: int = 3_600_000,
    ) -> None:
        self.max_message_bytes = max_message_bytes
        self.compacted = compacted
        self.log_append_time = log_append_time
        self.before_max_ms = before_max_ms
        self.after_max_ms = after_max_ms


def validate_produced(records: Buffer, rules: ProduceRules, now_ms: int, produce_version: int) -> BatchHeader:
    """The header of the one batch that a client may send per partition, or `KafkaError` with the code that Kafka answers.

    One unpack, one checksum, and one condition that every ordinary batch meets; the order of Kafka's checks matters only for
    what is refused. Only `records[: header.size]` may be appended: like Kafka, an incomplete second batch is tolerated and cut off.
    Records are opened only where the header cannot decide: keys for a compacted topic, timestamps outside the window.
    """
    size = len(records)
    if size < BATCH_HEADER_BYTES:
        _check_frame(records, produce_version)
    header = BatchHeader._make(BATCH_HEADER.unpack_from(records))
    base_offset, length, _, magic, crc, attributes, last_delta, _, newest, producer_id, _, sequence, count = header
    codec = attributes & CODEC_MASK
    if not (
        magic == MAGIC
        and base_offset == 0
        and length == size - LENGTH_END
        and size <= rules.max_message_bytes
        and count == last_delta + 1
        and count > 0
        and not attributes & (CONTROL | LOG_APPEND_TIME)
        and (sequence >= 0 or (producer_id < 0 and not attributes & TRANSACTIONAL))
        and count * _RECORD_BYTES_MIN <= (DECOMPRESSED_BATCH_BYTES_MAX if codec else length - _LENGTH_MIN)
        and (codec < _ZSTD or (codec == _ZSTD and produce_version >= _PRODUCE_VERSION_WITH_ZSTD))
        and crc == crc32c(records[CRC_START:])  # A slice of a memoryview, which the connection gives, copies nothing.
    ):
        _check_frame(records, produce_version)
        _check_batch(records, header, rules)
    ordinary = not rules.compacted and newest <= now_ms + rules.after_max_ms and rules.before_max_ms > now_ms
    if not ordinary and (rules.compacted or not _window_is_kept(header, rules, now_ms)):
        _check_records(records, header, rules, now_ms)
    return header


def _check_frame(records: Buffer, produce_version: int) -> None:
    """What Kafka checks before it looks for the partition: exactly one complete batch, of a kind that the version may carry."""
    end = _complete_batch_end(records, 0)
    if end is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{len(records)} bytes are no complete record batch")
    if records[_MAGIC_AT] != MAGIC:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"a record batch of magic {records[_MAGIC_AT]}; only 2 is accepted")
    if end < BATCH_HEADER_BYTES:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a record batch of {end} bytes, less than its header")
    if records[_CODEC_AT] & CODEC_MASK == _ZSTD and produce_version < _PRODUCE_VERSION_WITH_ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd cannot be sent by version {produce_version} of Produce"
        )
    if _complete_batch_end(records, end) is not None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "more than one record batch for a partition")


def _complete_batch_end(records: Buffer, position: int) -> int | None:
    """Where the batch of any magic that begins at `position` ends; None where it is incomplete, CORRUPT_MESSAGE where none begins.

    Kafka looks at no more than this, in this order, before it says that a batch is missing or that there is one too many.
    """
    remaining = len(records) - position
    if remaining < LENGTH_END:
        return None
    (length,) = _LENGTH.unpack_from(records, position + _LENGTH_AT)
    if length < _LENGTH_MIN_OF_ANY_MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a record batch of length {length}")
    if remaining <= _MAGIC_AT:
        return None
    magic = records[position + _MAGIC_AT]
    if magic > MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a record batch of magic {magic}")
    return position + LENGTH_END + length if length <= remaining - LENGTH_END else None


def _check_batch(records: Buffer, header: BatchHeader, rules: ProduceRules) -> None:
    """What Kafka checks once it knows the partition, in its order."""
    if header.base_offset != 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"the base offset of a produced batch is {header.base_offset} instead of 0"
        )
    if header.size > rules.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a record batch of {header.size} bytes; the topic allows {rules.max_message_bytes} (max.message.bytes)",
        )
    check_crc(records, 0, header)
    if header.codec > _CODEC_MAX:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"no compression has the number {header.codec}")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"{header.record_count} records whose last offset delta is {header.last_offset_delta}",
        )
    room = DECOMPRESSED_BATCH_BYTES_MAX if header.codec else header.batch_length - _LENGTH_MIN
    if header.record_count * _RECORD_BYTES_MIN > room:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{header.record_count} records cannot be in {room} bytes")
    if header.is_control:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a client cannot write control records")
    if header.has_producer_id and header.base_sequence < 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"the base sequence {header.base_sequence} of an idempotent producer"
        )
    if header.is_transactional and not header.has_producer_id:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, "a transactional batch without a producer id")
    if header.is_log_append_time:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "a producer cannot set the timestamp type LogAppendTime")


def _window_is_kept(header: BatchHeader, rules: ProduceRules, now_ms: int) -> bool:
    """Whether the header alone shows that every timestamp is allowed, which for a topic that does not limit the age it does.

    The newest timestamp is `max_timestamp`. The oldest is known only where there is one record, so for a topic that limits the
    age of records the others have them opened. A record without a timestamp is always allowed.
    """
    if rules.log_append_time:
        return True
    newest = header.max_timestamp
    if newest > now_ms + rules.after_max_ms:
        return False
    if rules.before_max_ms > now_ms:
        return True
    if header.record_count != 1 or header.base_timestamp != newest:
        return False
    return newest == NO_TIMESTAMP or newest >= now_ms - rules.before_max_ms


def _check_records(records: Buffer, header: BatchHeader, rules: ProduceRules, now_ms: int) -> None:
    """Open the records to find those without a key and those outside the time window, as a client is told about each."""
    from kafkapy.wire.records import read_records  # Not needed by most brokers' topics, and it imports this module.

    oldest, newest = now_ms - rules.before_max_ms, now_ms + rules.after_max_ms
    errors: list[tuple[int, str]] = []
    code = ErrorCode.INVALID_RECORD
    for index, record in enumerate(read_records(records, 0, header)):
        timestamp = record.timestamp
        if rules.compacted and record.key is None:
            errors.append((index, "a record without a key in a compacted topic"))
        elif rules.log_append_time or timestamp == NO_TIMESTAMP or oldest <= timestamp <= newest:
            continue
        else:
            code = ErrorCode.INVALID_TIMESTAMP
            errors.append((index, f"the timestamp {timestamp} is outside [{oldest}, {newest}]"))
    if errors:
        raise RecordsRefused(code, errors)
    if not rules.log_append_time and header.max_timestamp > newest:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP, f"the batch's timestamp {header.max_timestamp} is later than {newest}"
        )
