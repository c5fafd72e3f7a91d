"""ElectLeaders (key 43): elects new leaders of partitions, preferred ones or, at the price of data, unclean ones.

Versions
- 0: preferred leaders only (KIP-183).
- 1: the kind of election, and an error of the whole request (KIP-460).
- 2: flexible (KIP-482).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int8, int16, int32, string


class TopicPartitions(Struct):
    """Partitions of a topic."""

    topic: str = string()
    partitions: list[int] = array(int32)


class ElectLeadersRequest(Request, key=43, versions="0-2", flexible="2+"):
    """Elect leaders of these partitions."""

    election_type: int = int8("1+")  # 0 preferred, 1 unclean.
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+")  # Null: all of them.
    timeout_ms: int = int32(default=60000)


class PartitionResult(Struct):
    """How it went for one partition."""

    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class ReplicaElectionResult(Struct):
    """How it went in one topic."""

    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


class ElectLeadersResponse(Response, key=43, versions="0-2", flexible="2+"):
    """How it went, partition by partition."""

    throttle_time_ms: int = int32()
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
