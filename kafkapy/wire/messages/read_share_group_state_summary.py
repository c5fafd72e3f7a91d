"""ReadShareGroupStateSummary (key 87): as ReadShareGroupState, without the batches: for those who only want offsets.

Versions
- 0: KIP-932.
- 1: how many records above the start offset are done with, from which the lag is computed (KIP-1226).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, int64, string, uuid


class PartitionData(Struct):
    """A partition; its leader's epoch keeps former leaders out."""

    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateSummaryData(Struct):
    """Partitions of a topic."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class ReadShareGroupStateSummaryRequest(Request, key=87, versions="0-1", flexible="0+"):
    """At which offsets is this group?"""

    group_id: str = string()
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData)


class PartitionResult(Struct):
    """Where the group is in a partition."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()  # Everything below is done with.
    delivery_complete_count: int = int32("1+", default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    """Where the group is in a topic."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class ReadShareGroupStateSummaryResponse(Response, key=87, versions="0-1", flexible="0+"):
    """Where the group is, partition by partition."""

    results: list[ReadStateSummaryResult] = array(ReadStateSummaryResult)
