"""Checks vectors of record sets: the header of every batch, its checksum, its records, and writing it again.

`json` has `batches` (the raw header fields, what follows from them, and the records with base64 keys and values), `validBytes` of
complete batches and `trailingBytes` of an incomplete one. A batch that is not `valid` has a wrong checksum, and no records are given.
"""

from __future__ import annotations

import base64
from typing import Any

from kafkapy.wire.check import Mismatch, first_difference
from kafkapy.wire.compression import Codec
from kafkapy.wire.record_batch import LOG_APPEND_TIME, BatchHeader, crc_is_valid, iterate_batches
from kafkapy.wire.records import (
    BatchBuilder,
    ControlType,
    Record,
    read_control_type,
    read_end_txn_marker,
    read_records,
)


def check_batches(vector: dict[str, Any]) -> None:
    """Raise what is wrong with one record set."""
    raw, wanted = bytes.fromhex(vector["hex"]), vector["json"]
    end = 0
    batches = []
    for position, header in iterate_batches(raw):
        end = position + header.size
        found = header_to_json(header)
        found["valid"] = crc_is_valid(raw, position, header)
        if found["valid"]:
            records = list(read_records(raw, position, header))
            found["records"] = records_to_json(header, records)
            if header.codec == 0:
                _check_writing(header, raw[position:end])
        batches.append(found)
    found_set = {"batches": batches, "validBytes": end, "trailingBytes": len(raw) - end}
    if found_set != wanted:
        path, one, other = first_difference(found_set, wanted)
        raise Mismatch(f"decoding{path} gives {one!r}, not {other!r}")


def header_to_json(header: BatchHeader) -> dict[str, Any]:
    """The raw fields of a batch header and what follows from them."""
    found: dict[str, Any] = {
        "baseOffset": header.base_offset,
        "batchLength": header.batch_length,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "magic": header.magic,
        "crc": header.crc,
        "attributes": header.attributes,
        "lastOffsetDelta": header.last_offset_delta,
        "baseTimestamp": header.base_timestamp,
        "maxTimestamp": header.max_timestamp,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "baseSequence": header.base_sequence,
        "count": header.record_count,
        "lastOffset": header.last_offset,
        "nextOffset": header.next_offset,
        "lastSequence": header.last_sequence,
        "compression": Codec(header.codec).name.lower(),
        "timestampType": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "transactional": header.is_transactional,
        "control": header.is_control,
    }
    if header.delete_horizon_ms is not None:
        found["deleteHorizonMs"] = header.delete_horizon_ms
    return found


def records_to_json(header: BatchHeader, records: list[Record]) -> list[dict[str, Any]]:
    """The records of a batch; for control records also what they say."""
    found = []
    for record in records:
        sequence = -1
        if header.base_sequence >= 0:
            sequence = (header.base_sequence + record.offset - header.base_offset) & 0x7FFFFFFF
        shown: dict[str, Any] = {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "sequence": sequence,
            "key": _base64(record.key),
            "value": _base64(record.value),
            "headers": [[name, _base64(value)] for name, value in record.headers],
        }
        if header.is_control:
            control_type = read_control_type(record.key)
            if control_type is not None:
                shown["controlType"] = control_type.name
            if control_type in (ControlType.ABORT, ControlType.COMMIT):
                marker = read_end_txn_marker(record)
                shown["coordinatorEpoch"] = marker.coordinator_epoch if marker else None
        found.append(shown)
    return found


def _check_writing(header: BatchHeader, raw: bytes) -> None:
    """Write an uncompressed batch again from what was read of it."""
    # With LogAppendTime the timestamps that the producer gave are still in the records, although nobody is shown them.
    as_created = header._replace(attributes=header.attributes & ~LOG_APPEND_TIME)
    builder = BatchBuilder(
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
    for record in read_records(raw, 0, as_created):
        builder.append(record.timestamp, record.key, record.value, record.headers, record.offset)
    again = builder.build(last_offset=header.last_offset, max_timestamp=header.max_timestamp)
    if again != raw:
        raise Mismatch(f"encoding the batch at offset {header.base_offset} gives {again.hex()}, not {raw.hex()}")


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
