"""The broker: every part built, started and stopped in one visible order. It decides nothing itself.

Start: take the data folders, read the metadata log and open (or recover) the logs it names, listen, join the quorum, and say ready
once this node is registered and unfenced. Stop is the reverse: answer what is open, leave the quorum, flush and close the logs, and
only then leave the clean-shutdown markers.
"""

from __future__ import annotations

import logging
import os
import resource
import signal
import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import trio

from kafkapy.errors import StorageError
from kafkapy.handlers.fetch_sessions import FetchSessions
from kafkapy.handlers.replicas import Replicas
from kafkapy.log.manager import LogManager
from kafkapy.raft.cluster import NodeIdentity
from kafkapy.raft.controller import Controller
from kafkapy.raft.image import Listener as RegisteredListener
from kafkapy.raft.image import MetadataImage
from kafkapy.raft.node import MetadataNode, MetadataSettings
from kafkapy.raft.syncobj_quorum import SyncObjQuorum
from kafkapy.server import maintenance
from kafkapy.server.dispatch import Dispatcher
from kafkapy.server.flusher import Flusher
from kafkapy.server.memory import MemoryPool
from kafkapy.server.replica_manager import ReplicaManager
from kafkapy.server.server import Server
from kafkapy.server.waiting import Waiting

if TYPE_CHECKING:
    from kafkapy.config.broker_config import BrokerConfig
    from kafkapy.log.partition import Partition

log = logging.getLogger("kafkapy.broker")

# When queued.max.request.bytes is not set, frames in flight may hold this much; clients beyond it wait in their sockets.
REQUEST_MEMORY_BYTES_DEFAULT = 1 << 30


def run(config: BrokerConfig) -> int:
    """Run a broker until a signal stops it. The result is the process's exit status."""
    broker = Broker(config)
    trio.run(broker.serve_until_signal)
    return 1 if broker.failure is not None else 0


def clock_ms() -> int:
    """The wall clock, as Kafka counts it."""
    return time.time_ns() // 1_000_000


class Broker:
    """One broker. Handlers see it as BrokerView."""

    def __init__(self, config: BrokerConfig) -> None:
        self.started_at = time.monotonic()
        self.config = config
        self.failure: BaseException | None = None
        self.port = 0
        self._stop = trio.Event()
        self._token: trio.lowlevel.TrioToken | None = None

    # ---- life

    async def serve_until_signal(self) -> None:
        """Serve; SIGTERM or SIGINT stops cleanly, a second one ends at once."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_signals, signals)
                await self.serve(lambda: None)
                nursery.cancel_scope.cancel()

    async def _watch_signals(self, signals: Any) -> None:
        async for number in signals:
            if self._stop.is_set():
                log.warning("second signal: ending at once")
                os._exit(128 + number)
            log.info("stopping on %s", signal.Signals(number).name)
            self._stop.set()

    def request_stop_from_thread(self) -> None:
        """Stop cleanly; may be called from any thread, also after the broker has stopped by itself."""
        assert self._token is not None
        try:
            self._token.run_sync_soon(self._stop.set)
        except trio.RunFinishedError:
            log.debug("the broker had stopped already")

    async def serve(self, ready: Callable[[], None]) -> None:
        """Start, call `ready`, serve until stopped, stop."""
        self._token = trio.lowlevel.current_trio_token()
        _raise_open_files_limit()
        self.logs = LogManager.open(self.config)
        try:
            async with trio.open_nursery() as nursery:
                await self._start(nursery)
                if self.failure is None:
                    self._say_ready()
                    ready()
                    await self._stop.wait()
                await self._stop_serving()
                nursery.cancel_scope.cancel()
        finally:
            self.logs.release()
        if self.failure is not None:
            raise self.failure

    async def _start(self, nursery: trio.Nursery) -> None:
        config = self.config
        self.waiting = Waiting(clock_ms)
        nursery.start_soon(self.waiting.run)
        self.deleter = maintenance.Deleter(nursery)
        self.flusher = Flusher(nursery, clock_ms, self._flushed, self.storage_failed)
        self.replicas = Replicas()
        self.replica_manager = ReplicaManager(self)
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots, clock_ms())
        pool_bytes = config.queued_max_request_bytes
        self.server = Server(config, MemoryPool(pool_bytes if pool_bytes > 0 else REQUEST_MEMORY_BYTES_DEFAULT))
        self._bound = self.server.bind(list(config.broker_listeners))
        self.port = next(iter(self._bound.values()))[1]
        await self._join_cluster()
        self.dispatcher = Dispatcher(self, self.waiting, clock_ms, self.server.connection_closed)
        nursery.start_soon(self.server.serve, self.dispatcher)
        await maintenance.run(self, nursery)

    async def _join_cluster(self) -> None:
        config = self.config
        folder = self.logs.metadata_folder
        quorum = SyncObjQuorum(folder, config.node_id)
        self.controller = Controller(quorum, self.logs.cluster_id)
        self.metadata = MetadataNode(
            MetadataSettings(
                config.node_id, self.logs.cluster_id, folder, (config.node_id,), config.min_insync_replicas
            ),
            quorum,
            self.controller,
        )
        unfenced = trio.Event()
        assert self._token is not None
        token = self._token

        def run_on_loop(callback: Callable[[], None]) -> None:
            try:
                token.run_sync_soon(self._run_and_settle, callback)
            except trio.RunFinishedError:
                log.debug("a late word from the quorum")

        self.metadata.start(
            run_on_loop,
            publishers=[self.replica_manager.publish],
            wake=self.waiting.wake,
            on_ready=unfenced.set,
            on_failure=self._fail,
            now_ms=clock_ms,
        )
        self.metadata.register(self._identity())
        await unfenced.wait()

    def _run_and_settle(self, callback: Callable[[], None]) -> None:
        callback()
        self.waiting.settle()

    def _identity(self) -> NodeIdentity:
        advertised = {listener.name: listener for listener in self.config.advertised_listeners}
        listeners = []
        for listener in self.config.broker_listeners:
            shown = advertised.get(listener.name)
            host, port = (shown.host, shown.port) if shown is not None else self._bound[listener.name]
            protocol = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL").index(listener.protocol)
            listeners.append(RegisteredListener(listener.name, host or "localhost", port, protocol))
        return NodeIdentity(
            node_id=self.config.node_id,
            incarnation_id=os.urandom(16),
            listeners=tuple(listeners),
            rack=self.config.broker_rack,
            log_dirs=self.logs.directory_ids,
        )

    def _say_ready(self) -> None:
        places = ",".join(f"{host or '*'}:{port}" for host, port in self._bound.values())
        seconds = time.monotonic() - self.started_at
        log.info("ready in %.2f s", seconds, extra={"listen": places, "data": ",".join(self.config.log_dirs)})

    async def _stop_serving(self) -> None:
        """Answer what is open, leave the quorum, make everything durable."""
        with trio.CancelScope(shield=True):
            self.waiting.expire_all()
            await self.server.stop()
            await trio.to_thread.run_sync(self.metadata.stop)
            if self.failure is None:
                await trio.to_thread.run_sync(self.logs.close_cleanly, clock_ms())
        log.info("stopped")

    def _fail(self, error: BaseException) -> None:
        """The broker cannot go on: stop, and say why to whoever runs it."""
        if self.failure is None:
            log.critical("stopping: %s", error)
            self.failure = error
        self._stop.set()

    # ---- what handlers ask for

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""
        return self.metadata.image

    def wake(self, key: Hashable) -> None:
        """See BrokerView."""
        self.waiting.wake(key)

    def flush(self, partition: Partition) -> None:
        """See BrokerView."""
        self.flusher.request(partition)

    def _flushed(self, partition: Partition) -> None:
        self.waiting.wake(partition)
        self.waiting.settle()

    def storage_failed(self, error: StorageError) -> None:
        """See BrokerView."""
        log.error("disk failure: %s", error)
        self.replica_manager.storage_failed(error)

    # ---- chores, called by maintenance.py

    async def sweep_retention(self) -> None:
        """Let go of segments by time, size and log start."""

        def visit(partition: Partition) -> None:
            doomed = partition.log.delete_old_segments(clock_ms(), partition.high_watermark)
            self.deleter.delete_later(doomed, partition.log.config.file_delete_delay_ms)

        await self._visit_partitions(visit)

    async def sweep_flushes(self) -> None:
        """Flush logs whose flush.ms is over."""

        def visit(partition: Partition) -> None:
            if partition.log.needs_flush(clock_ms()):
                self.flusher.request(partition)

        await self._visit_partitions(visit)

    async def sweep_producers(self) -> None:
        """Forget producers that have been silent for long."""

        def visit(partition: Partition) -> None:
            partition.log.expire_producers(clock_ms(), self.config.producer_id_expiration_ms)

        await self._visit_partitions(visit)

    async def checkpoint(self) -> None:
        """Write down recovery points, log starts and high watermarks."""
        try:
            await trio.to_thread.run_sync(self.logs.prepare_checkpoints())
        except StorageError as error:
            self.storage_failed(error)

    async def _visit_partitions(self, visit: Callable[[Partition], None]) -> None:
        partitions = [one for topic in self.replicas.topics.values() for one in topic.partitions.values()]
        loaded = [partition for partition in partitions if partition.is_loaded]
        await maintenance.in_slices(loaded, visit, self.storage_failed)


def _raise_open_files_limit() -> None:
    """Connections and segments both need descriptors, and the usual soft limit of 1,024 is for desktop programs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
