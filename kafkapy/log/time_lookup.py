"""Finding records by their time: ListOffsets with a timestamp, and the record with the largest one.

The time index leads to a batch, whose records are then opened: a batch has its largest timestamp in the header, but which record it is,
and the first at or after a time, only the records tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkapy.log.files import FileSlice
from kafkapy.log.segment import Segment
from kafkapy.wire.record_batch import read_header

if TYPE_CHECKING:
    from kafkapy.log.log import Log


class TimestampOffset(NamedTuple):
    """A record found by its time."""

    timestamp: int
    offset: int
    leader_epoch: int


def offset_for_timestamp(log: Log, timestamp: int) -> TimestampOffset | None:
    """The first record at or after a time."""
    for segment in log.segments:
        if segment.size and segment.largest_timestamp() >= timestamp:
            for batch in segment.batches_since(timestamp, log.log_start_offset):
                found = _first_record(log, segment, batch.position, batch.size, timestamp)
                if found is not None:
                    return found
    return None


def max_timestamp_offset(log: Log) -> TimestampOffset | None:
    """The first record with the largest timestamp of all."""
    with_times = [segment for segment in log.segments if segment.size and segment.largest_timestamp() >= 0]
    if not with_times:
        return None
    segment = max(with_times, key=Segment.largest_timestamp)
    for batch in segment.batches_since(segment.largest_timestamp(), log.log_start_offset):
        found = _first_record(log, segment, batch.position, batch.size, batch.max_timestamp)
        if found is not None:
            return found
    return None


def _first_record(log: Log, segment: Segment, position: int, size: int, timestamp: int) -> TimestampOffset | None:
    """The first record of a batch at or after a time, not before the log's start."""
    from kafkapy.wire.records import read_records

    data = FileSlice(segment.file, position, size, -1).read_bytes()
    header = read_header(data)
    for record in read_records(data, 0, header):
        if record.timestamp >= timestamp and record.offset >= log.log_start_offset:
            return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None
