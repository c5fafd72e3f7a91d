"""OffsetDelete (key 47): deletes a group's committed offsets in topics that its members no longer read (KIP-496)."""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, string


class OffsetDeleteRequestPartition(Struct):
    """A partition."""

    partition_index: int = int32()


class OffsetDeleteRequestTopic(Struct):
    """Partitions of a topic."""

    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


class OffsetDeleteRequest(Request, key=47, versions="0"):
    """Forget the offsets of these partitions."""

    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


class OffsetDeleteResponsePartition(Struct):
    """How it went for one partition."""

    partition_index: int = int32()
    error_code: int = int16()


class OffsetDeleteResponseTopic(Struct):
    """How it went in one topic."""

    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


class OffsetDeleteResponse(Response, key=47, versions="0"):
    """How it went; the error at the top is about the group, and then there are no topics."""

    error_code: int = int16()
    throttle_time_ms: int = int32(ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
