"""OffsetCommit (key 8): remember how far a group has read. Every consumer with a group, and Admin.

Versions
- 2: the client may set how long the offsets are kept.
- 3: throttle time (KIP-124).
- 4: throttled clients wait by themselves (KIP-219).
- 5: retention is the broker's business alone (KIP-211).
- 6: the leader epoch of the last read record (KIP-320).
- 7: static members (KIP-345).
- 8: flexible (KIP-482).
- 9: members of the consumer protocol, whose epoch stands in the place of the generation (KIP-848).
- 10: topic ids in place of names (KIP-848).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, int64, string, uuid


class OffsetCommitRequestPartition(Struct):
    partition_index: int = int32()
    # The next offset to read, that is one past the last one read.
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
    # Free text of the client.
    committed_metadata: str | None = string(nullable="2+")


class OffsetCommitRequestTopic(Struct):
    name: str = string("2-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


class OffsetCommitResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class OffsetCommitResponseTopic(Struct):
    name: str = string("2-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


class OffsetCommitRequest(Request, key=8, versions="2-10", flexible="8+"):
    group_id: str = string()
    # -1 with an empty member id comes from somebody outside the group: Admin, or a consumer with assigned partitions.
    generation_id_or_member_epoch: int = int32(default=-1, ignorable=True)
    member_id: str = string(ignorable=True)
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    # -1: the broker's own setting.
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


class OffsetCommitResponse(Response, key=8, versions="2-10", flexible="8+"):
    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
