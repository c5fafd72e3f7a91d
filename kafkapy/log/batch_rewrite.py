"""The two cases in which a broker changes the records of a batch: LogAppendTime, and a topic's own compression.type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.wire.record_batch import BatchHeader, assign_log_append_time, check_crc, read_header

if TYPE_CHECKING:
    from kafkapy.config.log_config import LogConfig

_GZIP, _LZ4, _ZSTD = 1, 3, 4


def checked_own_batch(records: memoryview | bytes | bytearray) -> BatchHeader:
    """The header of a batch that this broker's own coordinators made; only the frame and the checksum are looked at."""
    header = read_header(records)
    if header.size > len(records):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the record batch is incomplete")
    check_crc(records, 0, header)
    return header


def rewritten(
    records: memoryview, header: BatchHeader, config: LogConfig, codec: int, now_ms: int
) -> tuple[memoryview, int, int]:
    """(batch, its largest timestamp, log append time or -1) as the topic's configuration wants it stored.

    `codec` is the topic's, -1 to leave batches as they are. LogAppendTime alone changes two fields of the header and the checksum
    in place; another codec makes a new batch.
    """
    append_time_ms = now_ms if config.message_timestamp_type == "LogAppendTime" else None
    if codec < 0 or codec == header.codec:
        if append_time_ms is None:
            return records, header.max_timestamp, -1
        assign_log_append_time(records, 0, header, append_time_ms)
        return records, append_time_ms, append_time_ms
    batch = _recompressed(records, header, config, codec, append_time_ms)
    if len(batch) > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a record batch of {len(batch)} bytes once compressed as the topic asks; it allows {config.max_message_bytes}",
        )
    if append_time_ms is None:
        return memoryview(batch), header.max_timestamp, -1
    return memoryview(batch), append_time_ms, append_time_ms


def _recompressed(
    records: memoryview, header: BatchHeader, config: LogConfig, codec: int, append_time_ms: int | None
) -> bytearray:
    """The same records in a batch of another codec."""
    from kafkapy.wire.records import BatchBuilder, read_records

    levels = {
        _GZIP: config.compression_gzip_level,
        _LZ4: config.compression_lz4_level,
        _ZSTD: config.compression_zstd_level,
    }
    builder = BatchBuilder(
        codec=codec,
        level=levels.get(codec),
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        log_append_time_ms=append_time_ms,
    )
    for record in read_records(records, 0, header):
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return builder.build()
