"""StreamsGroupHeartbeat (key 88): with it alone a Kafka Streams client joins, stays in, and leaves its group (KIP-1071).

The first member that comes brings the topology; the coordinator assigns tasks. Fields that haven't changed since the
last heartbeat are null (or -1), in both directions.
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
    uint16,
)


class KeyValue(Struct):
    """A tag of a client, or a configuration value of a topic."""

    key: str = string()
    value: str = string()


class TopicInfo(Struct):
    """An internal topic that the group needs."""

    name: str = string()
    partitions: int = int32()  # 0: as many as its sources need.
    replication_factor: int = int16()  # 0: the broker's default.
    topic_configs: list[KeyValue] = array(KeyValue)


class CopartitionGroup(Struct):
    """Topics that must have equally many partitions, as indexes into the subtopology's lists of the same names."""

    source_topics: list[int] = array(int16)
    source_topic_regex: list[int] = array(int16)
    repartition_source_topics: list[int] = array(int16)


class Subtopology(Struct):
    """A connected part of the topology: its tasks are processed together."""

    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    source_topic_regex: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array(string)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


class Topology(Struct):
    """What the application does; the epoch grows when it is changed."""

    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)


class TaskIds(Struct):
    """Tasks of a subtopology: one for each partition number."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)


class Endpoint(Struct):
    """Where an instance of the application can be asked for its state."""

    host: str = string()
    port: int = uint16()


class TaskOffset(Struct):
    """How far a task's state has come, in all its changelogs together."""

    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


class StreamsGroupHeartbeatRequest(Request, key=88, versions="0", flexible="0+"):
    """I am here, and this is what changed."""

    group_id: str = string()
    member_id: str = string()  # The client draws it.
    member_epoch: int = int32()  # 0 joins, -1 leaves for good, -2 leaves as a static member that comes back.
    endpoint_information_epoch: int = int32()  # Of the endpoints that the member knows.
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    topology: Topology | None = struct(Topology, nullable="0+", default=None)
    active_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    process_id: str | None = string(nullable="0+", default=None)  # Members of one process share their local state.
    user_endpoint: Endpoint | None = struct(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] | None = array(KeyValue, nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = array(TaskOffset, nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = array(TaskOffset, nullable="0+", default=None)
    shutdown_application: bool = boolean()  # All members shall stop.


class Status(Struct):
    """Something that keeps the group from working."""

    status_code: int = int8()
    status_detail: str = string()


class TopicPartition(Struct):
    """Partitions of a topic."""

    topic: str = string()
    partitions: list[int] = array(int32)


class EndpointToPartitions(Struct):
    """Whose state an instance holds."""

    user_endpoint: Endpoint = struct(Endpoint)
    active_partitions: list[TopicPartition] = array(TopicPartition)
    standby_partitions: list[TopicPartition] = array(TopicPartition)


class StreamsGroupHeartbeatResponse(Response, key=88, versions="0", flexible="0+"):
    """Come back after the interval; until then these tasks are yours."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str = string()
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    acceptable_recovery_lag: int = int32()  # How far a warm-up task may lag when the task moves there.
    task_offset_interval_ms: int = int32()  # How often the member shall tell its task offsets.
    status: list[Status] | None = array(Status, nullable="0+")
    active_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    endpoint_information_epoch: int = int32()
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = array(
        EndpointToPartitions, nullable="0+", default=None
    )
