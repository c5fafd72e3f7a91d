"""Share groups (KIP-932) as `__consumer_offsets` stores them: their members and who reads what.

Which record is acquired, acknowledged or archived is the share coordinator's business: see `share_records`.
"""

from kafkapy.wire.schema import Record, Struct, array, int8, int32, int64, string, uuid


class ShareGroupMemberMetadataKey(Record, type=10, versions="0"):
    """What a member has told about itself."""

    group_id: str = string()
    member_id: str = string()


class ShareGroupMemberMetadataValue(Record, type=10, versions="0", flexible="0+"):
    """What a member has told about itself."""

    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)


class ShareGroupMetadataKey(Record, type=11, versions="0"):
    """A share group."""

    group_id: str = string()


class ShareGroupMetadataValue(Record, type=11, versions="0", flexible="0+"):
    """The group's epoch."""

    epoch: int = int32()
    metadata_hash: int = int64()  # Of all topics that the group subscribes to: a change means a new epoch.


class ShareGroupTargetAssignmentMetadataKey(Record, type=12, versions="0"):
    """The target assignment of a group as a whole."""

    group_id: str = string()


class ShareGroupTargetAssignmentMetadataValue(Record, type=12, versions="0", flexible="0+"):
    """For which group epoch the target assignment was computed."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(ignorable=True, tag=0, tagged="0+")


class TopicPartition(Struct):
    """Partitions of a topic in a target assignment."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ShareGroupTargetAssignmentMemberKey(Record, type=13, versions="0"):
    """The target assignment of a member."""

    group_id: str = string()
    member_id: str = string()


class ShareGroupTargetAssignmentMemberValue(Record, type=13, versions="0", flexible="0+"):
    """What a member shall read. Several members may read the same partition."""

    topic_partitions: list[TopicPartition] = array(TopicPartition)


class TopicPartitions(Struct):
    """Partitions of a topic that a member reads now."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ShareGroupCurrentMemberAssignmentKey(Record, type=14, versions="0"):
    """The current assignment of a member."""

    group_id: str = string()
    member_id: str = string()


class ShareGroupCurrentMemberAssignmentValue(Record, type=14, versions="0", flexible="0+"):
    """What a member reads now."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)


class TopicPartitionsInfo(Struct):
    """Partitions of a topic whose share state is being made, or is there."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class TopicInfo(Struct):
    """A topic whose share state is being deleted."""

    topic_id: bytes = uuid()
    topic_name: str = string()


class ShareGroupStatePartitionMetadataKey(Record, type=15, versions="0"):
    """For which partitions the share coordinator holds state of this group."""

    group_id: str = string()


class ShareGroupStatePartitionMetadataValue(Record, type=15, versions="0", flexible="0+"):
    """For which partitions the share coordinator holds state, and what it was asked to do."""

    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: list[TopicInfo] = array(TopicInfo)
