"""The metadata log's batches and snapshots as KRaft has them on disk, so that Apache Kafka's own tools read them.

The log `__cluster_metadata-0` is a sequence of ordinary record batches (wire/record_batch.py) without keys; each value is a framed metadata record
(wire/record_framing.py). One decision is one batch, and its epoch stands in partition_leader_epoch. An epoch begins with a control batch, whose
one record has the key of type LEADER_CHANGE and a LeaderChangeMessage as its value.

A snapshot, `<end offset, 20 digits>-<epoch, 10 digits>.checkpoint`, covers all offsets before its end offset. It is batches as well, with
offsets of its own from 0: a control batch with a SnapshotHeaderRecord, the records that rebuild the image, a control batch with a
SnapshotFooterRecord. Without the footer it is not whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.quorum import CommittedBatch, SnapshotPosition
from kafkapy.wire.metadata_records import record_version
from kafkapy.wire.primitives import Buffer
from kafkapy.wire.protocol_data import ChangeVoter, LeaderChangeMessage, SnapshotFooterRecord, SnapshotHeaderRecord
from kafkapy.wire.record_batch import check_crc, iterate_batches
from kafkapy.wire.record_framing import decode_metadata_record, encode_metadata_record
from kafkapy.wire.records import BatchBuilder, ControlType, control_key, read_control_type, read_records
from kafkapy.wire.schema import Record

# Small enough to write a large image piece by piece, large enough to leave the headers unnoticed.
SNAPSHOT_BATCH_RECORDS = 1000
CHECKPOINT_SUFFIX = ".checkpoint"


def frame_records(records: Iterable[Record], metadata_version: int) -> tuple[bytes, ...]:
    """The records as they are stored, in the versions that the whole cluster can read."""
    return tuple(encode_metadata_record(record, record_version(type(record), metadata_version)) for record in records)


def encode_committed(batch: CommittedBatch, voters: Iterable[int]) -> bytearray:
    """A committed batch as it stands in the log."""
    if batch.is_leader_change:
        everyone = [ChangeVoter(voter_id=voter) for voter in voters]
        message = LeaderChangeMessage(leader_id=batch.leader_id, voters=everyone, granting_voters=everyone)
        return _control_batch(
            ControlType.LEADER_CHANGE, message.encode(0), batch.base_offset, batch.epoch, batch.timestamp_ms
        )
    builder = BatchBuilder(base_offset=batch.base_offset, leader_epoch=batch.epoch)
    for record in batch.records:
        builder.append(batch.timestamp_ms, None, record)
    return builder.build()


class StoredBatch(NamedTuple):
    """A batch read back: its records decoded, or the type of its control record."""

    end_position: int
    base_offset: int
    next_offset: int
    epoch: int
    timestamp_ms: int
    records: list[Record]
    control: ControlType | None


def read_batches(content: bytes, position: int = 0) -> Iterator[StoredBatch]:
    """The whole and sound batches from `position` on; raises KafkaError at the first that is damaged. What is cut off at the end is left out."""
    for at, header in iterate_batches(content, position):
        check_crc(content, at, header)
        stored = list(read_records(content, at, header))
        control = read_control_type(stored[0].key) if header.is_control and stored else None
        records = [] if header.is_control else [decode_metadata_record(record.value or b"")[0] for record in stored]
        yield StoredBatch(
            at + header.size,
            header.base_offset,
            header.next_offset,
            header.partition_leader_epoch,
            header.max_timestamp,
            records,
            control,
        )


def read_committed(content: Buffer) -> Iterator[CommittedBatch]:
    """The whole batches of a part of the log, as the quorum tells them; KafkaError where one is damaged."""
    for at, header in iterate_batches(content):
        check_crc(content, at, header)
        stored = list(read_records(content, at, header))
        leader_id = -1
        if header.is_control:
            if not stored or read_control_type(stored[0].key) is not ControlType.LEADER_CHANGE:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a control batch that is none of the metadata log's")
            leader_id = LeaderChangeMessage.decode(bytes(stored[0].value or b""), 0).leader_id
        yield CommittedBatch(
            header.base_offset,
            header.partition_leader_epoch,
            leader_id,
            header.max_timestamp,
            () if header.is_control else tuple(bytes(record.value or b"") for record in stored),
        )


def snapshot_batches(
    records: Iterable[Record], position: SnapshotPosition, metadata_version: int
) -> Iterator[bytearray]:
    """A snapshot piece by piece. Everything in it follows from the image, so all nodes write the same bytes."""
    epoch, timestamp_ms = position.epoch, position.timestamp_ms
    header = SnapshotHeaderRecord(last_contained_log_timestamp=timestamp_ms).encode(0)
    yield _control_batch(ControlType.SNAPSHOT_HEADER, header, 0, epoch, timestamp_ms)
    offset = 1
    builder = BatchBuilder(base_offset=offset, leader_epoch=epoch)
    for record in records:
        framed = encode_metadata_record(record, record_version(type(record), metadata_version))
        builder.append(timestamp_ms, None, framed)
        offset += 1
        if builder.count == SNAPSHOT_BATCH_RECORDS:
            yield builder.build()
            builder = BatchBuilder(base_offset=offset, leader_epoch=epoch)
    if builder.count:
        yield builder.build()
    yield _control_batch(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord().encode(0), offset, epoch, timestamp_ms)


def read_snapshot(content: bytes) -> tuple[list[Record], int]:
    """The records of a whole snapshot and the time of the last batch that it covers; KafkaError where it is damaged or not whole."""
    records: list[Record] = []
    timestamp_ms = 0
    last_control = None
    for batch in read_batches(content):
        records += batch.records
        timestamp_ms = max(timestamp_ms, batch.timestamp_ms)
        last_control = batch.control
    if last_control is not ControlType.SNAPSHOT_FOOTER:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the snapshot has no end")
    return records, timestamp_ms


def checkpoint_name(end_offset: int, epoch: int) -> str:
    """The file name of a snapshot."""
    return f"{end_offset:020d}-{epoch:010d}{CHECKPOINT_SUFFIX}"


def parse_checkpoint_name(name: str) -> tuple[int, int] | None:
    """The end offset and epoch in the name of a snapshot; None for any other file."""
    stem = name.removesuffix(CHECKPOINT_SUFFIX)
    offset, _, epoch = stem.partition("-")
    if stem == name or len(offset) != 20 or len(epoch) != 10 or not (offset.isdecimal() and epoch.isdecimal()):
        return None
    return int(offset), int(epoch)


def _control_batch(type_: ControlType, value: bytes, offset: int, epoch: int, timestamp_ms: int) -> bytearray:
    builder = BatchBuilder(base_offset=offset, leader_epoch=epoch, control=True)
    builder.append(timestamp_ms, control_key(type_), value)
    return builder.build()
