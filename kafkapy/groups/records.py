"""The records of `__consumer_offsets` that this coordinator writes, as keys and values ready for a batch.

Their layout is declared in wire/group_records.py and wire/consumer_group_records.py. The version of each value is the
one that Apache Kafka 4.3 writes, so either broker can take over the other's log.
"""

from __future__ import annotations

import struct

from kafkapy.coordination import Record
from kafkapy.groups.classic_group import ClassicGroup
from kafkapy.types import ZERO_UUID
from kafkapy.wire.group_records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from kafkapy.wire.record_framing import encode_key, encode_value

GROUP_METADATA_VERSION = 3

# Of OffsetCommitValue: with an expiry of its own, without, with the topic id.
_EXPIRING_VERSION = 1
_PLAIN_VERSION = 3
_TOPIC_ID_VERSION = 4

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_OFFSET_COMMIT_TYPE = _INT16.pack(OffsetCommitKey.SCHEMA.type)


def group_metadata_record(group: ClassicGroup, assignments: dict[str, bytes]) -> Record:
    """A classic group with its members and what each of them is assigned."""
    value = group.as_value(assignments)
    return encode_key(GroupMetadataKey(group=group.group_id)), encode_value(value, GROUP_METADATA_VERSION)


def group_tombstone(group_id: str) -> Record:
    """A classic group is gone."""
    return encode_key(GroupMetadataKey(group=group_id)), None


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """The key of a committed offset, put together by hand: this is written once per partition and commit."""
    group, name = group_id.encode(), topic.encode()
    return b"".join(
        (_OFFSET_COMMIT_TYPE, _INT16.pack(len(group)), group, _INT16.pack(len(name)), name, _INT32.pack(partition))
    )


def offset_record(
    group_id: str,
    topic: str,
    partition: int,
    *,
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int = -1,
    topic_id: bytes = ZERO_UUID,
) -> Record:
    """A committed offset. An expiry of its own, which old clients ask for, has room in one old version only."""
    value = OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp=commit_timestamp_ms,
        expire_timestamp=expire_timestamp_ms,
        topic_id=topic_id,
    )
    if expire_timestamp_ms >= 0:
        version = _EXPIRING_VERSION
    elif topic_id != ZERO_UUID:
        version = _TOPIC_ID_VERSION
    else:
        version = _PLAIN_VERSION
    return offset_key(group_id, topic, partition), encode_value(value, version)


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """A committed offset is gone."""
    return offset_key(group_id, topic, partition), None
