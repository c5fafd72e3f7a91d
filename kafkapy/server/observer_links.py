"""The connections of a broker without a vote to the controllers, and its clock: the shell around raft/observer.py."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from kafkapy.raft.observer import Observer, ObserverIdentity
from kafkapy.raft.quorum import SnapshotPosition

if TYPE_CHECKING:
    from kafkapy.server.broker import Broker
    from kafkapy.server.peers import Address, Peer
    from kafkapy.wire.schema import Request

log = logging.getLogger("kafkapy.metadata")


class ObserverLinks:
    """See raft.observer.ObserverNetwork. A fetch is held by the controller, so these connections carry nothing else."""

    def __init__(self, broker: Broker, nursery: trio.Nursery, places: dict[int, Address]) -> None:
        self._broker = broker
        self._nursery = nursery
        self._places = places
        self._peers: dict[int, Peer] = {}

    def ask(self, node_id: int, request: Request, version: int, done: Callable[[Any], None], timeout_ms: int) -> None:
        """See ObserverNetwork."""
        peer = self._peers.get(node_id)
        if peer is None:
            name = f"controller {node_id}" if node_id >= 0 else "a bootstrap controller"
            peer = self._peers[node_id] = self._broker.peers.at(name, partial(self._places.get, node_id))
        peer.ask(request, version, done, timeout_ms)

    def learn(self, node_id: int, host: str, port: int) -> None:
        """See ObserverNetwork."""
        self._places.setdefault(node_id, (host, port))

    def later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        """See ObserverNetwork."""
        self._nursery.start_soon(self._sleep_and_call, delay_ms, callback)

    def off_loop(self, work: Callable[[], object]) -> None:
        """See ObserverNetwork."""
        self._nursery.start_soon(self._work, work)

    async def _sleep_and_call(self, delay_ms: int, callback: Callable[[], None]) -> None:
        await trio.sleep(delay_ms / 1000)
        callback()

    async def _work(self, work: Callable[[], object]) -> None:
        try:
            await trio.to_thread.run_sync(work)
        except Exception:
            log.exception("cannot write a snapshot of the metadata; the log is kept, the next attempt comes later")


def observe(broker: Broker, nursery: trio.Nursery, folder: str) -> Observer:
    """The quorum of a node that has no vote in it."""
    config = broker.config
    places: dict[int, Address] = dict(config.controller_quorum_voters)
    if not places:
        # Their ids are not known before they answer; Kafka numbers them downwards too.
        places = {-2 - index: place for index, place in enumerate(config.controller_quorum_bootstrap_servers)}

    def position() -> SnapshotPosition:
        image = broker.image
        return SnapshotPosition(image.next_offset, image.epoch, -1, image.timestamp_ms)

    directory_id = broker.logs.folders[0].directory_id
    identity = ObserverIdentity(config.node_id, broker.cluster_id, directory_id, folder)
    return Observer(
        identity,
        tuple(places),
        ObserverLinks(broker, nursery, places),
        position,
        config.metadata_log_max_record_bytes_between_snapshots,
    )
