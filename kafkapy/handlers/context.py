"""What a handler is given besides the request: who asks, when, and the broker's parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kafkapy.config.broker_config import BrokerConfig
    from kafkapy.errors import StorageError
    from kafkapy.handlers.fetch_sessions import FetchSessions
    from kafkapy.handlers.replicas import Replicas
    from kafkapy.log.manager import LogManager
    from kafkapy.log.partition import Partition
    from kafkapy.raft.controller import Controller
    from kafkapy.raft.image import MetadataImage
    from kafkapy.raft.producer_ids import ProducerIds
    from kafkapy.transactions.coordinator import TransactionCoordinator


class BrokerView(Protocol):
    """The broker as handlers see it. The shell builds it; a test may build a smaller one."""

    config: BrokerConfig
    controller: Controller
    logs: LogManager
    replicas: Replicas
    groups: Any
    transactions: TransactionCoordinator
    fetch_sessions: FetchSessions
    producer_ids: ProducerIds

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""

    def wake(self, key: Hashable) -> None:
        """Ask the waits on this key again, once the current request has been answered."""

    def flush(self, partition: Partition) -> None:
        """Have the partition's log made durable soon; those who wait on the partition are woken when it is."""

    def storage_failed(self, error: StorageError) -> None:
        """A disk has failed: take what lies on it offline."""


class ClientAddress(Protocol):
    """The connection as handlers see it."""

    listener_name: str
    local_address: tuple[str, int]
    client_host: str
    closing: bool

    def close(self) -> None:
        """End the connection."""


class RequestContext:
    """One request's surroundings. A Wait may keep it, so it is never reused."""

    __slots__ = ("api_version", "broker", "client_id", "connection", "now_ms")

    def __init__(
        self, broker: BrokerView, connection: ClientAddress, api_version: int, client_id: str | None, now_ms: int
    ) -> None:
        self.broker = broker
        self.connection = connection
        self.api_version = api_version
        self.client_id = client_id
        self.now_ms = now_ms
