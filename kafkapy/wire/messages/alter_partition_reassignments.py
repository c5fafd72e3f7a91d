"""AlterPartitionReassignments (key 45): moves partitions to other brokers, or calls a move off.

Versions
- 0: KIP-455.
- 1: the request can forbid a change of the replication factor (KIP-860).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int16, int32, string


class ReassignablePartition(Struct):
    """A partition and its new home."""

    partition_index: int = int32()
    replicas: list[int] | None = array(int32, nullable="0+", default=None)  # Null calls the move off.


class ReassignableTopic(Struct):
    """Partitions of a topic."""

    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


class AlterPartitionReassignmentsRequest(Request, key=45, versions="0-1", flexible="0+"):
    """Move these partitions."""

    timeout_ms: int = int32(default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


class ReassignablePartitionResponse(Struct):
    """How it went for one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class ReassignableTopicResponse(Struct):
    """How it went in one topic."""

    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


class AlterPartitionReassignmentsResponse(Response, key=45, versions="0-1", flexible="0+"):
    """Which moves have begun; they take as long as it takes."""

    throttle_time_ms: int = int32()
    allow_replication_factor_change: bool = boolean("1+", default=True, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)
