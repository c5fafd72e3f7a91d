"""ShareGroupDescribe (key 77): describes share groups (KIP-932). Version 0 was never in a finished release."""

from kafkapy.wire.schema import Request, Response, Struct, array, boolean, int16, int32, string, struct, uuid


class ShareGroupDescribeRequest(Request, key=77, versions="1", flexible="1+"):
    """How are these groups?"""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


class TopicPartitions(Struct):
    """Partitions of a topic."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class Assignment(Struct):
    """What a member reads."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class Member(Struct):
    """A member."""

    member_id: str = string()
    rack_id: str | None = string(nullable="1+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    assignment: Assignment = struct(Assignment)


class DescribedGroup(Struct):
    """A group."""

    error_code: int = int16()
    error_message: str | None = string(nullable="1+", default=None)
    group_id: str = string()
    group_state: str = string()  # By name: Empty, Stable or Dead.
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-2147483648)  # One bit per ACL operation.


class ShareGroupDescribeResponse(Response, key=77, versions="1", flexible="1+"):
    """The groups."""

    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
