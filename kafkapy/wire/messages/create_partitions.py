"""CreatePartitions (key 37): give topics more partitions; there is no way to fewer. Admin and tools.

Versions
- 0: the new counts (KIP-195).
- 1: throttled clients wait by themselves (KIP-219).
- 2: flexible (KIP-482).
- 3: a topic may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int16, int32, string


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = array(int32)


class CreatePartitionsTopic(Struct):
    name: str = string()
    # The total afterwards, not the number to add.
    count: int = int32()
    # One for each new partition; null leaves it to the broker.
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, nullable="0+")


class CreatePartitionsTopicResult(Struct):
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class CreatePartitionsRequest(Request, key=37, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsResponse(Response, key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
