"""ShareFetch (key 78): a member of a share group fetches records, which are then its own for a while (KIP-932).

The same request may acknowledge records of earlier fetches. Like Fetch it works in sessions: after the first request
only changes are named.

Versions
- 1: the first that was in a release: without version 0.
- 2: how strictly max_records is meant, and acknowledgements that ask for more time.
"""

from typing import Any

from kafkapy.wire.schema import (
    Request,
    Response,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uuid,
)


class AcknowledgementBatch(Struct):
    """What became of a run of records."""

    first_offset: int = int64()
    last_offset: int = int64()
    # 0 gap (there is no such record), 1 accept, 2 release to others, 3 reject, 4 renew (more time); one for each offset,
    # or a single one for all of them.
    acknowledge_types: list[int] = array(int8)


class FetchPartition(Struct):
    """A partition to fetch from, or whose records are acknowledged."""

    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


class FetchTopic(Struct):
    """Partitions of a topic."""

    topic_id: bytes = uuid()
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    """Partitions that leave the session."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ShareFetchRequest(Request, key=78, versions="1-2", flexible="1+"):
    """Give me records."""

    group_id: str | None = string(nullable="1+", default=None)
    member_id: str | None = string(nullable="1+")
    share_session_epoch: int = int32()  # 0 opens a session, -1 closes it, others count its requests.
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2147483647)
    max_records: int = int32()
    batch_size: int = int32()  # How many records the client wants to acknowledge together.
    share_acquire_mode: int = int8("2+", ignorable=True)  # 0 whole batches beyond max_records, 1 exactly max_records.
    is_renew_ack: bool = boolean("2+")
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic)


class LeaderIdAndEpoch(Struct):
    """The leader of a partition, where the client asked another node."""

    leader_id: int = int32()
    leader_epoch: int = int32()


class AcquiredRecords(Struct):
    """A run of records that now belongs to the member."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


class PartitionData(Struct):
    """Records of a partition, and how its acknowledgements went."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="1+", default=None)
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = string(nullable="1+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)
    records: Any = records()
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords)  # Others in the batches aren't the member's.


class ShareFetchableTopicResponse(Struct):
    """Partitions of a topic."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    """Where a leader named above can be reached."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="1+", default=None)


class ShareFetchResponse(Response, key=78, versions="1-2", flexible="1+"):
    """Records."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="1+", default=None)
    acquisition_lock_timeout_ms: int = int32()  # How long acquired records belong to the member.
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)
