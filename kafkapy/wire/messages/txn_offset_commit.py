"""TxnOffsetCommit (key 28): offsets that count only if the transaction commits. To the group's coordinator.

Used by whoever reads, transforms and writes exactly once: Streams, Connect, any producer's sendOffsetsToTransaction.

Versions
- 0: the bare offsets (KIP-98).
- 1: throttled clients wait by themselves (KIP-219).
- 2: the leader epoch of the last read record (KIP-320).
- 3: flexible (KIP-482); the member and its generation, so that one that is no longer in the group is fenced (KIP-447).
- 4: the client understands TRANSACTION_ABORTABLE (KIP-890).
- 5: the broker adds the group's partition to the transaction by itself (KIP-890, transaction version 2).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, int64, string


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    committed_metadata: str | None = string(nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    name: str = string()
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class TxnOffsetCommitResponseTopic(Struct):
    name: str = string()
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


class TxnOffsetCommitRequest(Request, key=28, versions="0-5", flexible="3+"):
    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    # -1 and an empty member id: the group is not checked.
    generation_id: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


class TxnOffsetCommitResponse(Response, key=28, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)
