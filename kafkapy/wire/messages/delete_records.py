"""DeleteRecords (key 21): move the start of a log forward. Admin, and Streams for its repartition topics.

Versions
- 0: partitions and offsets (KIP-107).
- 1: throttled clients wait by themselves (KIP-219).
- 2: flexible (KIP-482).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, int64, string


class DeleteRecordsPartition(Struct):
    partition_index: int = int32()
    # Everything below goes; -1 is the high watermark.
    offset: int = int64()


class DeleteRecordsTopic(Struct):
    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = int32()
    # The smallest log start offset of all live replicas; -1 on an error.
    low_watermark: int = int64()
    error_code: int = int16()


class DeleteRecordsTopicResult(Struct):
    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


class DeleteRecordsRequest(Request, key=21, versions="0-2", flexible="2+"):
    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


class DeleteRecordsResponse(Response, key=21, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
