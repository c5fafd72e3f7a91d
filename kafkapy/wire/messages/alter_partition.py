"""AlterPartition (key 56): a partition's leader asks the controller to change the in-sync replicas.

Versions
- 2: topic ids (KIP-841). Versions 0 and 1 are gone since Kafka 4.0.
- 3: each in-sync replica with its broker epoch, so that a restarted broker isn't taken for its former self (KIP-903).
"""

from kafkapy.wire.schema import Request, Response, Struct, array, int8, int16, int32, int64, uuid


class BrokerState(Struct):
    """An in-sync replica."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)  # -1: not known.


class RequestPartition(Struct):
    """What shall be, and the epochs that say on what it is based."""

    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array(int32, "2")
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
    leader_recovery_state: int = int8()  # 0 recovered, 1 recovering from an unclean election.
    partition_epoch: int = int32()


class RequestTopic(Struct):
    """Partitions of a topic."""

    topic_id: bytes = uuid(ignorable=True)
    partitions: list[RequestPartition] = array(RequestPartition)


class AlterPartitionRequest(Request, key=56, versions="2-3", flexible="2+"):
    """Change the in-sync replicas of these partitions."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[RequestTopic] = array(RequestTopic)


class ResponsePartition(Struct):
    """What is now."""

    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    leader_recovery_state: int = int8(ignorable=True)
    partition_epoch: int = int32()


class ResponseTopic(Struct):
    """Partitions of a topic."""

    topic_id: bytes = uuid(ignorable=True)
    partitions: list[ResponsePartition] = array(ResponsePartition)


class AlterPartitionResponse(Response, key=56, versions="2-3", flexible="2+"):
    """The partitions as they are now."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[ResponseTopic] = array(ResponseTopic)
