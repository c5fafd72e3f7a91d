"""CreateTopics (key 19): Admin, Streams, Connect, schema registries. Any broker takes it; the controller decides.

Versions
- 2: throttle time (KIP-124); validate_only and error messages are older.
- 3: throttled clients wait by themselves (KIP-219).
- 4: -1 partitions or replicas means the broker's default (KIP-464).
- 5: flexible (KIP-482); the answer carries the topic's settings (KIP-525).
- 6: a topic may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
- 7: the id of the new topic (KIP-516).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int8, int16, int32, string, uuid


class CreatableReplicaAssignment(Struct):
    partition_index: int = int32()
    # The first one is the preferred leader.
    broker_ids: list[int] = array(int32)


class CreatableTopicConfig(Struct):
    name: str = string()
    value: str | None = string(nullable="2+")


class CreatableTopic(Struct):
    name: str = string()
    # Both are -1 when assignments are given, or when the broker's defaults shall hold.
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


class CreatableTopicConfigs(Struct):
    """One effective setting of the new topic, in the shape that DescribeConfigs uses."""

    name: str = string()
    # Null for a sensitive value.
    value: str | None = string(nullable="5+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1, ignorable=True)
    is_sensitive: bool = boolean()


class CreatableTopicResult(Struct):
    name: str = string()
    topic_id: bytes = uuid("7+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable="2+", ignorable=True)
    # TOPIC_AUTHORIZATION_FAILED when the client may create the topic but not see its settings; then the three fields
    # after it are left at -1 and null.
    topic_config_error_code: int = int16("5+", tag=0, tagged="5+", ignorable=True)
    num_partitions: int = int32("5+", default=-1, ignorable=True)
    replication_factor: int = int16("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, "5+", nullable="5+", ignorable=True)


class CreateTopicsRequest(Request, key=19, versions="2-7", flexible="5+"):
    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean()


class CreateTopicsResponse(Response, key=19, versions="2-7", flexible="5+"):
    throttle_time_ms: int = int32(ignorable=True)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)
