"""Streams groups (KIP-1071) as `__consumer_offsets` stores them: the broker assigns tasks of a topology.

A task is a partition of a subtopology: active where it is processed, standby where its state is kept warm for a
failover, warm-up where its state is being copied before the task moves.
"""

from kafkapy.wire.schema import Record, Struct, array, int8, int16, int32, int64, string, struct, uint16


class LastAssignmentConfig(Struct):
    """A setting of the assignor."""

    key: str = string()
    value: str = string()


class StreamsGroupMetadataKey(Record, type=17, versions="0"):
    """A streams group."""

    group_id: str = string()


class StreamsGroupMetadataValue(Record, type=17, versions="0", flexible="0+"):
    """The group's epoch, and what the last assignment was computed with."""

    epoch: int = int32()
    metadata_hash: int = int64()  # Of all topics of the topology: a change means a new epoch.
    validated_topology_epoch: int = int32(default=-1, tag=0, tagged="0+")
    last_assignment_configs: list[LastAssignmentConfig] | None = array(
        LastAssignmentConfig, nullable="0+", tag=1, tagged="0+"
    )


class Endpoint(Struct):
    """Where an instance of the application can be asked for its state."""

    host: str = string()
    port: int = uint16()


class KeyValue(Struct):
    """A tag of a client, such as its zone."""

    key: str = string()
    value: str = string()


class StreamsGroupMemberMetadataKey(Record, type=19, versions="0"):
    """What a member has told about itself."""

    group_id: str = string()
    member_id: str = string()


class StreamsGroupMemberMetadataValue(Record, type=19, versions="0", flexible="0+"):
    """What a member has told about itself."""

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()  # Members of one process share their local state.
    user_endpoint: Endpoint | None = struct(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue)


class StreamsGroupTargetAssignmentMetadataKey(Record, type=20, versions="0"):
    """The target assignment of a group as a whole."""

    group_id: str = string()


class StreamsGroupTargetAssignmentMetadataValue(Record, type=20, versions="0", flexible="0+"):
    """For which group epoch the target assignment was computed."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(ignorable=True, tag=0, tagged="0+")


class TargetTaskIds(Struct):
    """Tasks of a subtopology in a target assignment."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)


class StreamsGroupTargetAssignmentMemberKey(Record, type=21, versions="0"):
    """The target assignment of a member."""

    group_id: str = string()
    member_id: str = string()


class StreamsGroupTargetAssignmentMemberValue(Record, type=21, versions="0", flexible="0+"):
    """Which tasks a member shall have."""

    active_tasks: list[TargetTaskIds] = array(TargetTaskIds)
    standby_tasks: list[TargetTaskIds] = array(TargetTaskIds)
    warmup_tasks: list[TargetTaskIds] = array(TargetTaskIds)


class CurrentTaskIds(Struct):
    """Tasks of a subtopology that a member has."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)
    # In which member epoch each task was given: as long as partitions, or null where that isn't known.
    assignment_epochs: list[int] | None = array(int32, nullable="0+", tag=0, tagged="0+")


class StreamsGroupCurrentMemberAssignmentKey(Record, type=22, versions="0"):
    """The current assignment of a member."""

    group_id: str = string()
    member_id: str = string()


class StreamsGroupCurrentMemberAssignmentValue(Record, type=22, versions="0", flexible="0+"):
    """Which tasks a member has now, on its way to the target."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    standby_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    warmup_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    active_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)
    standby_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)
    warmup_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)


class TopicConfig(Struct):
    """A configuration value of an internal topic."""

    key: str = string()
    value: str = string()


class TopicInfo(Struct):
    """An internal topic of the application."""

    name: str = string()
    partitions: int = int32()  # 0: as many as its sources need.
    replication_factor: int = int16()  # 0: the broker's default.
    topic_configs: list[TopicConfig] = array(TopicConfig)


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


class StreamsGroupTopologyKey(Record, type=23, versions="0"):
    """The topology of a streams group."""

    group_id: str = string()


class StreamsGroupTopologyValue(Record, type=23, versions="0", flexible="0+"):
    """The topology of a streams group."""

    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)
