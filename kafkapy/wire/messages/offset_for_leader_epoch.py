"""OffsetForLeaderEpoch (key 23): where an epoch of leadership ended in the leader's log.

A consumer asks after a change of leader whether its position still exists (Java, librdkafka with version 2 exactly,
franz-go). A follower asked the same before version 12 of Fetch brought the answer by itself.

Versions
- 2: the epoch the client believes is current, and throttle time (KIP-320).
- 3: the asker says whether it is a consumer or which follower it is.
- 4: flexible (KIP-482).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, int64, string


class OffsetForLeaderPartition(Struct):
    partition: int = int32()
    # Checked as in Fetch; -1 is unchecked.
    current_leader_epoch: int = int32(default=-1, ignorable=True)
    leader_epoch: int = int32()


class OffsetForLeaderTopic(Struct):
    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


class EpochEndOffset(Struct):
    # Here the error stands before the partition.
    error_code: int = int16()
    partition: int = int32()
    # The greatest known epoch not above the asked one, and the offset after its last record; -1 where there is none.
    leader_epoch: int = int32(default=-1, ignorable=True)
    end_offset: int = int64(default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


class OffsetForLeaderEpochRequest(Request, key=23, versions="2-4", flexible="4+"):
    # -1 is a consumer; -2, which an older version amounts to, may also see what is above the high watermark.
    replica_id: int = int32("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


class OffsetForLeaderEpochResponse(Response, key=23, versions="2-4", flexible="4+"):
    throttle_time_ms: int = int32(ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
