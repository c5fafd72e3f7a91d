"""DescribeProducers (key 61): which producers a partition's leader remembers, and whose transactions are open.

Made to find transactions that hang (KIP-664).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, int64, string


class TopicRequest(Struct):
    """Partitions of a topic."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


class DescribeProducersRequest(Request, key=61, versions="0", flexible="0+"):
    """Which producers have written to these partitions?"""

    topics: list[TopicRequest] = array(TopicRequest)


class ProducerState(Struct):
    """A producer as the partition's log knows it."""

    producer_id: int = int64()
    producer_epoch: int = int32()  # An int16 everywhere else.
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)  # -1: no transaction is open.


class PartitionResponse(Struct):
    """A partition and its producers."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    active_producers: list[ProducerState] = array(ProducerState)


class TopicResponse(Struct):
    """Partitions of a topic."""

    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


class DescribeProducersResponse(Response, key=61, versions="0", flexible="0+"):
    """The producers, partition by partition."""

    throttle_time_ms: int = int32()
    topics: list[TopicResponse] = array(TopicResponse)
