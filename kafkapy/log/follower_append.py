"""Appending what was fetched from the leader: whole batches that carry their offsets and epochs, written as they came.

Batches of one epoch that lie one after another go to the file in one write; the checksum of each is verified before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkapy.errors import ErrorCode, KafkaError, StorageError
from kafkapy.log.append_info import AppendInfo
from kafkapy.wire.record_batch import check_crc, iterate_batches

if TYPE_CHECKING:
    from kafkapy.log.log import Log
    from kafkapy.wire.record_batch import BatchHeader

# One write takes about this much.
WRITE_BYTES = 256 * 1024


def append_as_follower(
    log: Log, records: memoryview | bytes | bytearray, now_ms: int, leader_epoch: int | None = None
) -> AppendInfo:
    """Append what is whole; an incomplete tail is cut off, and so is what is of a later epoch than `leader_epoch`, the one that is followed.

    The leader sends from its file. If it has lost the leadership on the way, and its file was cut and goes on with what another leader wrote, then
    that does not continue what it has sent before.

    Raises KafkaError(CORRUPT_MESSAGE) where a checksum does not match, and OFFSET_OUT_OF_RANGE where a batch does not continue
    the log; batches before that are appended.
    """
    if log.failure is not None:
        raise log.failure
    view = memoryview(records)
    start_offset, max_timestamp, appended = log.log_end_offset, -1, 0
    run: list[tuple[int, BatchHeader]] = []  # Batches of one epoch that are not written yet.
    run_bytes, end_offset = 0, start_offset
    limit = min(WRITE_BYTES, log.config.segment_bytes)
    try:
        for position, header in iterate_batches(view):
            if leader_epoch is not None and header.partition_leader_epoch > leader_epoch:
                break
            check_crc(view, position, header)
            if header.base_offset < end_offset:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"a replicated batch begins at {header.base_offset}, before the log's end {end_offset}",
                )
            epoch = header.partition_leader_epoch
            if run and (run_bytes + header.size > limit or epoch != run[0][1].partition_leader_epoch):
                pending, run, run_bytes = run, [], 0
                _write_run(log, view, pending, now_ms)
            if not appended:
                start_offset = header.base_offset
            run.append((position, header))
            run_bytes += header.size
            end_offset = header.next_offset
            max_timestamp = max(max_timestamp, header.max_timestamp)
            appended += header.size
    finally:
        if run:
            _write_run(log, view, run, now_ms)
    last_offset = log.log_end_offset - 1
    return AppendInfo(start_offset, last_offset, -1, log.log_start_offset, max_timestamp, appended, False)


def _write_run(log: Log, view: memoryview, run: list[tuple[int, BatchHeader]], now_ms: int) -> None:
    """Write batches that lie one after another and are of one epoch, at once."""
    (start, first), (position, last) = run[0], run[-1]
    end = position + last.size
    newest = max(header.max_timestamp for _, header in run)
    epoch = first.partition_leader_epoch
    active = log.active_for(end - start, first.base_offset, last.last_offset, newest, epoch, now_ms)
    try:
        active.append_run(view[start:end], [header for _, header in run])
    except StorageError as error:
        log.append_failed(error)
        raise
    log.log_end_offset = last.next_offset
    for position, header in run:
        if header.producer_id >= 0:
            log.replay_producer(view[position : position + header.size], header)
