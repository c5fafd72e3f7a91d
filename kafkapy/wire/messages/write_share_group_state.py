"""WriteShareGroupState (key 85): a partition's leader hands a share group's progress to the share coordinator.

Versions
- 0: KIP-932.
- 1: how many records above the start offset are done with, from which the lag is computed (KIP-1226).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int8, int16, int32, int64, string, uuid


class StateBatch(Struct):
    """A run of offsets in the same state."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()  # 0 available, 2 acknowledged, 4 archived.
    delivery_count: int = int16()


class PartitionData(Struct):
    """What changed in a partition; the epochs keep former leaders and former states out."""

    partition: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()  # -1: as it was.
    delivery_complete_count: int = int32("1+", default=-1, ignorable=True)
    state_batches: list[StateBatch] = array(StateBatch)


class WriteStateData(Struct):
    """Partitions of a topic."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class WriteShareGroupStateRequest(Request, key=85, versions="0-1", flexible="0+"):
    """This group has come this far."""

    group_id: str = string()
    topics: list[WriteStateData] = array(WriteStateData)


class PartitionResult(Struct):
    """How it went for one partition."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class WriteStateResult(Struct):
    """How it went in one topic."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class WriteShareGroupStateResponse(Response, key=85, versions="0-1", flexible="0+"):
    """How it went, partition by partition."""

    results: list[WriteStateResult] = array(WriteStateResult)
