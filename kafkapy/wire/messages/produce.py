"""Produce (key 0): append record batches. Every producer.

With acks=0 there is no response frame at all. Versions 0 to 2 are advertised, because old clients look at the minimum
to decide whether compression is available, but a request in one of them closes the connection.

Versions
- 3: record batches of magic 2, and the transactional id that authorizes a transactional write (KIP-98).
- 4: a partition may answer KAFKA_STORAGE_ERROR (KIP-112).
- 5: log start offset in the answer (KIP-107).
- 6: throttled clients wait by themselves (KIP-219).
- 7: zstd is allowed (KIP-110).
- 8: which records of a rejected batch were wrong, and why (KIP-467).
- 9: flexible (KIP-482).
- 10: the answer names the new leader, so that the client need not ask for metadata first (KIP-951).
- 11: the client understands TRANSACTION_ABORTABLE (KIP-890).
- 12: the broker adds the partition to the producer's transaction by itself (KIP-890, transaction version 2).
- 13: topic ids in place of names (KIP-516).
"""

from typing import Any

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, int64, records, string, struct, uuid


class PartitionProduceData(Struct):
    index: int = int32()
    # A memoryview of the request: one record batch exactly, which the log patches in place and writes as it is.
    records: Any = records(nullable="3+")


class TopicProduceData(Struct):
    name: str = string("3-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


class BatchIndexAndErrorMessage(Struct):
    """One record that was the reason why its batch was refused; the index counts records within the batch."""

    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class PartitionProduceResponse(Struct):
    index: int = int32()
    error_code: int = int16()
    # The offset of the batch's first record. A repeated batch gets the offset of its first appearance.
    base_offset: int = int64()
    # The broker's time with message.timestamp.type=LogAppendTime, else -1.
    log_append_time_ms: int = int64(default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+", ignorable=True)
    error_message: str | None = string("8+", nullable="8+", default=None, ignorable=True)
    # Present with NOT_LEADER_OR_FOLLOWER only, and then with the leader's address in node_endpoints.
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "10+", tag=0, tagged="10+")


class TopicProduceResponse(Struct):
    name: str = string("3-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="10+", default=None)


class ProduceRequest(Request, key=0, versions="3-13", flexible="9+"):
    transactional_id: str | None = string(nullable="3+", default=None)
    # 0: no answer; 1: when the leader has it; -1: when all in-sync replicas have it.
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


class ProduceResponse(Response, key=0, versions="3-13", flexible="9+"):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32(ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0, tagged="10+")
