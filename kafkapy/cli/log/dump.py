"""`kafkapy log dump`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkapy.cli.failures import Failure
from kafkapy.cli.framework import command
from kafkapy.cli.properties import CODECS
from kafkapy.errors import StorageError

if TYPE_CHECKING:
    from kafkapy.cli.log.files import LogFile
    from kafkapy.wire.record_batch import BatchHeader
    from kafkapy.wire.records import Record
    from kafkapy.wire.schema import Data

Row = dict[str, Any]


@command(
    "dump",
    client=False,
    short_help="Show what is in a broker's files.",
    examples="""
        kafkapy log dump kafkapy-data/orders-0
        kafkapy log dump kafkapy-data/orders-0/00000000000000000000.log --records
        kafkapy log dump kafkapy-data/__cluster_metadata-0 --records --format json
        kafkapy log dump kafkapy-data/recovery-point-offset-checkpoint
        """,
)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("-r", "--records", is_flag=True, help="Show the records of each batch, too.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to print; json is an object a line.",
)
def dump(paths: tuple[Path, ...], records: bool, format_name: str) -> None:
    """Show what is in a broker's files.

    PATH is a segment, an index, a snapshot, a checkpoint, the folder of a partition or a whole data folder. Records of the
    broker's own topics (__cluster_metadata, __consumer_offsets, __transaction_state, __share_group_state) are decoded. Nothing
    is written, so the broker may run; what it is writing just now may look cut off.
    """
    from kafkapy.cli.log.files import find_files

    show = _show_json if format_name == "json" else _show_text
    damaged = False
    for path in paths:
        for file in find_files(path):
            if format_name == "text":
                click.echo(f"{file.path}: {file.kind.value}")
            for row in rows_of(file, records):
                damaged = damaged or row["type"] == "damage"
                show(file, row)
    if damaged:
        raise Failure("there is damage", hint="`kafkapy log verify` tells all of it")


def _show_json(file: LogFile, row: Row) -> None:
    click.echo(json.dumps({"file": str(file.path), **row}, ensure_ascii=False))


def _show_text(file: LogFile, row: Row) -> None:
    """`batch position=0 size=94 ...`; what is null or false is left out, for there is much of it."""
    words = [
        f"{name}={_text(value)}"
        for name, value in row.items()
        if name != "type" and value is not None and value is not False
    ]
    click.echo(f"  {row['type']} {' '.join(words)}")


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    text = str(value)
    return text if text and text.isprintable() and " " not in text else json.dumps(text, ensure_ascii=False)


def rows_of(file: LogFile, records: bool) -> Iterator[Row]:
    """What is in a file; damage is a row of its own."""
    from kafkapy.cli.log.files import Kind
    from kafkapy.log.producer_snapshot import CorruptSnapshotError
    from kafkapy.log.sparse_index import CorruptIndexError

    readers = {
        Kind.BATCHES: lambda: _batch_rows(file, records),
        Kind.OFFSET_INDEX: lambda: _index_rows(file, ("offset", "position")),
        Kind.TIME_INDEX: lambda: _index_rows(file, ("timestamp", "offset")),
        Kind.TXN_INDEX: lambda: _txn_rows(file),
        Kind.PRODUCERS: lambda: _producer_rows(file),
        Kind.OFFSETS: lambda: _offset_rows(file),
        Kind.EPOCHS: lambda: _epoch_rows(file),
    }
    read = readers.get(file.kind, lambda: _property_rows(file))
    try:
        yield from read()
    except (StorageError, CorruptIndexError, CorruptSnapshotError, ValueError) as error:
        yield {"type": "damage", "problem": getattr(error, "message", str(error))}


def _batch_rows(file: LogFile, records: bool) -> Iterator[Row]:
    from kafkapy.cli.log.files import open_batches
    from kafkapy.errors import KafkaError
    from kafkapy.log.batch_walk import UnreadableBatch
    from kafkapy.wire.records import read_records

    try:
        with open_batches(file.path) as batches:
            for position, header, data in batches:
                yield _batch_row(position, header)
                if records:
                    for record in read_records(data, 0, header):
                        yield _record_row(file.topic, header, record)
    except UnreadableBatch as damage:
        yield {"type": "damage", "position": damage.position, "problem": damage.reason}
    except KafkaError as error:
        yield {"type": "damage", "problem": str(error)}


def _batch_row(position: int, header: BatchHeader) -> Row:
    has_producer = header.has_producer_id
    return {
        "type": "batch",
        "position": position,
        "size": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "codec": CODECS[header.codec] if header.codec < len(CODECS) else header.codec,
        "timestamp": header.max_timestamp,
        "timestamp_type": "append" if header.is_log_append_time else "create",
        "leader_epoch": header.partition_leader_epoch,
        "producer_id": header.producer_id if has_producer else None,
        "producer_epoch": header.producer_epoch if has_producer else None,
        "base_sequence": header.base_sequence if has_producer else None,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "delete_horizon": header.delete_horizon_ms,
        "crc": f"{header.crc:08x}",
    }


def _record_row(topic: str, header: BatchHeader, record: Record) -> Row:
    from kafkapy.cli.record_json import header_objects, put_bytes

    row: Row = {"type": "record", "offset": record.offset, "timestamp": record.timestamp}
    decoded = _decoded(topic, header, record)
    if decoded is not None:
        return row | decoded
    put_bytes(row, "key", record.key)
    put_bytes(row, "value", record.value)
    if record.headers:
        row["headers"] = header_objects(record.headers)
    return row


def _decoded(topic: str, header: BatchHeader, record: Record) -> Row | None:
    """A record of the broker's own; None for everybody else's, and for what a newer broker may have written."""
    from kafkapy.errors import ProtocolError
    from kafkapy.wire import record_framing as framing

    if header.is_control:
        return _control(record)
    try:
        if topic == "__cluster_metadata" and record.value is not None:
            metadata, version = framing.decode_metadata_record(record.value)
            return {"record": metadata.SCHEMA.name, "version": version, "fields": metadata.to_json(version)}
        for coordinator in (framing.GROUP_RECORDS, framing.TRANSACTION_RECORDS, framing.SHARE_RECORDS):
            if topic == coordinator.topic and record.key is not None:
                key = coordinator.decode_key(record.key)
                row: Row = {"record": key.SCHEMA.name.removesuffix("Key"), "key": key.to_json(0), "value": None}
                if record.value is not None:
                    value, version = coordinator.decode_value(key.SCHEMA.type, record.value)
                    row |= {"version": version, "value": value.to_json(version)}
                return row
    except ProtocolError as error:
        return {"record": "unreadable", "problem": str(error)}
    return None


def _control(record: Record) -> Row:
    from kafkapy.wire import protocol_data as data
    from kafkapy.wire.records import ControlType, read_control_type, read_end_txn_marker

    kind = read_control_type(record.key)
    row: Row = {"control": "unknown" if kind is None else kind.name}
    marker = read_end_txn_marker(record)
    if marker is not None:
        return row | {"coordinator_epoch": marker.coordinator_epoch}
    classes: dict[ControlType, type[Data]] = {
        ControlType.LEADER_CHANGE: data.LeaderChangeMessage,
        ControlType.SNAPSHOT_HEADER: data.SnapshotHeaderRecord,
        ControlType.SNAPSHOT_FOOTER: data.SnapshotFooterRecord,
        ControlType.KRAFT_VERSION: data.KRaftVersionRecord,
        ControlType.KRAFT_VOTERS: data.VotersRecord,
    }
    if kind is not None and kind in classes and record.value is not None:
        version = int.from_bytes(record.value[:2], "big")
        row["fields"] = classes[kind].decode(record.value, version).to_json(version)
    return row


def _index_rows(file: LogFile, names: tuple[str, str]) -> Iterator[Row]:
    from kafkapy.cli.log.files import index_entries

    for entry in index_entries(file, file.path.read_bytes()):
        yield {"type": "entry", **dict(zip(names, entry, strict=True))}


def _txn_rows(file: LogFile) -> Iterator[Row]:
    from kafkapy.cli.log.files import FILESYSTEM
    from kafkapy.log.txn_index import TxnIndex

    for entry in TxnIndex(FILESYSTEM, str(file.path)).entries():
        yield {"type": "aborted", **entry._asdict()}


def _producer_rows(file: LogFile) -> Iterator[Row]:
    from kafkapy.cli.log.files import FILESYSTEM
    from kafkapy.log.producer_snapshot import read_snapshot

    for state in read_snapshot(FILESYSTEM, str(file.path)).values():
        last = state.batches[-1] if state.batches else None
        yield {
            "type": "producer",
            "producer_id": state.producer_id,
            "producer_epoch": state.epoch,
            "last_sequence": state.last_sequence,
            "last_offset": last.last_offset if last else -1,
            "timestamp": state.last_timestamp,
            "coordinator_epoch": state.coordinator_epoch,
            "txn_first_offset": state.txn_first_offset if state.txn_first_offset >= 0 else None,
        }


def _offset_rows(file: LogFile) -> Iterator[Row]:
    from kafkapy.cli.log.files import FILESYSTEM
    from kafkapy.log.checkpoints import read_offsets

    for (topic, partition), offset in read_offsets(FILESYSTEM, str(file.path)).items():
        yield {"type": "partition", "topic": topic, "partition": partition, "offset": offset}


def _epoch_rows(file: LogFile) -> Iterator[Row]:
    from kafkapy.log.epochs import decode_epochs

    for entry in decode_epochs(str(file.path), file.path.read_bytes()):
        yield {"type": "epoch", "epoch": entry.epoch, "start_offset": entry.start_offset}


def _property_rows(file: LogFile) -> Iterator[Row]:
    """The small files of one line or a few."""
    from kafkapy.cli.log.files import Kind
    from kafkapy.log import checkpoints

    data = file.path.read_bytes()
    if file.kind is Kind.TOPIC_ID:
        topic_id = checkpoints.decode_partition_metadata(str(file.path), data)
        yield {"type": "topic", "topic_id": checkpoints.format_uuid(topic_id)}
    elif file.kind is Kind.PROPERTIES:
        yield {"type": "properties", **checkpoints.decode_properties(data)}
    else:
        yield {"type": "stop", "content": data.decode("utf-8", "backslashreplace").strip()}
