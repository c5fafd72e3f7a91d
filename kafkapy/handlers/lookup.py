"""Finding a partition for a request, or the error that says why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkapy.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kafkapy.handlers.context import RequestContext
    from kafkapy.log.partition import Partition


def local_partition(context: RequestContext, topic_name: str, index: int) -> Partition:
    """The local replica of a partition, or UNKNOWN_TOPIC_OR_PARTITION, or NOT_LEADER_OR_FOLLOWER when it lives elsewhere."""
    topic = context.broker.replicas.topics.get(topic_name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(topic.missing_partition(index))
    return partition


def led_partition(context: RequestContext, topic_name: str, index: int, current_leader_epoch: int = -1) -> Partition:
    """A partition that this broker leads, in the epoch that the client believes in (-1: whatever it is)."""
    partition = local_partition(context, topic_name, index)
    partition.check_leader(current_leader_epoch)
    return partition
