"""DeleteShareGroupState (key 86): the group coordinator has the share coordinator forget state (KIP-932)."""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, string, uuid


class PartitionData(Struct):
    """A partition."""

    partition: int = int32()


class DeleteStateData(Struct):
    """Partitions of a topic."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class DeleteShareGroupStateRequest(Request, key=86, versions="0", flexible="0+"):
    """Forget the state of these partitions for this group."""

    group_id: str = string()
    topics: list[DeleteStateData] = array(DeleteStateData)


class PartitionResult(Struct):
    """How it went for one partition."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class DeleteStateResult(Struct):
    """How it went in one topic."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class DeleteShareGroupStateResponse(Response, key=86, versions="0", flexible="0+"):
    """How it went, partition by partition."""

    results: list[DeleteStateResult] = array(DeleteStateResult)
