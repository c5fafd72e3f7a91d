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
import uuid
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from kafkapy.errors import KafkaError, StartError, StorageError
from kafkapy.handlers.fetch_sessions import FetchSessions
from kafkapy.handlers.replicas import Replicas
from kafkapy.handlers.wait import Wait
from kafkapy.log.checkpoints import format_uuid, read_meta_properties
from kafkapy.log.manager import LogManager
from kafkapy.raft.cluster import NodeIdentity
from kafkapy.raft.controller import Controller, ticket_error
from kafkapy.raft.image import TOPIC, MetadataImage
from kafkapy.raft.image import Listener as RegisteredListener
from kafkapy.raft.node import MetadataNode, MetadataSettings
from kafkapy.raft.producer_ids import ProducerIds, allocate_producer_ids
from kafkapy.raft.quorum import Outcome
from kafkapy.raft.syncobj_quorum import SyncObjQuorum
from kafkapy.raft.topic_names import CLUSTER_METADATA_TOPIC
from kafkapy.server import maintenance
from kafkapy.server.clock import Clock
from kafkapy.server.coordinators import Coordinators
from kafkapy.server.dispatch import Dispatcher
from kafkapy.server.flusher import Flusher
from kafkapy.server.memory import MemoryPool
from kafkapy.server.readiness import Readiness
from kafkapy.server.replica_manager import ReplicaManager
from kafkapy.server.server import Server
from kafkapy.server.waiting import Waiting

if TYPE_CHECKING:
    from kafkapy.config.broker_config import BrokerConfig
    from kafkapy.log.partition import Partition
    from kafkapy.server.cleaner import Cleaner
    from kafkapy.types import TopicPartition

log = logging.getLogger("kafkapy.broker")

# When queued.max.request.bytes is not set, frames in flight may hold this much; clients beyond it wait in their sockets.
REQUEST_MEMORY_BYTES_DEFAULT = 1 << 30

PRODUCER_IDS_TIMEOUT_MS = 10_000

CLEANER_DELAY_S = 1.0


def run(config: BrokerConfig) -> None:
    """Run a broker until a signal stops it. Raises StartError, with one line for people, when it cannot start or go on."""
    try:
        trio.run(Broker(config).serve_until_signal)
    except BaseExceptionGroup as group:
        raise only_reason(group) from None


def only_reason(group: BaseExceptionGroup) -> BaseException:
    """Trio groups whatever ends a task. What is one exception in the end is easier to read, and to catch, as itself."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        if len(error.exceptions) > 1:
            return group
        error = error.exceptions[0]
    return error


class Broker:
    """One broker. Handlers see it as BrokerView."""

    def __init__(self, config: BrokerConfig) -> None:
        self.started_at = time.monotonic()
        self.config = config
        self.clock_ms = Clock()
        self.failure: BaseException | None = None
        self.port = 0
        self.readiness = Readiness()
        self._cleaner: Cleaner | None = None
        self._chores = trio.CancelScope()
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
        self.logs = self._take_data_folders()
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
            self.logs.unlock()
            self.readiness.close()
        if isinstance(self.failure, StorageError):
            raise StartError(f"the metadata cannot be written or read any more: {self.failure}") from self.failure
        if self.failure is not None:
            raise self.failure

    def _take_data_folders(self) -> LogManager:
        """Lock the folders and see whose they are; the first start of a node gives it its cluster id, as Kafka's formatting does."""
        config = self.config
        try:
            logs = LogManager(config.log_dirs, producer_id_expiration_ms=config.producer_id_expiration_ms)
            try:
                known = (read_meta_properties(logs.pool.fs, folder.path) for folder in logs.folders)
                ids = [properties["cluster.id"] for properties in known if properties and "cluster.id" in properties]
                self.cluster_id = ids[0] if ids else format_uuid(_random_uuid())
                logs.load(config.node_id, self.cluster_id, _random_uuid)
            except BaseException:
                logs.unlock()
                raise
        except StorageError as error:
            raise StartError(str(error)) from error
        return logs

    async def _start(self, nursery: trio.Nursery) -> None:
        config = self.config
        self.waiting = Waiting(self.clock_ms)
        self.deleter = maintenance.Deleter(nursery)
        self.flusher = Flusher(nursery, self.clock_ms, self._flushed, self._partition_failed, self.readiness.kick)
        self.replicas = Replicas()
        self.producer_ids = ProducerIds(self._request_producer_ids)
        self.coordinators = Coordinators(self, nursery)
        self.groups = self.coordinators.groups
        self.transactions = self.coordinators.transactions
        self.replica_manager = ReplicaManager(self)
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots, self.clock_ms())
        pool_bytes = config.queued_max_request_bytes
        pool = MemoryPool(pool_bytes if pool_bytes > 0 else REQUEST_MEMORY_BYTES_DEFAULT)
        self.server = Server(config, pool, self.readiness)
        self._bound = self.server.bind(list(config.broker_listeners))
        self.port = next(iter(self._bound.values()))[1]
        for task in (self.waiting.run, self.clock_ms.run, self.coordinators.run, self.readiness.run):
            nursery.start_soon(task)
        unfenced = self._join_cluster()
        await self.replica_manager.recover()
        self.replica_manager.set_aside_strays()
        await unfenced.wait()
        self.deleter.delete_later(self.logs.deleted_folders, 0)
        self.dispatcher = Dispatcher(self, self.waiting, self.clock_ms, self.server.connection_closed)
        nursery.start_soon(self.server.serve, self.dispatcher)
        nursery.start_soon(self._run_cleaner)
        nursery.start_soon(self._run_chores)

    def _join_cluster(self) -> trio.Event:
        """Publish the metadata on disk, then join the quorum. The event is set once this broker is unfenced, or has failed."""
        config = self.config
        folder = f"{config.metadata_log_dir}/{CLUSTER_METADATA_TOPIC}-0"
        os.makedirs(folder, exist_ok=True)
        quorum = SyncObjQuorum(
            folder,
            config.node_id,
            snapshot_bytes=config.metadata_log_max_record_bytes_between_snapshots,
            snapshot_interval_s=config.metadata_log_max_snapshot_interval_ms / 1000,
        )
        self.controller = Controller(quorum, self.cluster_id, lambda: self.config)
        self.metadata = MetadataNode(
            MetadataSettings(config.node_id, self.cluster_id, folder, (config.node_id,), config.min_insync_replicas),
            quorum,
            self.controller,
        )
        self._unfenced = trio.Event()
        assert self._token is not None
        token = self._token

        def run_on_loop(callback: Callable[[], None]) -> None:
            try:
                token.run_sync_soon(self._run_and_settle, callback)
                self.readiness.kick()
            except trio.RunFinishedError:
                log.debug("a late word from the quorum")

        try:
            self.metadata.start(
                run_on_loop,
                publishers=[self.replica_manager.publish],
                wake=self.waiting.wake,
                on_ready=self._unfenced.set,
                on_failure=self._fail,
                now_ms=self.clock_ms,
            )
        except StorageError as error:
            raise StartError(str(error)) from error
        self.metadata.register(self._identity())
        return self._unfenced

    async def _run_chores(self) -> None:
        with self._chores:
            async with trio.open_nursery() as nursery:
                maintenance.start(self, nursery)

    async def _run_cleaner(self) -> None:
        """Compaction has nothing to do in a broker's first second, so not even its code is loaded before that is over."""
        await trio.sleep(CLEANER_DELAY_S)
        if self._stop.is_set():
            return
        from kafkapy.server.cleaner import Cleaner

        self._cleaner = Cleaner(self.replicas.all_partitions, self.config, self.clock_ms, self.storage_failed)
        await self._cleaner.run()

    def _request_producer_ids(self) -> None:
        """Have the controller give this broker the next block; it comes with the metadata."""
        try:
            image = self.controller.require_active()
            decision = allocate_producer_ids(image, self.config.node_id, self.metadata.broker_epoch)
            ticket = self.controller.submit(decision, self.clock_ms())
        except KafkaError:
            self.producer_ids.request_failed()
            return
        assert ticket is not None, "a block is a record"

        def again(expired: bool) -> bool | None:
            if ticket.outcome is Outcome.PENDING and not expired:
                return None
            if ticket_error(ticket, expired) is None:
                self.producer_ids.add_block(decision.response)
            else:
                self.producer_ids.request_failed()
            self.waiting.wake(self.producer_ids)
            return True

        self.waiting.park(Wait((ticket,), self.clock_ms() + PRODUCER_IDS_TIMEOUT_MS, again), _NOBODY)

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
            log_dirs=tuple(folder.directory_id for folder in self.logs.folders),
            stopped_broker_epoch=min(folder.stopped_broker_epoch for folder in self.logs.folders),
        )

    def _say_ready(self) -> None:
        places = ",".join(f"{host or '*'}:{port}" for host, port in self._bound.values())
        seconds = time.monotonic() - self.started_at
        log.info("ready in %.2f s", seconds, extra={"listen": places, "data": ",".join(self.config.log_dirs)})

    async def _stop_serving(self) -> None:
        """Answer what is open, leave the quorum, make everything durable."""
        with trio.CancelScope(shield=True):
            self.coordinators.resign_all()
            self.waiting.expire_all()
            await self.server.stop()
            # No log may change, nor any thread use its files, while they are closed in a thread.
            self._chores.cancel()
            if self._cleaner is not None:
                await self._cleaner.stop()
            await self.flusher.wait_idle()
            await trio.to_thread.run_sync(self.metadata.stop)
            if self.failure is None:
                close = partial(self.logs.close, self.clock_ms(), self.metadata.broker_epoch, self._high_watermarks())
                await trio.to_thread.run_sync(close)
        log.info("stopped")

    def _high_watermarks(self) -> dict[TopicPartition, int]:
        return {one.topic_partition: one.known_high_watermark for one in self.replicas.all_partitions()}

    def _fail(self, error: BaseException) -> None:
        """The broker cannot go on: stop, and say why to whoever runs it."""
        if self.failure is None:
            log.critical("stopping: %s", error)
            self.failure = error
        self._unfenced.set()
        self._stop.set()

    # ---- what handlers ask for

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""
        return self.metadata.image

    def topic_overrides(self, name: str) -> dict[str, str]:
        """A topic's own configuration."""
        return self.image.config(TOPIC, name)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Take on a configuration with other dynamic changes; who needs a value asks for it each time."""
        self.config = self.server.config = config
        if self._cleaner is not None:
            self._cleaner.config = config

    def wake(self, key: Hashable) -> None:
        """See BrokerView."""
        self.waiting.wake(key)

    def flush(self, partition: Partition) -> None:
        """See BrokerView."""
        self.flusher.request(partition)
        self.readiness.give_way()

    def _flushed(self, partition: Partition) -> None:
        self.waiting.wake(partition)
        self.waiting.settle()

    def storage_failed(self, error: StorageError) -> None:
        """See BrokerView."""
        self.replica_manager.storage_failed(error)

    def _partition_failed(self, partition: Partition, error: StorageError) -> None:
        """Work on a log failed. One whose topic was deleted meanwhile has no files any more, which is no fault of the disk."""
        if self.replicas.find(*partition.topic_partition) is partition:
            self.storage_failed(error)

    # ---- chores, called by maintenance.py

    async def sweep_retention(self) -> None:
        """Let go of segments by time, size and log start."""

        def visit(partition: Partition) -> None:
            doomed = partition.log.delete_old_segments(self.clock_ms(), partition.high_watermark)
            self.deleter.delete_later(doomed, partition.log.config.file_delete_delay_ms)

        # Idle logs too: what nobody has touched since the start grows old like the rest.
        stored = [one for one in self.replicas.all_partitions() if self.logs.contains(one.topic_partition)]
        await maintenance.in_slices(stored, visit, self._partition_failed)

    async def sweep_flushes(self) -> None:
        """Flush logs whose flush.ms is over."""

        def visit(partition: Partition) -> None:
            if partition.log.needs_flush(self.clock_ms()):
                self.flusher.request(partition)

        await self._visit_partitions(visit)

    async def sweep_producers(self) -> None:
        """Forget producers that have been silent for long."""

        def visit(partition: Partition) -> None:
            partition.log.expire_producers(self.clock_ms(), self.config.producer_id_expiration_ms)

        await self._visit_partitions(visit)

    async def checkpoint(self) -> None:
        """Write down recovery points, log starts and high watermarks."""
        try:
            self.logs.write_checkpoints(self._high_watermarks())
        except StorageError as error:
            self.storage_failed(error)

    async def _visit_partitions(self, visit: Callable[[Partition], None]) -> None:
        opened = [partition for partition in self.replicas.all_partitions() if partition.opened is not None]
        await maintenance.in_slices(opened, visit, self._partition_failed)


def _raise_open_files_limit() -> None:
    """Connections and segments both need descriptors, and the usual soft limit of 1,024 is for desktop programs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _random_uuid() -> bytes:
    return uuid.uuid4().bytes


class _Nobody:
    """The slot of a wait whose answer is for the broker itself."""

    def finish(self, response: Any) -> None:
        """Nothing is to be sent."""

    def fail(self, error: BaseException) -> None:
        """Its own mistakes are logged like those of requests."""
        log.error("a wait of the broker's own failed", exc_info=error)


_NOBODY = _Nobody()
