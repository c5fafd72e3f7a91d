"""ConsumerGroupHeartbeat (key 68): with it alone a consumer joins, stays in, and leaves a consumer group (KIP-848).

Consumers say what they want to read and what they own; the coordinator assigns. Fields that haven't changed since the
last heartbeat are null (or -1), in both directions.

Versions
- 0: KIP-848.
- 1: subscriptions by regular expression (KIP-848); the client draws its own member id (KIP-1082).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int16, int32, string, struct, uuid


class TopicPartitions(Struct):
    """Partitions of a topic."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupHeartbeatRequest(Request, key=68, versions="0-1", flexible="0+"):
    """I am here, and this is what changed."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()  # 0 joins, -1 leaves for good, -2 leaves as a static member that comes back.
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string, nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+", default=None)  # Owned.


class Assignment(Struct):
    """All that the member shall own."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupHeartbeatResponse(Response, key=68, versions="0-1", flexible="0+"):
    """Come back after the interval; until then this is yours."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, nullable="0+", default=None)
