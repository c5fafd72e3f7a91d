"""A node without a vote: it follows the metadata log from the active controller, by Fetch and FetchSnapshot as KRaft has them.

It takes the place of the voter behind `Quorum`, so the rest of the node doesn't know the difference. The active controller serves only what is
committed, so everything that comes is taken in at once, and nothing is ever taken back. One request is under way at a time: the controller holds it
until there is something new, and whoever is not the active controller answers at once, with who is if it knows.

A controller that has a later beginning of the log than we have an end names its newest snapshot; that is fetched piece by piece and takes the place
of everything here. One that says that our log parts from its own belongs to another history: then nothing is touched, and the node stops.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from kafkapy.errors import ErrorCode, KafkaError, ProtocolError, StorageError
from kafkapy.raft.metadata_batches import read_committed, read_snapshot
from kafkapy.raft.metadata_log import METADATA_TOPIC_ID
from kafkapy.raft.quorum import Outcome, QuorumListener, RunOnLoop, SnapshotPosition, Ticket, VoterProgress
from kafkapy.types import CLUSTER_METADATA_TOPIC
from kafkapy.wire.messages import fetch_snapshot
from kafkapy.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData, ReplicaState
from kafkapy.wire.messages.fetch_snapshot import FetchSnapshotRequest
from kafkapy.wire.schema import Request

log = logging.getLogger(__name__)

FETCH_VERSION = 17
FETCH_SNAPSHOT_VERSION = 1

# How long the controller may hold a fetch, and how much longer an answer may take before another controller is asked.
FETCH_WAIT_MS = 500
FETCH_SLACK_MS = 1_500
FETCH_BYTES_MAX = 4 * 1024 * 1024
SNAPSHOT_PART_BYTES = 1024 * 1024

# The pause before somebody else is asked; an election takes some hundred milliseconds.
RETRY_MS = 50

# What is said of a controller that cannot be followed just now.
_NOT_THE_LEADER = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
)


class ObserverIdentity(NamedTuple):
    """Who follows."""

    node_id: int
    cluster_id: str
    directory_id: bytes
    folder: str


class ObserverNetwork(Protocol):
    """How the controllers are asked. Everything happens on the loop's thread."""

    def ask(self, node_id: int, request: Request, version: int, done: Callable[[Any], None], timeout_ms: int) -> None:
        """`done` gets the answer, or None; never from inside of this."""

    def learn(self, node_id: int, host: str, port: int) -> None:
        """A controller has told where another one listens."""

    def later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        """Call this after a while."""

    def off_loop(self, work: Callable[[], object]) -> None:
        """Have this done elsewhere."""


class Observer:
    """Follows one controller after the other until it finds the active one."""

    def __init__(
        self,
        identity: ObserverIdentity,
        controllers: Sequence[int],
        network: ObserverNetwork,
        position: Callable[[], SnapshotPosition],
        snapshot_bytes: int,
    ) -> None:
        """`controllers` are asked in turn; `position` tells where the image of this node ends."""
        self.leader_id: int | None = None
        self.progress: dict[int, VoterProgress] = {}  # A node that has no vote never leads.
        self._identity = identity
        self._controllers = tuple(controllers)
        self._network = network
        self._position = position
        self._snapshot_bytes = snapshot_bytes
        self._bytes_since_snapshot = 0
        self._leader_epoch = -1
        self._turn = 0
        self._stopped = False
        self._snapshot: tuple[int, int] | None = None
        self._content = bytearray()

    def start(self, listener: QuorumListener, run_on_loop: RunOnLoop) -> None:
        """See Quorum."""
        self._listener = listener
        self._network.later(0, self._fetch)

    def propose(self, ticket: Ticket) -> None:
        """An observer never leads."""
        ticket.outcome = Outcome.NOT_CONTROLLER
        self._listener.on_ticket(ticket)

    def stop(self) -> None:
        """See Quorum."""
        self._stopped = True

    # ---- asking

    def _fetch(self) -> None:
        if self._stopped:
            return
        position = self._position()
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=self._leader_epoch,
            fetch_offset=position.end_offset,
            last_fetched_epoch=position.epoch if position.end_offset else -1,
            partition_max_bytes=FETCH_BYTES_MAX,
            replica_directory_id=self._identity.directory_id,
        )
        request = FetchRequest(
            cluster_id=self._identity.cluster_id,
            replica_state=ReplicaState(replica_id=self._identity.node_id),
            max_wait_ms=FETCH_WAIT_MS,
            max_bytes=FETCH_BYTES_MAX,
            topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
        )
        self._ask(request, FETCH_VERSION, self._fetched, FETCH_WAIT_MS + FETCH_SLACK_MS)

    def _ask(self, request: Request, version: int, done: Callable[[Any], None], timeout_ms: int) -> None:
        target = self.leader_id
        if target is None:
            target = self._controllers[self._turn % len(self._controllers)]

        def answered(response: Any) -> None:
            if self._stopped:
                return
            try:
                done(response)
            except (KafkaError, ProtocolError) as error:
                log.warning("what controller %d has sent cannot be read: %s", target, error)
                self._look_elsewhere()

        self._network.ask(target, request, version, answered, timeout_ms)

    def _look_elsewhere(self) -> None:
        """Ask the next controller, after a pause."""
        self.leader_id = None
        self._leader_epoch = -1
        self._snapshot = None
        self._turn += 1
        self._network.later(RETRY_MS, self._fetch)

    def _follow(self, leader_id: int, leader_epoch: int) -> None:
        """Somebody has said who leads."""
        if leader_id >= 0 and leader_id != self.leader_id:
            log.info("follows controller %d in epoch %d", leader_id, leader_epoch)
            self.leader_id = leader_id
        self._leader_epoch = leader_epoch

    # ---- answers

    def _fetched(self, response: Any) -> None:
        if response is None:
            self._look_elsewhere()
            return
        if response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            reason = f"the controllers belong to another cluster than {self._identity.cluster_id}, which meta.properties names"
            self._fail(reason)
            return
        if response.error_code or not response.responses or not response.responses[0].partitions:
            log.warning("a controller refuses to be followed: %s", ErrorCode(response.error_code).name)
            self._look_elsewhere()
            return
        for place in response.node_endpoints:
            self._network.learn(place.node_id, place.host, place.port)
        self._take(response.responses[0].partitions[0])

    def _take(self, partition: PartitionData) -> None:
        leader = partition.current_leader
        if partition.error_code in _NOT_THE_LEADER:
            known = leader.leader_id >= 0 and leader.leader_id != self.leader_id
            if not known and partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                self._look_elsewhere()
                return
            self._follow(leader.leader_id, leader.leader_epoch)
            self._network.later(0 if known else RETRY_MS, self._fetch)
            return
        if partition.error_code:
            log.warning("a controller refuses to be followed: %s", ErrorCode(partition.error_code).name)
            self._look_elsewhere()
            return
        self._follow(leader.leader_id, leader.leader_epoch)
        if partition.diverging_epoch.end_offset >= 0:
            own = self._position()
            self._fail(
                f"the metadata log ends at offset {own.end_offset} in epoch {own.epoch}, but the controllers' log has epoch "
                f"{partition.diverging_epoch.epoch} up to offset {partition.diverging_epoch.end_offset}: they have lost their disks, "
                "or this folder belongs to another cluster"
            )
        elif partition.snapshot_id.end_offset >= 0:
            self._snapshot = (partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
            self._content = bytearray()
            self._fetch_snapshot()
        else:
            self._commit(partition.records or b"")
            self._fetch()

    def _commit(self, content: Any) -> None:
        for batch in read_committed(content):
            self._listener.on_committed(batch)
        self._bytes_since_snapshot += len(content)
        if self._bytes_since_snapshot >= self._snapshot_bytes:
            self._bytes_since_snapshot = 0
            write = self._listener.on_snapshot_due(self._position())
            if write is not None:
                self._network.off_loop(write)

    def _fail(self, reason: str) -> None:
        self._stopped = True
        self._listener.on_failure(StorageError(self._identity.folder, reason))

    # ---- snapshots

    def _fetch_snapshot(self) -> None:
        assert self._snapshot is not None
        end_offset, epoch = self._snapshot
        partition = fetch_snapshot.RequestPartition(
            partition=0,
            current_leader_epoch=self._leader_epoch,
            snapshot_id=fetch_snapshot.SnapshotId(end_offset=end_offset, epoch=epoch),
            position=len(self._content),
            replica_directory_id=self._identity.directory_id,
        )
        request = FetchSnapshotRequest(
            cluster_id=self._identity.cluster_id,
            replica_id=self._identity.node_id,
            max_bytes=SNAPSHOT_PART_BYTES,
            topics=[fetch_snapshot.RequestTopic(name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
        )
        self._ask(request, FETCH_SNAPSHOT_VERSION, self._fetched_part, FETCH_WAIT_MS + FETCH_SLACK_MS)

    def _fetched_part(self, response: Any) -> None:
        if response is None or response.error_code or not response.topics or not response.topics[0].partitions:
            self._look_elsewhere()
            return
        part = response.topics[0].partitions[0]
        if part.error_code or part.position != len(self._content) or not part.unaligned_records:
            log.info("begins with the snapshot anew: %s", ErrorCode(part.error_code).name)
            self._look_elsewhere()
            return
        self._content += part.unaligned_records
        if len(self._content) < part.size:
            self._fetch_snapshot()
            return
        content, snapshot = bytes(self._content), self._snapshot
        self._content, self._snapshot = bytearray(), None
        assert snapshot is not None
        _, timestamp_ms = read_snapshot(content)
        self._listener.on_snapshot_received(SnapshotPosition(*snapshot, -1, timestamp_ms), content)
        log.info("has taken the controllers' snapshot of all metadata before offset %d", snapshot[0])
        self._bytes_since_snapshot = 0
        self._fetch()
