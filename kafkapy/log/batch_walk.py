"""Walking over the batches of a segment file by their headers, without reading what is in them.

Only four things of a header are needed to walk (see `wire/record_batch.py` for the whole layout): base offset (0), length (8), magic
(16) and last offset delta (23). A file is walked in small reads: batches of a kilobyte come many in one read, a batch of a megabyte
costs one read of its header.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from kafkapy.log.filesystem import Filesystem, read_exactly
from kafkapy.wire.crc import crc32c
from kafkapy.wire.record_batch import BATCH_HEADER, BATCH_HEADER_BYTES, CRC_START, LENGTH_END, MAGIC, BatchHeader

_LENGTH_MIN = BATCH_HEADER_BYTES - LENGTH_END
# base_offset, batch_length, partition_leader_epoch, magic, last_offset_delta, max_timestamp, producer_id
_WALKED_FIELDS = Struct(">qiib6xi8xqq")
WALK_READ_BYTES = 8 * 1024
_WHOLE_READ_BYTES = 1024 * 1024


class WalkedBatch(NamedTuple):
    """A batch by what its header says; nothing of it is verified."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    max_timestamp: int
    producer_id: int


class UnreadableBatch(Exception):
    """At this position there is no batch header, or one that reaches beyond the end of the file."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, reason)
        self.position = position
        self.reason = reason


def walk(
    fs: Filesystem, fd: int, position: int, end: int, *, read_bytes: int = WALK_READ_BYTES
) -> Iterator[WalkedBatch]:
    """The batches from `position`, which is where one begins, up to `end`.

    Raises UnreadableBatch where the headers make no sense any more, which includes a batch that is cut off by `end`.
    """
    unpack_from = _WALKED_FIELDS.unpack_from
    new = tuple.__new__
    while position < end:
        chunk = fs.pread(fd, min(read_bytes, end - position), position)
        last_start = len(chunk) - BATCH_HEADER_BYTES
        if last_start < 0:
            raise UnreadableBatch(position, f"{end - position} bytes are left, less than the header of a batch")
        at = 0
        while at <= last_start:
            base, length, epoch, magic, delta, max_timestamp, producer_id = unpack_from(chunk, at)
            size = length + LENGTH_END
            if length < _LENGTH_MIN or magic != MAGIC or delta < 0 or base < 0:
                raise UnreadableBatch(position + at, f"no batch header (length {length}, magic {magic})")
            if position + at + size > end:
                raise UnreadableBatch(position + at, f"a batch of {size} bytes is cut off after {end - position - at}")
            yield new(WalkedBatch, (position + at, size, base, base + delta, epoch, max_timestamp, producer_id))
            at += size
        position += at


def read_whole(fs: Filesystem, fd: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, bytes) of every batch from the start of a file, its checksum verified: recovery's way to read.

    Raises UnreadableBatch at the first that is not whole and sound.
    """
    buffer, start = b"", 0  # What was read, and where in the file it begins.
    position = 0
    while position < end:
        if position + BATCH_HEADER_BYTES > start + len(buffer):
            buffer, start = read_exactly(fs, fd, min(_WHOLE_READ_BYTES, end - position), position), position
            if len(buffer) < BATCH_HEADER_BYTES:
                raise UnreadableBatch(position, f"{len(buffer)} bytes are left, less than the header of a batch")
        header = BatchHeader._make(BATCH_HEADER.unpack_from(buffer, position - start))
        size = header.batch_length + LENGTH_END
        if header.batch_length < _LENGTH_MIN or header.magic != MAGIC:
            raise UnreadableBatch(position, f"no batch header (length {header.batch_length}, magic {header.magic})")
        if position + size > end:
            raise UnreadableBatch(position, f"a batch of {size} bytes is cut off after {end - position}")
        if position + size > start + len(buffer):
            buffer, start = read_exactly(fs, fd, max(size, min(_WHOLE_READ_BYTES, end - position)), position), position
        batch = memoryview(buffer)[position - start : position - start + size]
        if len(batch) < size or crc32c(batch[CRC_START:]) != header.crc:
            raise UnreadableBatch(position, "the batch does not match its checksum")
        if header.last_offset_delta < 0 or header.base_offset < 0:
            raise UnreadableBatch(position, f"impossible offsets: {header.base_offset}, {header.last_offset_delta}")
        yield position, header, batch
        position += size
