"""ReadShareGroupState (key 84): a partition's leader fetches a share group's state from the share coordinator (KIP-932)."""

from kafkapy.wire.schema import Request, Response, Struct, array, int8, int16, int32, int64, string, uuid


class PartitionData(Struct):
    """A partition; its leader's epoch keeps former leaders out."""

    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateData(Struct):
    """Partitions of a topic."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class ReadShareGroupStateRequest(Request, key=84, versions="0", flexible="0+"):
    """How far has this group come?"""

    group_id: str = string()
    topics: list[ReadStateData] = array(ReadStateData)


class StateBatch(Struct):
    """A run of offsets in the same state."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()  # 0 available, 2 acknowledged, 4 archived.
    delivery_count: int = int16()


class PartitionResult(Struct):
    """The state of a partition."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    start_offset: int = int64()  # Everything below is done with.
    state_batches: list[StateBatch] = array(StateBatch)


class ReadStateResult(Struct):
    """The state of a topic's partitions."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class ReadShareGroupStateResponse(Response, key=84, versions="0", flexible="0+"):
    """The state, partition by partition."""

    results: list[ReadStateResult] = array(ReadStateResult)
