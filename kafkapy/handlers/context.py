"""What a handler is given besides the request: who asks, when, and the broker's parts."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Hashable

    from kafkapy.config.broker_config import BrokerConfig
    from kafkapy.errors import StorageError
    from kafkapy.handlers.fetch_sessions import FetchSessions
    from kafkapy.handlers.replicas import Replicas
    from kafkapy.log.manager import LogManager
    from kafkapy.log.partition import Partition
    from kafkapy.raft.controller import Controller
    from kafkapy.raft.image import MetadataImage
    from kafkapy.raft.node import MetadataNode
    from kafkapy.raft.producer_ids import ProducerIds
    from kafkapy.transactions.coordinator import TransactionCoordinator
    from kafkapy.wire.schema import Request


class ControllerChannel(Protocol):
    """The way to the active controller, wherever it is."""

    def ask(self, request: Request, version: int, done: Callable[[Any], None], timeout_ms: int) -> None:
        """`done` gets the answer, or None when none came in time."""

    def later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        """Call this after a while."""


class VoterLinks(Protocol):
    """Takes the connections that other voters open to a controller's listener."""

    def opens(self, frame: memoryview) -> bool:
        """Whether this first frame of a connection, without its length, opens a link."""

    def accept(self, sock: socket.socket, received: bytes) -> None:
        """Take the connection over, with the bytes that have come already, from the length of the first frame on."""


class BrokerView(Protocol):
    """The broker as handlers see it. The shell builds it; a test may build a smaller one."""

    config: BrokerConfig
    controller: Controller
    logs: LogManager
    replicas: Replicas
    fetch_sessions: FetchSessions
    producer_ids: ProducerIds
    metadata: MetadataNode
    topics_under_way: set[str]  # asked of the controller, by name, because a client has named them

    @property
    def controller_channel(self) -> ControllerChannel:
        """The way to the active controller."""

    @property
    def voter_links(self) -> VoterLinks | None:
        """Takes what other voters open, where this node is one of several."""

    @property
    def groups(self) -> Any:
        """The group coordinator."""

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator."""

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

    @property
    def closing(self) -> bool:
        """Whether it has ended, or is about to."""

    def close(self) -> None:
        """End the connection."""


class ForwardedClient:
    """A client of another broker, whose request came in an Envelope."""

    __slots__ = ("_connection", "client_host", "listener_name", "local_address")

    def __init__(self, connection: ClientAddress, address: bytes) -> None:
        self._connection = connection
        self.listener_name = connection.listener_name
        self.local_address = connection.local_address
        self.client_host = str(ip_address(address)) if len(address) in (4, 16) else connection.client_host

    @property
    def closing(self) -> bool:
        """Whether the broker that passed the request on has gone."""
        return self._connection.closing

    def close(self) -> None:
        """End the broker's connection."""
        self._connection.close()


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
