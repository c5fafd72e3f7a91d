"""Consumer groups (KIP-848) as `__consumer_offsets` stores them: the broker assigns, so it must remember more.

A group's state is spread over several keys, so that a heartbeat which moves one member writes little. Epochs tie them
together: the group epoch grows when the subscriptions change, the assignment epoch says for which group epoch the
target assignment was computed, and a member's epoch says how far that member has come.
"""

from kafkapy.wire.schema import Record, Struct, array, bytes_, int8, int32, int64, string, struct, uuid


class ConsumerGroupMetadataKey(Record, type=3, versions="0"):
    """A consumer group."""

    group_id: str = string()


class ConsumerGroupMetadataValue(Record, type=3, versions="0", flexible="0+"):
    """The group's epoch."""

    epoch: int = int32()
    # Of all topics that the group subscribes to: a change means a new epoch.
    metadata_hash: int = int64(tag=0, tagged="0+")


class PartitionMetadata(Struct):
    """In which racks the replicas of a partition are."""

    partition: int = int32()
    racks: list[str] = array(string)


class TopicMetadata(Struct):
    """A subscribed topic as the group last saw it."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


class ConsumerGroupPartitionMetadataKey(Record, type=4, versions="0"):
    """The topics of a group as older brokers stored them; the hash in ConsumerGroupMetadataValue has replaced it."""

    group_id: str = string()


class ConsumerGroupPartitionMetadataValue(Record, type=4, versions="0", flexible="0+"):
    """The topics that the group subscribes to."""

    topics: list[TopicMetadata] = array(TopicMetadata)


class ConsumerGroupMemberMetadataKey(Record, type=5, versions="0"):
    """What a member has told about itself."""

    group_id: str = string()
    member_id: str = string()


class ClassicProtocol(Struct):
    """An assignor that a classic client offers, with its subscription for it."""

    name: str = string()
    metadata: bytes = bytes_()


class ClassicMemberMetadata(Struct):
    """What is known of a member that speaks the classic protocol in a consumer group."""

    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


class ConsumerGroupMemberMetadataValue(Record, type=5, versions="0", flexible="0+"):
    """What a member has told about itself."""

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    # Null for a member that speaks the consumer protocol. Beware: an absent tag reads as an empty structure, not null.
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, nullable="0+", tag=0, tagged="0+"
    )


class ConsumerGroupTargetAssignmentMetadataKey(Record, type=6, versions="0"):
    """The target assignment of a group as a whole."""

    group_id: str = string()


class ConsumerGroupTargetAssignmentMetadataValue(Record, type=6, versions="0", flexible="0+"):
    """For which group epoch the target assignment was computed."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(ignorable=True, tag=0, tagged="0+")


class TopicPartition(Struct):
    """Partitions of a topic in a target assignment."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupTargetAssignmentMemberKey(Record, type=7, versions="0"):
    """The target assignment of a member."""

    group_id: str = string()
    member_id: str = string()


class ConsumerGroupTargetAssignmentMemberValue(Record, type=7, versions="0", flexible="0+"):
    """What a member shall own once everybody has given up what isn't theirs."""

    topic_partitions: list[TopicPartition] = array(TopicPartition)


class TopicPartitions(Struct):
    """Partitions of a topic that a member owns."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)
    # In which member epoch each partition was given: as long as partitions, or null where that isn't known.
    assignment_epochs: list[int] | None = array(int32, nullable="0+", tag=0, tagged="0+")


class ConsumerGroupCurrentMemberAssignmentKey(Record, type=8, versions="0"):
    """The current assignment of a member."""

    group_id: str = string()
    member_id: str = string()


class ConsumerGroupCurrentMemberAssignmentValue(Record, type=8, versions="0", flexible="0+"):
    """What a member owns now, on its way to the target."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()  # Still accepted from a member that missed the last answer.
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupRegularExpressionKey(Record, type=16, versions="0"):
    """A regular expression that members of the group subscribe to."""

    group_id: str = string()
    regular_expression: str = string()


class ConsumerGroupRegularExpressionValue(Record, type=16, versions="0", flexible="0+"):
    """Which topics matched."""

    topics: list[str] = array(string)
    version: int = int64()  # The metadata offset at which the topics were looked up.
    timestamp: int = int64()
