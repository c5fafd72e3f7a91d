"""How far share groups have come, as `__share_group_state` stores it (KIP-932).

A snapshot holds the whole state of one partition for one group; updates follow it with what changed since, until the
next snapshot. Offsets below the start offset are done with; above it, batches say which records are in which state.
"""

from kafkapy.wire.schema import Record, Struct, array, int8, int16, int32, int64, string, uuid


class StateBatch(Struct):
    """A run of offsets in the same state."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()  # 0 available, 2 acknowledged, 4 archived; 1, acquired, is never stored.
    delivery_count: int = int16()


class ShareSnapshotKey(Record, type=0, versions="0"):
    """The state of a partition for a share group."""

    group_id: str = string()
    topic_id: bytes = uuid()
    partition: int = int32()


class ShareSnapshotValue(Record, type=0, versions="0", flexible="0+"):
    """The whole state of a partition for a share group."""

    snapshot_epoch: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0, tagged="0+")
    create_timestamp: int = int64()
    write_timestamp: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


class ShareUpdateKey(Record, type=1, versions="0"):
    """A change to the state of a partition for a share group."""

    group_id: str = string()
    topic_id: bytes = uuid()
    partition: int = int32()


class ShareUpdateValue(Record, type=1, versions="0", flexible="0+"):
    """A change to the state of a partition since its snapshot of the same epoch."""

    snapshot_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0, tagged="0+")
    state_batches: list[StateBatch] = array(StateBatch)
