"""DescribeLogDirs (key 35): this broker's log directories, their space and the size of each replica. Admin, UIs.

Versions
- 1: throttled clients wait by themselves (KIP-219); the request itself is KIP-113.
- 2: flexible (KIP-482).
- 3: an error for the whole answer.
- 4: total and usable bytes of the volume (KIP-827).
- 5: whether a directory is cordoned, that is takes no new replicas (KIP-1066).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int16, int32, int64, string


class DescribableLogDirTopic(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class DescribeLogDirsPartition(Struct):
    partition_index: int = int32()
    partition_size: int = int64()
    # How far the log is behind: a current replica behind the high watermark, a future one behind the current.
    offset_lag: int = int64()
    # A replica on its way into this directory.
    is_future_key: bool = boolean()


class DescribeLogDirsTopic(Struct):
    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


class DescribeLogDirsResult(Struct):
    # KAFKA_STORAGE_ERROR for a directory that has failed.
    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    # Of the volume the directory is on; -1 when unknown.
    total_bytes: int = int64("4+", default=-1, ignorable=True)
    usable_bytes: int = int64("4+", default=-1, ignorable=True)
    is_cordoned: bool = boolean("5+", ignorable=True)


class DescribeLogDirsRequest(Request, key=35, versions="1-5", flexible="2+"):
    # Null asks for all.
    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="1+")


class DescribeLogDirsResponse(Response, key=35, versions="1-5", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)
