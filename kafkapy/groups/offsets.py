"""Committed offsets: the store, and the replay of its records.

Two maps. `by_group` has what is committed. `_pending` has, per producer, what an open transaction would commit: a
record of a transactional batch goes there, and the transaction's marker moves it over or throws it away. Only `replay`
and `end_transaction` change the maps; whoever wants a change writes a record.

A commit inside a transaction that began before a plain commit, but ended after it, must not win: positions in
the log decide, so each offset remembers the position of its record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from kafkapy.errors import ProtocolError
from kafkapy.types import ZERO_UUID
from kafkapy.wire.group_records import OffsetCommitValue
from kafkapy.wire.record_batch import NO_PRODUCER_ID

NO_EXPIRY = -1


class CommittedOffset(NamedTuple):
    """One committed offset; `record_offset` is where in the log it stands."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: bytes
    record_offset: int


# The value of nearly every record: version 4 without metadata and with a topic id, or version 3 without metadata. 4:
# version, offset, leader epoch, metadata (unsigned varint of length + 1: 1), timestamp, tags (one: tag 0 of 16 bytes)
# 3: version, offset, leader epoch, metadata (length 0), timestamp
_WITH_TOPIC_ID = struct.Struct(">hqiBqBBB16s")
_WITHOUT_TOPIC_ID = struct.Struct(">hqihq")
_make = CommittedOffset._make


def decode_offset(value: bytes, record_offset: int) -> CommittedOffset:
    """The value of an OffsetCommit record, of any version."""
    size = len(value)
    if size == _WITH_TOPIC_ID.size:
        version, offset, epoch, metadata_length, timestamp, tags, tag, tag_size, topic_id = _WITH_TOPIC_ID.unpack(value)
        if version == 4 and metadata_length == 1 and tags == 1 and tag == 0 and tag_size == 16:
            return _make((offset, epoch, "", timestamp, NO_EXPIRY, topic_id, record_offset))
    elif size == _WITHOUT_TOPIC_ID.size:
        version, offset, epoch, metadata_length, timestamp = _WITHOUT_TOPIC_ID.unpack(value)
        if version == 3 and metadata_length == 0:
            return _make((offset, epoch, "", timestamp, NO_EXPIRY, ZERO_UUID, record_offset))
    if size < 2:
        raise ProtocolError("a committed offset begins with its version")
    version = int.from_bytes(value[:2], "big", signed=True)
    stored = OffsetCommitValue.decoder(version)(value, 2, size)[0]
    return CommittedOffset(
        stored.offset,
        stored.leader_epoch,
        stored.metadata,
        stored.commit_timestamp,
        stored.expire_timestamp,
        stored.topic_id,
        record_offset,
    )


Partitions = dict[int, CommittedOffset]
Topics = dict[str, Partitions]


class OffsetStore:
    """The committed offsets of all groups of one shard, and those that transactions hold back."""

    __slots__ = ("_pending", "_transactions", "by_group")

    def __init__(self) -> None:
        self.by_group: dict[str, Topics] = {}
        # producer id -> group id -> topic -> partition -> offset
        self._pending: dict[int, dict[str, Topics]] = {}
        # group id -> producers with an open transaction on it
        self._transactions: dict[str, dict[int, None]] = {}

    # Questions.

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """What the group committed for the partition."""
        topics = self.by_group.get(group_id)
        partitions = topics.get(topic) if topics is not None else None
        return partitions.get(partition) if partitions is not None else None

    def has_group(self, group_id: str) -> bool:
        """Whether the group has anything here, pending commits included."""
        return group_id in self.by_group or group_id in self._transactions

    def group_ids(self) -> Iterator[str]:
        """All groups that have anything here."""
        yield from self.by_group
        for group_id in self._transactions:
            if group_id not in self.by_group:
                yield group_id

    def has_transactions(self, group_id: str) -> bool:
        """Whether a transaction holds offsets of the group back."""
        return group_id in self._transactions

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction holds an offset of this partition back."""
        producers = self._transactions.get(group_id, ())
        return any(partition in self._pending[one].get(group_id, {}).get(topic, {}) for one in producers)

    def partitions_of(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Every partition that the group committed, then those that only transactions hold."""
        committed = self.by_group.get(group_id, {})
        for topic, partitions in committed.items():
            for partition in partitions:
                yield topic, partition
        seen: set[tuple[str, int]] = set()
        for producer_id in self._transactions.get(group_id, ()):
            for topic, partitions in self._pending[producer_id].get(group_id, {}).items():
                for partition in partitions:
                    one = (topic, partition)
                    if partition not in committed.get(topic, {}) and one not in seen:
                        seen.add(one)
                        yield one

    # Replay.

    def replay(
        self,
        group_id: str,
        topic: str,
        partition: int,
        value: bytes | None,
        record_offset: int,
        producer_id: int = NO_PRODUCER_ID,
    ) -> None:
        """Take one record; a producer id means that it stands in a transaction."""
        if value is None:
            self._remove(group_id, topic, partition)
            return
        decoded = decode_offset(value, record_offset)
        groups = self.by_group
        if producer_id != NO_PRODUCER_ID:
            groups = self._pending.setdefault(producer_id, {})
            self._transactions.setdefault(group_id, {})[producer_id] = None
        topics = groups.setdefault(group_id, {})
        topics.setdefault(topic, {})[partition] = decoded

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """The producer's transaction ended: its offsets count from now on, or never did."""
        for group_id, topics in self._pending.pop(producer_id, {}).items():
            self._forget_transaction(group_id, producer_id)
            if not commit:
                continue
            for topic, partitions in topics.items():
                committed = self.by_group.setdefault(group_id, {}).setdefault(topic, {})
                for partition, pending in partitions.items():
                    current = committed.get(partition)
                    if current is None or current.record_offset < pending.record_offset:
                        committed[partition] = pending

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        _drop(self.by_group, group_id, topic, partition)
        for producer_id in list(self._transactions.get(group_id, ())):
            pending = self._pending[producer_id]
            _drop(pending, group_id, topic, partition)
            if group_id not in pending:
                self._forget_transaction(group_id, producer_id)
            if not pending:
                del self._pending[producer_id]

    def _forget_transaction(self, group_id: str, producer_id: int) -> None:
        producers = self._transactions.get(group_id)
        if producers is not None:
            producers.pop(producer_id, None)
            if not producers:
                del self._transactions[group_id]

    def snapshot(self) -> tuple[object, ...]:
        """Everything that replay built, for comparison."""
        return self.by_group, self._pending, self._transactions


def _drop(groups: dict[str, Topics], group_id: str, topic: str, partition: int) -> None:
    """Remove one partition, and the maps that it leaves empty."""
    topics = groups.get(group_id)
    if topics is None or topic not in topics:
        return
    partitions = topics[topic]
    partitions.pop(partition, None)
    if not partitions:
        del topics[topic]
        if not topics:
            del groups[group_id]
