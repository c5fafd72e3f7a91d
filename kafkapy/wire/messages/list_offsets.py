"""ListOffsets (key 2): the offset at a point in time, or at an end of the log. Consumers, Spark, Admin and lag tools.

A timestamp of 0 or more asks for the first record at or after it; the negative ones are questions of their own:
-1 the end (for read-committed the last stable offset), -2 the start, -3 the record with the greatest timestamp,
-4 the start of what is kept locally, -5 the end of what is in tiered storage, -6 the first offset not yet uploaded.
A question that its version does not know is UNSUPPORTED_VERSION on the partition. No match is offset -1 without error.

Versions
- 1: one offset per partition, found by the timestamps of records (KIP-79).
- 2: isolation level (KIP-98) and throttle time (KIP-124).
- 3: throttled clients wait by themselves (KIP-219).
- 4: leader epochs, expected and found (KIP-320).
- 5: OFFSET_NOT_AVAILABLE while a new leader's high watermark is behind (KIP-207).
- 6: flexible (KIP-482).
- 7: timestamp -3 (KIP-734).
- 8: timestamp -4 (KIP-405).
- 9: timestamp -5 (KIP-1005).
- 10: how long the broker may ask remote storage (KIP-1075).
- 11: timestamp -6 (KIP-1023).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int8, int16, int32, int64, string


class ListOffsetsPartition(Struct):
    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp: int = int64()


class ListOffsetsTopic(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    # The timestamp of the record that was found; -1 where the question was not about records.
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


class ListOffsetsRequest(Request, key=2, versions="1-11", flexible="6+"):
    # -1 for a consumer.
    replica_id: int = int32()
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+", ignorable=True)


class ListOffsetsResponse(Response, key=2, versions="1-11", flexible="6+"):
    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
