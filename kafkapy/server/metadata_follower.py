"""Joins this node to the cluster's metadata: as a voter, or as an observer that follows the log from the active controller.

`join` builds quorum, controller and metadata node and starts them. What it returns is this node's membership: how the shell waits until it has
caught up and is unfenced, and how it leaves. A node without other nodes has the short way (`Alone`); any other one goes through lifecycle.py.
"""

from __future__ import annotations

import logging
import os
import socket
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import trio

from kafkapy.config.listeners import SECURITY_PROTOCOLS
from kafkapy.errors import StartError, StorageError
from kafkapy.handlers.wait import METADATA_CHANGED
from kafkapy.log.checkpoints import format_uuid
from kafkapy.raft.cluster import NodeIdentity
from kafkapy.raft.controller import Controller
from kafkapy.raft.image import Listener as RegisteredListener
from kafkapy.raft.node import MetadataNode, MetadataSettings
from kafkapy.types import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from kafkapy.config.broker_config import BrokerConfig
    from kafkapy.config.listeners import Listener
    from kafkapy.raft.delta import MetadataDelta
    from kafkapy.raft.image import MetadataImage
    from kafkapy.raft.quorum import Quorum
    from kafkapy.server.broker import Broker
    from kafkapy.server.connection import Connection

log = logging.getLogger("kafkapy.metadata")

# As hosts of listeners: whatever addresses this machine has. Nobody can connect to them.
_EVERY_ADDRESS = ("", "0.0.0.0", "::")


class Membership(Protocol):
    """This node as a member of its cluster."""

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """The metadata has moved on; called before anybody else is told."""

    def ready(self) -> None:
        """The registration that this node made by itself is committed."""

    def elected(self) -> None:
        """This node is the active controller now."""

    def resigned(self) -> None:
        """It is not any more."""

    async def catch_up(self) -> None:
        """Until the image is as new as this node's registration, so that its logs can be opened by it."""

    async def unfence(self) -> None:
        """The logs are open: until the cluster counts on this broker."""

    async def shut_down(self) -> None:
        """Until the cluster doesn't need this broker any more, or has had its time."""

    def give_up(self) -> None:
        """The node stops: whoever waits here waits no longer."""

    def hurry(self) -> None:
        """Something has happened that the controller should hear of without delay."""

    def heard(self, broker_id: int, connection: Any) -> None:
        """A broker's heartbeat has come over this connection to the controller's listener."""

    def connection_closed(self, connection: Connection) -> None:
        """A connection to a controller's listener has ended."""


class Alone:
    """A node that is a cluster by itself: it registers and unfences itself as soon as it is elected, see raft/node.py."""

    def __init__(self, broker: Broker) -> None:
        self._publish = broker.replica_manager.publish
        self._unfenced = trio.Event()

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """See Membership."""
        self._publish(delta, image)

    def ready(self) -> None:
        """See Membership."""
        self._unfenced.set()

    def elected(self) -> None:
        """See Membership."""

    def resigned(self) -> None:
        """See Membership."""

    async def catch_up(self) -> None:
        """Nobody else can know more; logs are checked while the quorum is still opening."""

    async def unfence(self) -> None:
        """See Membership."""
        await self._unfenced.wait()

    async def shut_down(self) -> None:
        """Nobody takes over."""

    def give_up(self) -> None:
        """See Membership."""
        self._unfenced.set()

    def hurry(self) -> None:
        """See Membership."""

    def heard(self, broker_id: int, connection: Any) -> None:
        """See Membership."""

    def connection_closed(self, connection: Connection) -> None:
        """See Membership."""


def new_cluster_id(config: BrokerConfig) -> str:
    """The id for data folders that nobody has formatted: one of its own for a single node, else what follows from the list of controllers."""
    controllers = [*config.controller_quorum_voters.values()] or list(config.controller_quorum_bootstrap_servers)
    if config.single_node or not controllers:
        return format_uuid(uuid.uuid4().bytes)
    from kafkapy.raft.cluster_id import derived_cluster_id

    return format_uuid(derived_cluster_id(controllers))


def before_formatting(config: BrokerConfig) -> None:
    """A controller among several whose folder is new has to be careful at first, so that is noted before the folder is marked as its own."""
    if config.is_controller and len(config.controller_quorum_voters) > 1:
        from kafkapy.raft.voter_identity import note_unformatted

        note_unformatted(config.metadata_log_dir)


def join(broker: Broker, nursery: trio.Nursery) -> Membership:
    """Publish the metadata on disk, then join the quorum."""
    config = broker.config
    folder = f"{config.metadata_log_dir}/{CLUSTER_METADATA_TOPIC}-0"
    os.makedirs(folder, exist_ok=True)
    voters = config.controller_quorum_voters or {config.node_id: ("", 0)}
    alone = config.is_broker and config.is_controller and set(voters) == {config.node_id}
    quorum = _quorum(broker, nursery, folder)
    broker.controller = Controller(quorum, broker.cluster_id, lambda: broker.config)
    settings = MetadataSettings(
        config.node_id, broker.cluster_id, folder, tuple(voters), config.min_insync_replicas, alone, voters
    )
    broker.metadata = MetadataNode(settings, quorum, broker.controller)
    membership: Membership
    if config.single_node:
        membership = Alone(broker)
    else:
        from kafkapy.server.lifecycle import Lifecycle

        membership = Lifecycle(broker, nursery, alone)

    def changed(delta: MetadataDelta, image: MetadataImage) -> None:
        broker.waiting.wake(METADATA_CHANGED)

    try:
        broker.metadata.start(
            _run_on_loop(broker),
            publishers=[membership.publish, changed],
            wake=broker.waiting.wake,
            on_ready=membership.ready,
            on_failure=broker.fail,
            now_ms=broker.clock_ms,
            on_elected=membership.elected,
            on_resigned=membership.resigned,
        )
    except StorageError as error:
        raise StartError(str(error)) from error
    broker.metadata.register(identity(broker))
    return membership


def identity(broker: Broker) -> NodeIdentity:
    """This node as it registers, in this life."""
    config = broker.config
    folders = broker.logs.folders
    return NodeIdentity(
        node_id=config.node_id,
        incarnation_id=broker.incarnation_id,
        listeners=tuple(_registered(broker, listener) for listener in config.broker_listeners),
        controller_listeners=tuple(_registered(broker, listener) for listener in config.controller_listeners),
        rack=config.broker_rack,
        log_dirs=tuple(folder.directory_id for folder in folders),
        stopped_broker_epoch=min(folder.stopped_broker_epoch for folder in folders),
    )


def _registered(broker: Broker, listener: Listener) -> RegisteredListener:
    """Where others reach a listener: as advertised, else where it is bound, else by this machine's name, as in Kafka."""
    shown = next((one for one in broker.config.advertised_listeners if one.name == listener.name), None)
    host, port = (shown.host, shown.port) if shown is not None else broker.bound[listener.name]
    if host in _EVERY_ADDRESS:
        host = "localhost" if broker.config.single_node else socket.getfqdn()
    return RegisteredListener(listener.name, host, port, SECURITY_PROTOCOLS.index(listener.protocol))


def _quorum(broker: Broker, nursery: trio.Nursery, folder: str) -> Quorum:
    config = broker.config
    if not config.is_controller:
        from kafkapy.server.observer_links import observe

        return observe(broker, nursery, folder)
    from kafkapy.raft.syncobj_quorum import SyncObjQuorum

    others = [node_id for node_id in config.controller_quorum_voters if node_id != config.node_id]
    quorum = SyncObjQuorum(
        folder,
        config.node_id,
        others,
        snapshot_bytes=config.metadata_log_max_record_bytes_between_snapshots,
        snapshot_interval_s=config.metadata_log_max_snapshot_interval_ms / 1000,
    )
    if others:
        from kafkapy.server.voter_links import link_voters

        links = link_voters(quorum, config, broker.cluster_id, broker.incarnation_id, nursery)
        links.watch = broker.readiness.watch
        broker.voter_links = links
    return quorum


def _run_on_loop(broker: Broker) -> Callable[[Callable[[], None]], None]:
    """The quorum's thread has things done on the loop by this."""
    token = trio.lowlevel.current_trio_token()

    def run_and_settle(callback: Callable[[], None]) -> None:
        callback()
        broker.waiting.settle()

    def run_on_loop(callback: Callable[[], None]) -> None:
        try:
            token.run_sync_soon(run_and_settle, callback)
            broker.readiness.kick()
        except trio.RunFinishedError:
            log.debug("a late word from the quorum")

    return run_on_loop
