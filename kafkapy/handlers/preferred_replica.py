"""Which replica a consumer should read from (KIP-392): replica.selector.class, of which RackAwareReplicaSelector is the one that exists.

Among the replicas in the consumer's rack that are in sync and have the offset, the leader if it is one of them, else the one that was caught up last,
and of those the one that reaches farthest. None: the leader serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkapy.handlers.context import RequestContext
    from kafkapy.log.partition import Partition

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
NO_REPLICA = -1


def preferred_replica(context: RequestContext, partition: Partition, fetch_offset: int, rack: str) -> int:
    """The follower to which a consumer in this rack is sent; -1: it is served here."""
    broker = context.broker
    if broker.config.replica_selector_class != RACK_AWARE or broker.config.broker_rack == rack:
        return NO_REPLICA
    brokers = broker.image.brokers
    best, best_rank = NO_REPLICA, (-1, -1)
    for replica, progress in partition.followers.items():
        registration = brokers.get(replica)
        if (
            replica in partition.isr
            and registration is not None
            and registration.is_active
            and registration.rack == rack
            and progress.log_start_offset <= fetch_offset <= progress.end_offset
        ):
            rank = (progress.caught_up_ms, progress.end_offset)
            if rank > best_rank:
                best, best_rank = replica, rank
    return best
