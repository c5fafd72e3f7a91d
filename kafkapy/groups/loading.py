"""Replays a partition of `__consumer_offsets` into a shard, batch by batch.

A broker may have to read millions of commits before it can serve its groups, so the loop treats them apart: nearly all
records are OffsetCommit, and all but the last four bytes of such a key, group and topic, repeat from record to record.
They are decoded once; after that a commit is a look into one dictionary and a store into another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from kafkapy.errors import ProtocolError
from kafkapy.groups.offsets import OffsetStore, Partitions, decode_offset
from kafkapy.wire.record_batch import NO_PRODUCER_ID, BatchHeader, Buffer, read_header
from kafkapy.wire.records import Record, read_end_txn_marker, read_records

_OFFSET_COMMIT_TYPES = (b"\x00\x00", b"\x00\x01")
_PARTITION_BYTES = 4


log = logging.getLogger("kafkapy.groups")

Replay = Callable[[bytes, bytes | None, int, int], None]


class Loader:
    """Reads batches in the order of the log; `replay` takes every record that is no plain commit."""

    def __init__(self, partition: int, offsets: OffsetStore, replay: Replay) -> None:
        self._partition = partition
        self._offsets = offsets
        self._replay = replay
        self.records = 0
        self.next_offset = 0
        # Everything of a commit's key but the partition -> where that topic's offsets are kept.
        self._known: dict[bytes, Partitions] = {}

    def feed(self, data: Buffer) -> None:
        """Replay a piece of the log that holds whole batches."""
        position, size = 0, len(data)
        while position < size:
            header = read_header(data, position)
            self.records += header.record_count
            self.next_offset = header.next_offset
            if header.is_control:
                self._end_transaction(data, position, header)
            else:
                producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
                self._replay_batch(read_records(data, position, header), producer_id)
            position += header.size

    def _replay_batch(self, records: Iterator[Record], producer_id: int) -> None:
        # What transactions hold back is kept elsewhere, and is rare.
        known = self._known if producer_id == NO_PRODUCER_ID else {}
        for offset, _, key, value, _ in records:
            if key is None:
                continue
            try:
                partitions = known.get(key[:-_PARTITION_BYTES]) if value is not None else None
                if partitions is not None and value is not None:
                    partition = int.from_bytes(key[-_PARTITION_BYTES:], "big", signed=True)
                    partitions[partition] = decode_offset(value, offset)
                else:
                    self._replay_other(key, value, offset, producer_id)
            except ProtocolError as error:
                # One record that nobody can read must not keep all groups of the partition from their members.
                log.error("__consumer_offsets-%d: skipped the record at %d: %s", self._partition, offset, error)

    def _replay_other(self, key: bytes, value: bytes | None, offset: int, producer_id: int) -> None:
        if value is None:
            # The replay drops the map that the last partition leaves empty, and a remembered one would be no part of
            # the store.
            self._known.pop(key[:-_PARTITION_BYTES], None)
        self._replay(key, value, offset, producer_id)
        if value is not None and producer_id == NO_PRODUCER_ID and key[:2] in _OFFSET_COMMIT_TYPES:
            group_id, topic, _ = decode_offset_key(key)
            self._known[key[:-_PARTITION_BYTES]] = self._offsets.by_group[group_id][topic]

    def _end_transaction(self, data: Buffer, position: int, header: BatchHeader) -> None:
        for record in read_records(data, position, header):
            marker = read_end_txn_marker(record)
            if marker is not None:
                self._offsets.end_transaction(header.producer_id, commit=marker.committed)


def decode_offset_key(key: bytes) -> tuple[str, str, int]:
    """Group, topic and partition of an OffsetCommit key, whose type has been looked at."""
    try:
        topic_length_at = 4 + int.from_bytes(key[2:4], "big")
        topic_at = topic_length_at + 2
        partition_at = topic_at + int.from_bytes(key[topic_length_at:topic_at], "big")
        if len(key) != partition_at + _PARTITION_BYTES:
            raise ProtocolError("the key of a committed offset has another length than it says")
        group_id = key[4:topic_length_at].decode()
        topic = key[topic_at:partition_at].decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"the key of a committed offset is no text: {error}") from None
    return group_id, topic, int.from_bytes(key[partition_at:], "big", signed=True)
