"""OffsetFetch (key 9): how far a group has read. Every consumer with a group at its start, Admin, lag tools.

A partition without a committed offset is answered with -1 and no error. Up to version 7 the request is about one
group and uses the plain fields; from version 8 on it is about many and uses `groups`.

Versions
- 1: offsets kept by the broker itself.
- 2: null topics ask for all of the group's; an error for the whole answer.
- 3: throttle time (KIP-124).
- 4: throttled clients wait by themselves (KIP-219).
- 5: leader epochs (KIP-320).
- 6: flexible (KIP-482).
- 7: require_stable: do not answer while a transaction that commits offsets is open (KIP-447).
- 8: many groups in one request (KIP-709).
- 9: member id and epoch, so that the coordinator can refuse a fenced member (KIP-848).
- 10: topic ids in place of names (KIP-848).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int16, int32, int64, string, uuid


class OffsetFetchRequestTopic(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32)


class OffsetFetchRequestTopics(Struct):
    name: str = string("8-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partition_indexes: list[int] = array(int32)


class OffsetFetchRequestGroup(Struct):
    group_id: str = string()
    # Null and -1 from somebody outside the group.
    member_id: str | None = string("9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = int32("9+", default=-1, ignorable=True)
    # Null asks for all.
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, nullable="8+")


class OffsetFetchResponsePartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("5-7", default=-1, ignorable=True)
    metadata: str | None = string(nullable="1-7")
    error_code: int = int16()


class OffsetFetchResponseTopic(Struct):
    name: str = string()
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition)


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1, ignorable=True)
    metadata: str | None = string(nullable="8+")
    error_code: int = int16()


class OffsetFetchResponseTopics(Struct):
    name: str = string("8-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions)


class OffsetFetchResponseGroup(Struct):
    group_id: str = string()
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics)
    error_code: int = int16()


class OffsetFetchRequest(Request, key=9, versions="1-10", flexible="6+"):
    group_id: str = string("1-7")
    # Null asks for all.
    topics: list[OffsetFetchRequestTopic] | None = array(OffsetFetchRequestTopic, "1-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = boolean("7+")


class OffsetFetchResponse(Response, key=9, versions="1-10", flexible="6+"):
    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "1-7")
    error_code: int = int16("2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+")
