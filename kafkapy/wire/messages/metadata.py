"""Metadata (key 3): brokers, topics, leaders. Every client, at the start and whenever something is not where it was.

The answer is made for the listener that the request came in on. Naming a topic may create it.

Versions
- 0: an empty list of topics means all of them.
- 1: null means all and empty means none; rack, controller and the internal mark.
- 2: cluster id (KIP-78).
- 3: throttle time (KIP-124).
- 4: the client says whether naming a topic may create it; below, it may.
- 5: replicas on a failed log directory (KIP-112).
- 6: throttled clients wait by themselves (KIP-219).
- 7: leader epochs (KIP-320). A broker that returns them must answer OffsetForLeaderEpoch properly.
- 8: authorized operations on request (KIP-430).
- 9: flexible (KIP-482).
- 10: topic ids in the answer (KIP-516). They must be stable and never zero.
- 11: the cluster's authorized operations have moved to DescribeCluster (KIP-700).
- 12: a topic may be asked for by its id alone (KIP-516).
- 13: an error code for the whole answer, which may tell the client to bootstrap again (KIP-1102).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int16, int32, string, uuid

#: What authorized operations are when the client did not ask for them: not an empty set but "not known".
OPERATIONS_NOT_REQUESTED = -(2**31)


class MetadataRequestTopic(Struct):
    topic_id: bytes = uuid("10+", ignorable=True)
    # Null from version 12 on when the topic is asked for by id.
    name: str | None = string(nullable="10+")


class MetadataResponseBroker(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable="1+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    # -1 only together with an error.
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1, ignorable=True)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, "5+", ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: int = int16()
    # Null when an id was asked for that nobody knows.
    name: str | None = string(nullable="12+")
    topic_id: bytes = uuid("10+", ignorable=True)
    is_internal: bool = boolean("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    # A bit set: bit n stands for the AclOperation of code n.
    topic_authorized_operations: int = int32("8+", default=OPERATIONS_NOT_REQUESTED)


class MetadataRequest(Request, key=3, versions="0-13", flexible="9+"):
    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


class MetadataResponse(Response, key=3, versions="0-13", flexible="9+"):
    throttle_time_ms: int = int32("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    # 22 characters of URL-safe base64 in every real cluster.
    cluster_id: str | None = string("2+", nullable="2+", default=None, ignorable=True)
    # With KRaft any live broker, since each of them forwards to the real controller.
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32("8-10", default=OPERATIONS_NOT_REQUESTED)
    error_code: int = int16("13+", ignorable=True)
