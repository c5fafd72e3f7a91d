"""ShareAcknowledge (key 79): a member of a share group says what became of records, without fetching more (KIP-932).

Versions
- 1: the first that was in a release: without version 0.
- 2: acknowledgements that ask for more time.
"""

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


class AcknowledgePartition(Struct):
    """A partition."""

    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


class AcknowledgeTopic(Struct):
    """Partitions of a topic."""

    topic_id: bytes = uuid()
    partitions: list[AcknowledgePartition] = array(AcknowledgePartition)


class ShareAcknowledgeRequest(Request, key=79, versions="1-2", flexible="1+"):
    """This became of the records."""

    group_id: str | None = string(nullable="1+", default=None)
    member_id: str | None = string(nullable="1+")
    share_session_epoch: int = int32()  # Counts the requests of the session, together with ShareFetch; -1 closes it.
    is_renew_ack: bool = boolean("2+")
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic)


class LeaderIdAndEpoch(Struct):
    """The leader of a partition, where the client asked another node."""

    leader_id: int = int32()
    leader_epoch: int = int32()


class PartitionData(Struct):
    """How it went for one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="1+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)


class ShareAcknowledgeTopicResponse(Struct):
    """How it went in one topic."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    """Where a leader named above can be reached."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="1+", default=None)


class ShareAcknowledgeResponse(Response, key=79, versions="1-2", flexible="1+"):
    """How it went, partition by partition."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="1+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)
