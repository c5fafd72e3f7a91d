"""Following the log with the producers' state: the one way in which an appended or a replayed batch changes it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kafkapy.log.producer_state import ProducedBatch, ProducerTable
from kafkapy.log.segment import Segment
from kafkapy.wire.record_batch import BATCH_HEADER_BYTES, CONTROL, BatchHeader

if TYPE_CHECKING:
    from kafkapy.wire.records import EndTxnMarker

# An uncompressed batch of one marker: lengths as one-byte varints, then the key (version, type) and the value (version, coordinator epoch).
#   record length, attributes, timestamp delta, offset delta, key length, key version | type | value length | version | epoch | headers
_PLAIN_MARKER = struct.Struct(">BBBBBhhBhiB")
_PLAIN_MARKER_BATCH_BYTES = BATCH_HEADER_BYTES + _PLAIN_MARKER.size
_PLAIN_MARKER_SHAPE = (2 * 16, 0, 0, 0, 2 * 4, 0, 2 * 6, 0, 0)


def replay(
    producers: ProducerTable, segment: Segment | None, batch: memoryview | bytes | bytearray, header: BatchHeader
) -> None:
    """Apply a batch that is in the log. Its aborted transaction goes to the index of `segment`; None: it stands there already."""
    producer_id, epoch = header.producer_id, header.producer_epoch
    if producer_id < 0:
        return
    if not header.attributes & CONTROL:
        produced = ProducedBatch(
            header.base_sequence, header.last_sequence, header.base_offset, header.last_offset, header.max_timestamp
        )
        producers.add_batch(producer_id, epoch, produced, header.is_transactional)
        return
    marker = read_marker(batch, header)
    if marker is None:
        return
    completed = producers.add_marker(producer_id, epoch, marker, header.last_offset, header.max_timestamp)
    if completed is not None:
        if completed.aborted and segment is not None:
            segment.add_aborted(producers.aborted_entry(completed))
        producers.complete(completed)


def read_marker(batch: memoryview | bytes | bytearray, header: BatchHeader) -> EndTxnMarker | None:
    """The transaction marker in a control batch; None where it holds another kind of control record."""
    from kafkapy.wire.records import EndTxnMarker, read_end_txn_marker, read_records

    # Every broker writes markers in this one form, and each transaction has as many of them as partitions.
    if header.size == _PLAIN_MARKER_BATCH_BYTES and not header.codec:
        *lengths, kind, value_size, version, coordinator_epoch, headers = _PLAIN_MARKER.unpack_from(
            batch, BATCH_HEADER_BYTES
        )
        if (*lengths, value_size, version, headers) == _PLAIN_MARKER_SHAPE and 0 <= kind <= 1:
            return EndTxnMarker(bool(kind), coordinator_epoch)
    for record in read_records(batch, 0, header):
        return read_end_txn_marker(record)
    return None
