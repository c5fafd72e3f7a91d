"""ShareGroupHeartbeat (key 76): with it alone a consumer joins, stays in, and leaves a share group (KIP-932).

Several members of a share group may read the same partition: each record goes to one of them. Fields that haven't
changed since the last heartbeat are null, in both directions. Version 0 was never in a finished release.
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, string, struct, uuid


class ShareGroupHeartbeatRequest(Request, key=76, versions="1", flexible="1+"):
    """I am here, and this is what changed."""

    group_id: str = string()
    member_id: str = string()  # The client draws it.
    member_epoch: int = int32()  # 0 joins, -1 leaves.
    rack_id: str | None = string(nullable="1+", default=None)
    subscribed_topic_names: list[str] | None = array(string, nullable="1+", default=None)


class TopicPartitions(Struct):
    """Partitions of a topic."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class Assignment(Struct):
    """All that the member shall read."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ShareGroupHeartbeatResponse(Response, key=76, versions="1", flexible="1+"):
    """Come back after the interval; until then read this."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="1+", default=None)
    member_id: str | None = string(nullable="1+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, nullable="1+", default=None)
