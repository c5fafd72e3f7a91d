"""InitializeShareGroupState (key 83): the group coordinator has the share coordinator begin to keep state (KIP-932)."""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, int64, string, uuid


class PartitionData(Struct):
    """A partition and where the group shall begin in it."""

    partition: int = int32()
    state_epoch: int = int32()
    start_offset: int = int64()  # -1: decided by the group's configuration when it first reads.


class InitializeStateData(Struct):
    """Partitions of a topic."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class InitializeShareGroupStateRequest(Request, key=83, versions="0", flexible="0+"):
    """Keep the state of these partitions for this group."""

    group_id: str = string()
    topics: list[InitializeStateData] = array(InitializeStateData)


class PartitionResult(Struct):
    """How it went for one partition."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class InitializeStateResult(Struct):
    """How it went in one topic."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class InitializeShareGroupStateResponse(Response, key=83, versions="0", flexible="0+"):
    """How it went, partition by partition."""

    results: list[InitializeStateResult] = array(InitializeStateResult)
