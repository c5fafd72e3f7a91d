"""Reading an offset range of one partition from its segments, as Arrow batches. Needs numpy and pyarrow, no Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from kafkapy.errors import KafkaError
from kafkapy.log.txn_index import AbortedTxn
from kafkapy.wire.record_batch import BATCH_HEADER_BYTES, BatchHeader, check_crc, read_header
from spark_jobs.log_decode import decode, unpacked
from spark_jobs.log_folder import LogFolderError, Segment, opened, position_before, segments

# What is read at once, and what an Arrow batch is made of: small enough to stay in the processor's caches for the most part.
READ_BYTES = 2 * 1024 * 1024
# Compressed records may be many times larger; this many bytes are decoded at once at most (a single batch may be more).
_DECODE_BYTES = 8 * 1024 * 1024
_COMPRESSED_READ_BYTES = 512 * 1024
_REPLACED_TRIES = 20
_REPLACED_WAIT_S = 0.05


class OffsetRange(NamedTuple):
    """What one task reads: the records from `start` to before `end` of a partition, without those of the aborted transactions."""

    topic: str
    partition: int
    folder: str
    start: int
    end: int
    aborted: tuple[AbortedTxn, ...] = ()
    fail_on_data_loss: bool = True
    include_headers: bool = False

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def read_range(wanted: OffsetRange, read_bytes: int = READ_BYTES) -> Iterator[pa.RecordBatch]:
    """The records of the range in the order of their offsets, segment after segment."""
    offset = wanted.start
    while offset < wanted.end:
        segment, until = _segment_with(wanted, offset)
        if segment.base_offset > offset:
            offset = segment.base_offset  # only where losing data is allowed
            continue
        reached = offset
        try:
            with opened(segment) as fd:
                for position, batch in _read_segment(wanted, segment, fd, offset, read_bytes):
                    reached = position
                    if batch is not None:
                        yield batch
        except FileNotFoundError:
            time.sleep(_REPLACED_WAIT_S)  # Compaction or retention took it between the listing and the opening.
            continue
        if until is None and reached < wanted.end:
            raise LogFolderError(
                f"{wanted}: the log ends at offset {reached}, before {wanted.end} which the broker has noted as complete"
            )
        offset = max(reached, until if until is not None else wanted.end)


def _segment_with(wanted: OffsetRange, offset: int) -> tuple[Segment, int | None]:
    """The segment that holds an offset, and where the next one begins. For a moment of a compaction's swap there may be none."""
    for _ in range(_REPLACED_TRIES):
        try:
            files = segments(wanted.folder)
        except FileNotFoundError:
            raise LogFolderError(f"{wanted} was deleted while it was read") from None
        for slot in range(len(files) - 1, -1, -1):
            if files[slot].base_offset <= offset:
                return files[slot], files[slot + 1].base_offset if slot + 1 < len(files) else None
        if files and not wanted.fail_on_data_loss:
            return files[0], None
        if files:
            raise LogFolderError(
                f"{wanted}: offset {offset} is gone, the log begins at {files[0].base_offset}; retention deleted records while they "
                "were read (failOnDataLoss=false goes on without them)"
            )
        time.sleep(_REPLACED_WAIT_S)
    raise LogFolderError(f"{wanted}: no segments in {wanted.folder}")


def _read_segment(
    wanted: OffsetRange, segment: Segment, fd: int, offset: int, read_bytes: int
) -> Iterator[tuple[int, pa.RecordBatch | None]]:
    """(offset reached, records) from the batch that holds `offset` on."""
    position, size = position_before(segment, fd, offset), os.fstat(fd).st_size
    aborted = _by_producer(wanted.aborted)
    need = read_bytes
    reached = offset
    while position < size and reached < wanted.end:
        raw = os.pread(fd, need, position)
        batches, consumed, compressed = [], 0, False
        at = 0
        while len(raw) - at >= BATCH_HEADER_BYTES:
            header = _header(segment, raw, at, position)
            if header.base_offset >= wanted.end:
                reached = wanted.end
                break
            if header.size > len(raw) - at:
                break
            if compressed and at + header.size > _COMPRESSED_READ_BYTES:
                break
            if header.last_offset >= offset and _is_wanted(header, aborted):
                batches.append((at, header))
                compressed = compressed or header.codec != 0
            at += header.size
            consumed = at
            reached = max(reached, header.next_offset)
        if not consumed and reached < wanted.end:
            need = _bytes_of_next(segment, raw, position, size)
            continue
        need = read_bytes
        position += consumed
        for batch in _decoded(wanted, segment, raw, batches, offset):
            yield reached, batch
        yield reached, None


def _header(segment: Segment, raw: bytes, at: int, position: int) -> BatchHeader:
    try:
        header = read_header(raw, at)
    except KafkaError as error:
        raise LogFolderError(f"{segment.path}: no batch at position {position + at}: {error}") from None
    return header


def _bytes_of_next(segment: Segment, raw: bytes, position: int, size: int) -> int:
    """How much to read for a batch that is larger than what is usually read."""
    if len(raw) >= BATCH_HEADER_BYTES:
        need = _header(segment, raw, 0, position).size
        if need > len(raw) and position + need <= size:
            return need
    raise LogFolderError(f"{segment.path}: the batch at position {position} is cut off by the end of the file")


def _by_producer(aborted: tuple[AbortedTxn, ...]) -> dict[int, list[AbortedTxn]]:
    found: dict[int, list[AbortedTxn]] = {}
    for entry in aborted:
        found.setdefault(entry.producer_id, []).append(entry)
    return found


def _is_wanted(header: BatchHeader, aborted: dict[int, list[AbortedTxn]]) -> bool:
    """Consumers see neither markers nor, under read_committed, records of aborted transactions."""
    if header.is_control or not header.record_count:
        return False
    if not header.is_transactional or header.producer_id not in aborted:
        return True
    entries = aborted[header.producer_id]
    return not any(entry.first_offset <= header.base_offset <= entry.last_offset for entry in entries)


def _decoded(
    wanted: OffsetRange, segment: Segment, raw: bytes, batches: list[tuple[int, BatchHeader]], offset: int
) -> Iterator[pa.RecordBatch]:
    """Check, decompress and decode, a few megabytes at a time."""
    try:
        for position, header in batches:
            check_crc(raw, position, header)
        while batches:
            some, batches = _some(batches)
            data, payloads = unpacked(raw, some)
            found = decode(
                data,
                payloads,
                wanted.topic,
                wanted.partition,
                max(offset, wanted.start),
                wanted.end,
                wanted.include_headers,
            )
            if found is not None:
                yield found
    except KafkaError as error:
        raise LogFolderError(f"{segment.path}: {error}") from None


def _some(
    batches: list[tuple[int, BatchHeader]],
) -> tuple[list[tuple[int, BatchHeader]], list[tuple[int, BatchHeader]]]:
    """As many batches as are decoded at once. How large a compressed one becomes is not known; tenfold is a careful guess."""
    total = 0
    for count, (_, header) in enumerate(batches, 1):
        total += header.size * (10 if header.codec else 1)
        if total >= _DECODE_BYTES:
            return batches[:count], batches[count:]
    return batches, []
