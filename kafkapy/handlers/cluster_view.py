"""What clients are told of brokers and partitions, shared by Metadata, DescribeCluster and DescribeTopicPartitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkapy.raft.leadership import has_online_directory

if TYPE_CHECKING:
    from kafkapy.handlers.context import RequestContext
    from kafkapy.raft.image import BrokerRegistration, MetadataImage, PartitionImage

# Without an authorizer everybody may do everything that a resource knows; one bit per operation, as AclOperation numbers them.
TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))


class Endpoint(NamedTuple):
    """Where a client reaches a broker."""

    node_id: int
    host: str
    port: int
    rack: str | None


def endpoint(context: RequestContext, broker: BrokerRegistration) -> Endpoint | None:
    """A broker's address on the listener that the client uses.

    For ourselves, when nothing is advertised, it is the address at which this client has reached us: right for the same machine and for the
    local network, where any fixed answer is wrong for one of them.
    """
    connection = context.connection
    listener = broker.listener(connection.listener_name)
    if listener is None:
        return None
    config = context.broker.config
    advertised = any(shown.name == connection.listener_name for shown in config.advertised_listeners)
    if broker.id == config.node_id and not advertised:
        host, port = connection.local_address
        return Endpoint(broker.id, host, port, broker.rack)
    return Endpoint(broker.id, listener.host, listener.port, broker.rack)


def endpoints(context: RequestContext) -> list[Endpoint]:
    """All live brokers that can be reached on the client's listener; one that is about to stop is alive."""
    brokers = context.broker.image.brokers
    found = (endpoint(context, brokers[node]) for node in sorted(brokers) if not brokers[node].fenced)
    return [place for place in found if place is not None]


def controller_id(context: RequestContext) -> int:
    """The broker for admin requests. Every broker takes them and passes them on, so it is the one that was asked, as long as clients may see it."""
    brokers = context.broker.image.brokers
    own_id = int(context.broker.config.node_id)
    if own_id in brokers and not brokers[own_id].fenced:
        return own_id
    return min((node for node, broker in brokers.items() if not broker.fenced), default=-1)


class Liveness:
    """Which replicas are offline: their broker is not alive, or has lost the directory that they are in. Made once per answer."""

    __slots__ = ("_alive", "_brokers", "_directories")

    def __init__(self, image: MetadataImage) -> None:
        self._brokers = image.brokers
        self._alive = {node for node, broker in image.brokers.items() if not broker.fenced}
        self._directories = {directory for broker in image.brokers.values() for directory in broker.log_dirs}

    def offline(self, partition: PartitionImage) -> list[int]:
        """The offline replicas of a partition, mostly none."""
        if self._alive.issuperset(partition.replicas) and self._directories.issuperset(partition.directories):
            return []
        return [
            node
            for place, node in enumerate(partition.replicas)
            if node not in self._alive
            or (partition.directories and not has_online_directory(self._brokers[node], partition.directories[place]))
        ]
