"""One life of a simulated broker: the real logs, replicas, handlers and metadata, with events in place of tasks, sockets and threads.

What is simulated here is what the shell (kafkapy/server) does: it parks answers, follows the metadata, drives the fetchers of followers, watches
over the ISR, sends heartbeats and stops cleanly.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.errors import ErrorCode, StorageError
from kafkapy.handlers import (
    alter_partition,
    broker_heartbeat,
    broker_registration,
    create_topics,
    elect_leaders,
    fetch,
    list_offsets,
    produce,
)
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.fetch_sessions import FetchSessions
from kafkapy.handlers.replicas import Replicas
from kafkapy.handlers.wait import Wait
from kafkapy.log.files import FileSlice
from kafkapy.log.manager import LogManager
from kafkapy.log.partition import Partition
from kafkapy.raft.controller import Controller
from kafkapy.raft.delta import delta_between
from kafkapy.raft.image import MetadataImage
from kafkapy.raft.node import MetadataNode, MetadataSettings
from kafkapy.types import TopicPartition
from kafkapy.wire.messages.alter_partition import AlterPartitionRequest
from kafkapy.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kafkapy.wire.messages.broker_registration import BrokerRegistrationRequest
from kafkapy.wire.messages.create_topics import CreateTopicsRequest
from kafkapy.wire.messages.elect_leaders import ElectLeadersRequest
from kafkapy.wire.messages.fetch import FetchRequest, FetchResponse
from kafkapy.wire.messages.list_offsets import ListOffsetsRequest
from kafkapy.wire.messages.produce import ProduceRequest
from sim.clients import WhoLeads
from sim.controller_side import ControllerSide
from sim.events import InvariantError, Process, Timer
from sim.life import BrokerLife
from sim.network import Answer, Connection
from sim.replication import Replication

if TYPE_CHECKING:
    from sim.cluster import Cluster

CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"

HANDLERS: dict[type, Callable[[RequestContext, Any], Any]] = {
    ProduceRequest: produce.handle,
    FetchRequest: fetch.handle,
    ListOffsetsRequest: list_offsets.handle,
    CreateTopicsRequest: create_topics.handle,
    ElectLeadersRequest: elect_leaders.handle,
    BrokerRegistrationRequest: broker_registration.handle,
    BrokerHeartbeatRequest: broker_heartbeat.handle,
    AlterPartitionRequest: alter_partition.handle,
}


class Parked:
    """An answer that isn't there yet."""

    __slots__ = ("answer", "connection", "timer", "wait")

    def __init__(self, wait: Wait, answer: Answer, connection: Connection | None) -> None:
        self.wait = wait
        self.connection = connection
        self.answer: Answer | None = answer
        self.timer: Timer | None = None


class Broker:
    """It is the BrokerView of the handlers."""

    def __init__(self, cluster: Cluster, node_id: int, process: Process) -> None:
        self.cluster = cluster
        self.simulation = cluster.simulation
        self.node_id = node_id
        self.process = process
        self.dice = cluster.simulation.dice(f"broker {node_id}.{process.life}")
        self.config = BrokerConfig(cluster.properties(node_id))
        folder = f"/{node_id}/meta"
        disk = cluster.router.disks[str(node_id)]
        if not disk.exists(folder):
            disk.make_folder(folder)
        self.quorum = cluster.new_quorum(node_id, process, folder)
        self.controller = Controller(self.quorum, CLUSTER_ID, lambda: self.config, cluster.new_uuid)
        settings = MetadataSettings(node_id, CLUSTER_ID, folder, cluster.voters, alone=False)
        self.node = MetadataNode(settings, self.quorum, self.controller)
        self.logs = LogManager([f"/{node_id}/data"], fs=cluster.router, open_files_limit=500)
        self.logs.load(node_id, CLUSTER_ID, cluster.new_uuid)
        self.replicas = Replicas()
        self.fetch_sessions = FetchSessions(100, self.dice.randrange(1, 1 << 30))
        self.groups = self.transactions = self.producer_ids = None
        self.controller_side = ControllerSide(self)
        self.replication = Replication(self)
        self.life = BrokerLife(self)
        self._parked: dict[Hashable, dict[Parked, None]] = {}
        self._marked: dict[Hashable, None] = {}

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""
        return self.node.image

    @property
    def now_ms(self) -> int:
        """The time of day."""
        return self.cluster.wall_ms

    def note(self, text: str) -> None:
        """Into the trace."""
        self.simulation.note(self.process, text)

    # Life.

    def start(self) -> None:
        """Read what is on disk, join the quorum, register."""
        process = self.process
        self.node.start(
            lambda callback: self.simulation.at(0, callback, process),
            publishers=[self._publish],
            wake=self.wake,
            on_ready=lambda: None,
            on_failure=self._failed,
            now_ms=lambda: self.now_ms,
            on_elected=self._elected,
        )
        self.controller_side.begin()
        self.replication.begin()
        self.life.begin()

    def begin_stop(self) -> None:
        """Ask to be let go."""
        self.life.stopping = True

    def stop_cleanly(self) -> None:
        """Its leaderships have moved away, or nobody can take them."""
        high_watermarks = {
            partition.topic_partition: partition.known_high_watermark for partition in self.replicas.all_partitions()
        }
        self.logs.close(self.now_ms, self.life.broker_epoch, high_watermarks)
        self.node.stop()
        self.cluster.stopped(self.node_id)

    def release(self) -> None:
        """The process is gone."""
        self.quorum.release()

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, InvariantError):
            raise error
        raise InvariantError(f"the metadata of {self.process} failed: {error!r}") from error

    def _elected(self) -> None:
        assert self.controller.epoch is not None
        self.note(f"is the active controller in epoch {self.controller.epoch}")
        self.cluster.checker.elected(self.node_id, self.controller.epoch)
        self.controller_side.elected()

    def _publish(self, delta: Any, image: MetadataImage) -> None:
        before = self.cluster.checker.newest
        if self.cluster.checker.published(self.node_id, image):
            self.cluster.checker.check_registered(before, image)
            self._note_changes(delta, before, image)
        if self.life.is_caught_up:
            self.replication.publish(delta, image)
        else:
            self.life.image_moved(image)

    # Requests.

    def serve(self, connection: Connection, request: Any, version: int, answer: Answer) -> None:
        """A request has arrived."""
        if request.__class__ is AlterPartitionRequest:
            answer = self.cluster.checker.watch_alter_partition(self.controller.image, request, answer)
        self._take(self._handle(connection, request, version), answer, connection)

    def _note_changes(self, delta: Any, before: MetadataImage | None, image: MetadataImage) -> None:
        for topic in delta.topics.changed.values():
            for index, state in topic.changed.items():
                known = before.topics.partition(topic.name, index) if before is not None else None
                self.cluster.checker.check_joined(TopicPartition(topic.name, index), known, state)
                self.simulation.note(
                    "metadata",
                    f"{image.offset}: {topic.name}-{index} leader {state.leader} epoch {state.leader_epoch} "
                    f"ISR {list(state.isr)} ELR {list(state.eligible_leader_replicas)} last {list(state.last_known_elr)}"
                    f"{' UNCLEAN' if state.leader_recovery_state else ''}",
                )

    def caught_up(self, image: MetadataImage) -> None:
        """The metadata tells of this life's registration: from now on its replicas have the roles that it tells."""
        self.note(f"has caught up with the metadata at {image.offset}")
        self.replication.publish(delta_between(MetadataImage(CLUSTER_ID), image), image)

    def _handle(self, connection: Connection, request: Any, version: int) -> Any:
        handler = HANDLERS.get(request.__class__)
        if handler is not None:
            return handler(RequestContext(self, connection, version, "client", self.now_ms), request)  # type: ignore[arg-type]
        assert request.__class__ is WhoLeads
        state = self.image.topics.partition(*request.name)
        return (-1, -1) if state is None else (state.leader, state.leader_epoch)

    def _take(self, result: Any, answer: Answer, connection: Connection | None) -> None:
        if result.__class__ is not Wait:
            self._send(result, answer, connection)
            return
        parked = Parked(result, answer, connection)
        for key in result.keys:
            self._parked.setdefault(key, {})[parked] = None
        delay_us = max(0, result.deadline_ms - self.now_ms) * 1000
        parked.timer = self.simulation.timer(delay_us, lambda: self._ask_again(parked, True), self.process)

    def _send(self, response: Any, answer: Answer, connection: Connection | None) -> None:
        """Records leave the file when they are sent, which may be later than when the answer was made."""
        if response.__class__ is not FetchResponse:
            answer(response)
            return
        slices = [
            data for topic in response.responses for data in topic.partitions if data.records.__class__ is FileSlice
        ]

        def send() -> None:
            for data in slices:
                piece = data.records
                data.records = piece.read_bytes()
                piece.release()
                if len(data.records) < piece.size:
                    self.note("has cut its log under an answer: the connection breaks")
                    assert connection is not None
                    connection.close()
                    return
            answer(response)

        if slices and self.dice.random() < 0.05:
            self.simulation.at(self.dice.randrange(3_000), send, self.process)
        else:
            send()

    def _ask_again(self, parked: Parked, expired: bool) -> None:
        response = parked.wait.again(expired)
        if response is None:
            return
        for key in parked.wait.keys:
            waiting = self._parked.get(key)
            if waiting is not None:
                waiting.pop(parked, None)
                if not waiting:
                    del self._parked[key]
        if parked.timer is not None:
            parked.timer.cancel()
        answer, parked.answer = parked.answer, None
        if answer is not None:
            self._send(response, answer, parked.connection)

    def settle(self) -> None:
        """After each event: ask again whoever waits for something that has moved."""
        while self._marked:
            marked, self._marked = self._marked, {}
            for key in marked:
                for parked in tuple(self._parked.get(key, ())):
                    if parked.answer is not None:
                        self._ask_again(parked, False)

    # What handlers call.

    def wake(self, key: Hashable) -> None:
        """See BrokerView."""
        if key in self._parked:
            self._marked[key] = None

    def high_watermark_rose(self, partition: Partition) -> None:
        """See BrokerView."""
        self.wake(partition)

    def flush(self, partition: Partition) -> None:
        """See BrokerView."""
        partition.log.flush(self.now_ms)
        self.wake(partition)

    def storage_failed(self, error: StorageError) -> None:
        """No disk fails in this simulation, so it is one of ours."""
        raise InvariantError(f"the storage of {self.process} failed: {error!r}") from error

    # The way to the controller.

    def ask_controller(self, request: Any, version: int, done: Callable[[Any], None]) -> None:
        """One attempt: `done(None)` when no answer came or another node is the controller."""
        target = self.node.leader_id
        if target < 0:
            target = self.dice.choice(self.cluster.voters)

        def told(response: Any) -> None:
            if response is not None and response.error_code == ErrorCode.NOT_CONTROLLER:
                response = None
            done(response)

        if target == self.node_id:
            answer: Answer = told
            if request.__class__ is AlterPartitionRequest:
                answer = self.cluster.checker.watch_alter_partition(self.controller.image, request, told)
            self._take(self._handle(None, request, version), answer, None)  # type: ignore[arg-type]
            return
        connection = self.cluster.network.connect(self.process, self.cluster.processes[target])
        if connection is None:
            self.simulation.at(20_000, lambda: done(None), self.process)
            return

        def answered(response: Any) -> None:
            connection.close()
            told(response)

        connection.ask(request, version, answered, 1_000)
