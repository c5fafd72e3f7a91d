"""The broker: every part built, started and stopped in one visible order. It decides nothing itself.

Start: take the data folders, read the metadata log and open (or recover) the logs it names, listen, join the quorum, and say ready
once this node is registered and unfenced. Stop is the reverse: answer what is open, leave the quorum, flush and close the logs, and
only then leave the clean-shutdown markers.
"""

from __future__ import annotations

import gc
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

from kafkapy.errors import StartError, StorageError
from kafkapy.handlers.fetch_sessions import FetchSessions
from kafkapy.handlers.replicas import Replicas
from kafkapy.log.checkpoints import read_meta_properties
from kafkapy.log.manager import LogManager
from kafkapy.raft.image import TOPIC, MetadataImage
from kafkapy.raft.producer_ids import ProducerIds
from kafkapy.server import maintenance, metadata_follower
from kafkapy.server.clock import Clock
from kafkapy.server.controller_channel import ControllerChannel
from kafkapy.server.coordinators import Coordinators
from kafkapy.server.dispatch import ControllerDispatcher, Dispatcher
from kafkapy.server.flusher import Flusher
from kafkapy.server.memory import MemoryPool
from kafkapy.server.peers import Peers
from kafkapy.server.readiness import Readiness
from kafkapy.server.replica_manager import ReplicaManager
from kafkapy.server.server import Server
from kafkapy.server.waiting import Waiting

if TYPE_CHECKING:
    from kafkapy.config.broker_config import BrokerConfig
    from kafkapy.groups.coordinator import GroupCoordinator
    from kafkapy.handlers.context import VoterLinks
    from kafkapy.log.partition import Partition
    from kafkapy.raft.controller import Controller
    from kafkapy.raft.node import MetadataNode
    from kafkapy.server.cleaner import Cleaner
    from kafkapy.server.connection import Connection
    from kafkapy.server.metadata_follower import Membership
    from kafkapy.transactions.coordinator import TransactionCoordinator
    from kafkapy.types import TopicPartition

log = logging.getLogger("kafkapy.broker")

# When queued.max.request.bytes is not set, frames in flight may hold this much; clients beyond it wait in their sockets.
REQUEST_MEMORY_BYTES_DEFAULT = 1 << 30

PRODUCER_IDS_TIMEOUT_MS = 10_000
ALLOCATE_PRODUCER_IDS_VERSION = 0

CLEANER_DELAY_S = 1.0

# Objects that have become more before the garbage collector looks at the youngest.
GARBAGE_OBJECTS = 10_000


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
        # Drawn anew in every life, so that two nodes with one id are noticed.
        self.incarnation_id = os.urandom(16)
        self.topics_under_way: set[str] = set()
        self.voter_links: VoterLinks | None = None
        self.cluster: Membership | None = None
        self.metadata: MetadataNode
        self.controller: Controller
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
                await self.serve(_settle_garbage_collector)
                nursery.cancel_scope.cancel()

    async def _watch_signals(self, signals: Any) -> None:
        async for number in signals:
            if self._stop.is_set():
                log.warning("second signal: ending at once")
                os._exit(128 + number)
            log.info("stopping on %s", signal.Signals(number).name)
            self._request_stop()

    def _request_stop(self) -> None:
        self._stop.set()
        if self.cluster is not None:
            self.cluster.give_up()

    def request_stop_from_thread(self) -> None:
        """Stop cleanly; may be called from any thread, also after the broker has stopped by itself."""
        assert self._token is not None
        try:
            self._token.run_sync_soon(self._request_stop)
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
                if not self._stop.is_set():
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
                self.cluster_id = ids[0] if ids else metadata_follower.new_cluster_id(config)
                metadata_follower.before_formatting(config)
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
        self.peers = Peers(self, nursery)
        self.controller_channel = ControllerChannel(self, nursery)
        self.replicas = Replicas()
        pool_bytes = config.queued_max_request_bytes
        pool = MemoryPool(pool_bytes if pool_bytes > 0 else REQUEST_MEMORY_BYTES_DEFAULT)
        self.server = Server(config, pool, self.readiness)
        self.bound = self.server.bind(list(config.listeners))
        self.port = next(iter(self.bound.values()))[1]
        for task in (self.waiting.run, self.clock_ms.run, self.readiness.run):
            nursery.start_soon(task)
        if config.is_broker:
            self._build_broker(nursery)
        self.cluster = metadata_follower.join(self, nursery)
        if config.controller_listeners:
            serve = partial(self.server.serve, listeners=config.controller_listeners)
            nursery.start_soon(serve, ControllerDispatcher(self, self.waiting, self.clock_ms, self._connection_closed))
        if config.is_broker:
            await self._open_logs(self.cluster)
        if config.is_broker and not self._stop.is_set():
            self.deleter.delete_later(self.logs.deleted_folders, 0)
            self.dispatcher = Dispatcher(self, self.waiting, self.clock_ms, self.server.connection_closed)
            nursery.start_soon(partial(self.server.serve, listeners=config.broker_listeners), self.dispatcher)
            nursery.start_soon(self._run_cleaner)
            nursery.start_soon(self._run_chores)

    async def _open_logs(self, cluster: Membership) -> None:
        """Check what the last life has left, and be counted on from then on; left early when the node stops meanwhile."""
        await cluster.catch_up()
        if self._stop.is_set():
            return
        await self.replica_manager.recover()
        self.replica_manager.follow_leaders()
        await cluster.unfence()
        if self._stop.is_set():
            return
        # A node on its own has checked logs while its quorum was opening, which may have told of more partitions since.
        await self.replica_manager.recover()
        self.replica_manager.set_aside_strays()

    def _build_broker(self, nursery: trio.Nursery) -> None:
        """What a node has that holds partitions and serves clients."""
        self.deleter = maintenance.Deleter(nursery)
        self.flusher = Flusher(nursery, self.clock_ms, self._flushed, self._partition_failed, self.readiness.kick)
        self.producer_ids = ProducerIds(self._request_producer_ids)
        self.coordinators = Coordinators(self, nursery)
        self.replica_manager = ReplicaManager(self)
        self.fetch_sessions = FetchSessions(self.config.max_incremental_fetch_session_cache_slots, self.clock_ms())
        nursery.start_soon(self.coordinators.run)

    def _connection_closed(self, connection: Connection) -> None:
        """A connection to a controller's listener has ended; it may be how a broker's death is noticed."""
        self.server.connection_closed(connection)
        if self.cluster is not None:
            self.cluster.connection_closed(connection)

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
        """Have the controller give this broker the next block."""
        from kafkapy.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest

        def done(response: Any) -> None:
            if response is None or response.error_code:
                self.producer_ids.request_failed()
            else:
                self.producer_ids.add_block(response.producer_id_start)
            self.waiting.wake(self.producer_ids)

        request = AllocateProducerIdsRequest(broker_id=self.config.node_id, broker_epoch=self.metadata.broker_epoch)
        self.controller_channel.ask(request, ALLOCATE_PRODUCER_IDS_VERSION, done, PRODUCER_IDS_TIMEOUT_MS)

    def _say_ready(self) -> None:
        places = ",".join(f"{host or '*'}:{port}" for host, port in self.bound.values())
        seconds = time.monotonic() - self.started_at
        log.info("ready in %.2f s", seconds, extra={"listen": places, "data": ",".join(self.config.log_dirs)})

    async def _stop_serving(self) -> None:
        """Hand over what this broker leads, answer what is open, leave the quorum, make everything durable."""
        is_broker = self.config.is_broker
        with trio.CancelScope(shield=True):
            if self.failure is None and self.cluster is not None:
                await self.cluster.shut_down()
            if is_broker:
                self.coordinators.resign_all()
            self.waiting.expire_all()
            await self.server.stop()
            # No log may change, nor any thread use its files, while they are closed in a thread.
            if is_broker:
                self.replica_manager.stop()
            self._chores.cancel()
            if self._cleaner is not None:
                await self._cleaner.stop()
            if is_broker:
                await self.flusher.wait_idle()
            self.controller_channel.close_all()
            self.peers.close_all()
            await trio.to_thread.run_sync(self.metadata.stop)
            if self.failure is None and is_broker:
                close = partial(self.logs.close, self.clock_ms(), self.metadata.broker_epoch, self._high_watermarks())
                await trio.to_thread.run_sync(close)
        log.info("stopped")

    def _high_watermarks(self) -> dict[TopicPartition, int]:
        return {one.topic_partition: one.known_high_watermark for one in self.replicas.all_partitions()}

    def fail(self, error: BaseException) -> None:
        """The broker cannot go on: stop, and say why to whoever runs it."""
        if self.failure is None:
            log.critical("stopping: %s", error)
            self.failure = error
        self._request_stop()

    # ---- what handlers ask for

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator, loaded when it is asked for first."""
        return self.coordinators.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator, loaded when it is asked for first."""
        return self.coordinators.transactions

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

    def high_watermark_rose(self, partition: Partition) -> None:
        """More of a partition that others replicate is committed: producers, consumers and coordinators wait for it."""
        self.waiting.wake(partition)

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


def _settle_garbage_collector() -> None:
    """What a broker makes for a request is free again without the collector, so that looks seldom, and never at what was there from the start.

    With its defaults it took a tenth of the time of small requests. Only for a process of our own.
    """
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS, 50, 20)


def _raise_open_files_limit() -> None:
    """Connections and segments both need descriptors, and the usual soft limit of 1,024 is for desktop programs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _random_uuid() -> bytes:
    return uuid.uuid4().bytes
