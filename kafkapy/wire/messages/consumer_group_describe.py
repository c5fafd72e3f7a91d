"""ConsumerGroupDescribe (key 69): describes consumer groups; classic groups are described by DescribeGroups.

Versions
- 0: KIP-848.
- 1: whether a member speaks the classic or the consumer protocol (KIP-1099).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int8, int16, int32, string, struct, uuid


class ConsumerGroupDescribeRequest(Request, key=69, versions="0-1", flexible="0+"):
    """How are these groups?"""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


class TopicPartitions(Struct):
    """Partitions of a topic."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class Assignment(Struct):
    """What a member owns or shall own."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class Member(Struct):
    """A member."""

    member_id: str = string()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    assignment: Assignment = struct(Assignment)
    target_assignment: Assignment = struct(Assignment)
    member_type: int = int8("1+", default=-1, ignorable=True)  # -1 unknown, 0 classic, 1 consumer.


class DescribedGroup(Struct):
    """A group."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()  # By name: Empty, Assigning, Reconciling, Stable or Dead.
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-2147483648)  # One bit per ACL operation.


class ConsumerGroupDescribeResponse(Response, key=69, versions="0-1", flexible="0+"):
    """The groups."""

    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
