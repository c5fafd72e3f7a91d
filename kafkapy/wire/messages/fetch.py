"""Fetch (key 1): read record batches. Every consumer, and every replica that follows a leader.

The broker holds a request back until min_bytes are there or max_wait_ms are over; an error on any partition is
answered at once. The first partition with data yields at least one whole batch, whatever the limits say.

Versions
- 4: record batches of magic 2; isolation level, last stable offset and aborted transactions (KIP-98).
- 5: log start offset, of the follower in the request and of the leader in the answer (KIP-107).
- 6: a partition may answer KAFKA_STORAGE_ERROR (KIP-112).
- 7: fetch sessions: only what changed is sent again (KIP-227).
- 8: throttled clients wait by themselves (KIP-219).
- 9: the client says which leader epoch it believes in (KIP-320).
- 10: zstd is allowed (KIP-110).
- 11: the client's rack, and a closer replica to read from (KIP-392).
- 12: flexible (KIP-482); logs that have diverged are found by the epoch of the last fetched record (KIP-595).
- 13: topic ids in place of names (KIP-516).
- 14: a partition may answer OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405).
- 15: a follower says its broker epoch too (KIP-903).
- 16: the answer carries the addresses of new leaders (KIP-951).
- 17: the directory id of a follower of the metadata log (KIP-853).
- 18: the high watermark that a follower of the metadata log knows (KIP-1166).
"""

from typing import Any

from kafkapy.wire.schema import (
    Request,
    Response,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uuid,
)


class ReplicaState(Struct):
    # -1 is a consumer.
    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


class FetchPartition(Struct):
    partition: int = int32()
    # The leader epoch of the client's metadata: older is FENCED_LEADER_EPOCH, newer UNKNOWN_LEADER_EPOCH, -1 unchecked.
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
    fetch_offset: int = int64()
    # The epoch of the record just before fetch_offset, by which the leader sees that the logs part ways; -1 unchecked.
    last_fetched_epoch: int = int32("12+", default=-1)
    # Followers only; -1 from a consumer.
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid("17+", tag=0, tagged="17+", ignorable=True)
    high_watermark: int = int64("18+", tag=1, tagged="18+", default=2**63 - 1, ignorable=True)


class FetchTopic(Struct):
    topic: str = string("4-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    """Partitions that leave an incremental fetch session."""

    topic: str = string("7-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[int] = array(int32)


class EpochEndOffset(Struct):
    """The last epoch at or below the asked one that the leader knows, and where it ended."""

    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class SnapshotId(Struct):
    """The snapshot that a follower of the metadata log must load first; never in an answer to a consumer."""

    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class AbortedTransaction(Struct):
    """The records of this producer from first_offset up to its abort marker are to be skipped."""

    producer_id: int = int64()
    first_offset: int = int64()


class PartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    # This and the two after it are -1 on an error.
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = struct(EpochEndOffset, "12+", tag=0, tagged="12+")
    # With NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH only.
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "12+", tag=1, tagged="12+")
    snapshot_id: SnapshotId = struct(SnapshotId, "12+", tag=2, tagged="12+")
    # Null for read-uncommitted; for read-committed all that overlap the returned records, by first_offset.
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, nullable="4+", ignorable=True)
    # When it is set, no records are: the client shall ask that replica.
    preferred_read_replica: int = int32("11+", default=-1)
    # Whole batches: bytes, or a slice of a segment file that never passes through the process.
    records: Any = records(nullable="4+")


class FetchableTopicResponse(Struct):
    topic: str = string("4-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="16+", default=None)


class FetchRequest(Request, key=1, versions="4-18", flexible="12+"):
    cluster_id: str | None = string("12+", nullable="12+", tag=0, tagged="12+", default=None, ignorable=True)
    # -1 is a consumer; from version 15 on replica_state says it.
    replica_id: int = int32("4-14", default=-1)
    replica_state: ReplicaState = struct(ReplicaState, "15+", tag=1, tagged="15+")
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2**31 - 1, ignorable=True)
    # 0: up to the high watermark; 1: up to the last stable offset, with the list of aborted transactions.
    isolation_level: int = int8(ignorable=True)
    # Session 0 with epoch -1 is no session; epoch 0 opens one, above 0 continues it, -1 with an id closes it.
    session_id: int = int32("7+", ignorable=True)
    session_epoch: int = int32("7+", default=-1, ignorable=True)
    # The order counts: the earlier partitions are served first.
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+", ignorable=True)


class FetchResponse(Response, key=1, versions="4-18", flexible="12+"):
    throttle_time_ms: int = int32(ignorable=True)
    # Errors of the session; those of a partition stand with the partition.
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0, tagged="16+")
