"""ListPartitionReassignments (key 46): which partitions are moving to other brokers (KIP-455)."""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, string


class ListPartitionReassignmentsTopics(Struct):
    """Partitions of a topic."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


class ListPartitionReassignmentsRequest(Request, key=46, versions="0", flexible="0+"):
    """Which of these partitions are moving?"""

    timeout_ms: int = int32(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, nullable="0+", default=None
    )  # Null: all of them.


class OngoingPartitionReassignment(Struct):
    """A partition that is moving."""

    partition_index: int = int32()
    replicas: list[int] = array(int32)  # All that have it or will have it.
    adding_replicas: list[int] = array(int32)
    removing_replicas: list[int] = array(int32)


class OngoingTopicReassignment(Struct):
    """A topic with partitions that are moving."""

    name: str = string()
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


class ListPartitionReassignmentsResponse(Response, key=46, versions="0", flexible="0+"):
    """The partitions that are moving."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment)
