"""The producers of a partition as they were at an offset, on disk.

    00000000000000000120.snapshot    the state before offset 120; written at each roll and at a clean stop

    offset size  field (big-endian)
         0    2  version                   int16; 1
         2    4  crc                       uint32; CRC-32C of everything after it
         6    4  number of entries         int32
        then for each producer, 46 bytes:
              8  producer_id               int64
              2  epoch                     int16
              4  last_sequence             int32; -1: no batch with this epoch yet
              8  last_offset               int64; of its last batch; -1 likewise
              4  offset_delta              int32; last offset - first offset of that batch
              8  timestamp                 int64; of its last batch or marker
              4  coordinator_epoch         int32; of the last marker; -1
              8  current_txn_first_offset  int64; -1: no transaction is open

Only the last batch of each producer is kept: of the five that are remembered in memory the others are found again when the log is
replayed from the snapshot on, and duplicates older than it are not recognised, which is what Kafka does too.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError

from kafkapy.log.filesystem import Filesystem, read_file, storage_errors, write_fully
from kafkapy.log.producer_state import NO_EPOCH, ProducedBatch, ProducerState
from kafkapy.wire.crc import crc32c

_HEAD = Struct(">hII")
_ENTRY = Struct(">qhiqiqiq")
_ENTRIES_START = 6
_VERSION = 1


class CorruptSnapshotError(Exception):
    """The file is not a whole snapshot: an earlier one serves, with more of the log replayed."""


def encode_snapshot(producers: dict[int, ProducerState]) -> bytes:
    """The file's content."""
    out = bytearray(_HEAD.pack(_VERSION, 0, len(producers)))
    for state in producers.values():
        last = state.batches[-1] if state.batches else None
        out += _ENTRY.pack(
            state.producer_id,
            state.epoch,
            -1 if last is None else last.last_sequence,
            -1 if last is None else last.last_offset,
            0 if last is None else last.last_offset - last.first_offset,
            state.last_timestamp,
            state.coordinator_epoch,
            state.txn_first_offset,
        )
    out[2:6] = crc32c(out[_ENTRIES_START:]).to_bytes(4, "big")
    return bytes(out)


def decode_snapshot(data: bytes) -> dict[int, ProducerState]:
    """The producers in a file's content, or CorruptSnapshotError."""
    try:
        version, crc, count = _HEAD.unpack_from(data)
    except StructError as error:
        raise CorruptSnapshotError(f"{len(data)} bytes") from error
    if version != _VERSION:
        raise CorruptSnapshotError(f"version {version}")
    if crc32c(data[_ENTRIES_START:]) != crc:
        raise CorruptSnapshotError("it does not match its checksum")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshotError(f"{count} entries in {len(data)} bytes")
    producers = {}
    for fields in _ENTRY.iter_unpack(data[_HEAD.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, txn_first_offset = fields
        state = ProducerState(producer_id)
        state.epoch = max(epoch, NO_EPOCH)
        state.coordinator_epoch = coordinator_epoch
        state.last_timestamp = timestamp
        state.txn_first_offset = txn_first_offset
        if last_offset >= 0:
            first_sequence = (last_sequence - delta) & 0x7FFFFFFF if last_sequence >= 0 else -1
            state.add_batch(ProducedBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp))
        producers[producer_id] = state
    return producers


def write_snapshot(fs: Filesystem, path: str, producers: dict[int, ProducerState], *, sync: bool = False) -> None:
    """Write the file. A crash may leave a part of it, which its checksum tells."""
    with storage_errors(path):
        fd = fs.open(path)
        try:
            fs.truncate(fd, 0)
            write_fully(fs, fd, encode_snapshot(producers), 0)
            if sync:
                fs.fsync(fd)
        finally:
            fs.close(fd)
        if sync:
            fs.sync_folder(path.rpartition("/")[0])


def read_snapshot(fs: Filesystem, path: str) -> dict[int, ProducerState]:
    """The producers in a file; CorruptSnapshotError when it is missing or damaged."""
    with storage_errors(path):
        try:
            return decode_snapshot(read_file(fs, path))
        except FileNotFoundError as error:
            raise CorruptSnapshotError("it is missing") from error
