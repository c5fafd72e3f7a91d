"""This node's metadata: quorum, log, image and controller put together, and the order in which they start and stop.

How the shell uses it:

    node = MetadataNode(MetadataSettings(...), quorum)
    node.start(run_on_loop, publishers=[...], wake=waiting.wake, on_failure=stop_the_broker)     # the image on disk is published
    node.register(identity)                                # when the listeners' ports are known
    ...                                                    # on_ready is called once the broker may serve
    node.stop()

Start: read the metadata log and publish the image, so that logs open while the quorum is still electing. When this node is elected it becomes
the active controller; a new cluster gets its first records, the controller and the broker register, and the broker is unfenced. All of that is
decided at once and shares an fsync.

Everything here runs on the loop's thread. Whatever fails in following the quorum stops the broker: an image that has missed a record is
worse than none.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple

from kafkapy.errors import StorageError
from kafkapy.raft.cluster import (
    NodeIdentity,
    bootstrap,
    elect_returning_broker,
    register_broker,
    register_controller,
    stopped_cleanly,
    unfence_broker,
)
from kafkapy.raft.controller import Controller
from kafkapy.raft.entries import JOURNAL_NAME, SNAPSHOT_NAME, SnapshotFile
from kafkapy.raft.image import MetadataImage
from kafkapy.raft.image_records import image_records
from kafkapy.raft.loader import MetadataLoader, Publisher
from kafkapy.raft.metadata_batches import read_snapshot, snapshot_batches
from kafkapy.raft.metadata_log import MetadataLog
from kafkapy.raft.quorum import CommittedBatch, Outcome, Quorum, RunOnLoop, SnapshotPosition, Ticket

log = logging.getLogger(__name__)

# Who has not fetched for so long doesn't follow any more, as in Apache Kafka.
OBSERVER_FORGOTTEN_MS = 300_000
OBSERVERS_MAX = 10_000


class MetadataSettings(NamedTuple):
    """What the shell knows about this node before it starts."""

    node_id: int
    cluster_id: str
    folder: str  # of the metadata log: `__cluster_metadata-0` in metadata.log.dir
    voters: tuple[int, ...]
    min_insync_replicas: int = 1
    alone: bool = True  # the only voter, and a broker too: it joins its cluster without asking anybody
    addresses: Mapping[int, tuple[str, int]] | None = None  # of the voters' listeners, as far as they are configured


class Observed(NamedTuple):
    """A node that follows the metadata log without voting, as the active controller sees it."""

    directory_id: bytes
    fetch_offset: int
    fetch_time_ms: int
    caught_up_time_ms: int


class MetadataNode:
    """One node's part in the cluster's metadata."""

    def __init__(self, settings: MetadataSettings, quorum: Quorum, controller: Controller) -> None:
        self.settings = settings
        self.quorum = quorum
        self.controller = controller
        self.broker_epoch = -1
        self.log = MetadataLog(settings.folder, settings.voters)
        self.observers: dict[int, Observed] = {}
        self._identity: NodeIdentity | None = None
        self._stopping = False
        self._told_offset = 0
        self._joined: Ticket | None = None

    @property
    def image(self) -> MetadataImage:
        """The cluster as far as it is committed."""
        return self._loader.image

    @property
    def leader_id(self) -> int:
        """The active controller, or the voter that is about to be it; -1 where nobody is known to be."""
        leader_id = self.settings.node_id if self.controller.is_active else self.quorum.leader_id
        return -1 if leader_id is None else leader_id

    def voter_address(self, node_id: int) -> tuple[str, int] | None:
        """Where a controller listens for other nodes: as configured, or as it has registered itself."""
        place = (self.settings.addresses or {}).get(node_id)
        registration = None if place is not None else self.image.controllers.get(node_id)
        if registration is not None and registration.listeners:
            return registration.listeners[0].host, registration.listeners[0].port
        return place

    def note_observer(self, node_id: int, directory_id: bytes, fetch_offset: int, now_ms: int) -> None:
        """A node without a vote has fetched."""
        if node_id >= 0:
            known = self.observers.get(node_id)
            caught_up = fetch_offset >= self.log.end_offset
            earlier_ms = known.caught_up_time_ms if known is not None else -1
            if known is None:
                self._forget_observers(now_ms)
            self.observers[node_id] = Observed(directory_id, fetch_offset, now_ms, now_ms if caught_up else earlier_ms)

    def _forget_observers(self, now_ms: int) -> None:
        """Those that are gone; and at need all, because anybody can claim to be one."""
        heard = {
            one: seen for one, seen in self.observers.items() if now_ms - seen.fetch_time_ms < OBSERVER_FORGOTTEN_MS
        }
        self.observers = heard if len(heard) < OBSERVERS_MAX else {}

    def start(
        self,
        run_on_loop: RunOnLoop,
        *,
        publishers: Iterable[Publisher],
        wake: Callable[[Hashable], None],
        on_ready: Callable[[], None],
        on_failure: Callable[[BaseException], None],
        now_ms: Callable[[], int],
        on_elected: Callable[[], None] = lambda: None,
        on_resigned: Callable[[], None] = lambda: None,
    ) -> None:
        """Publish what is on disk, then join the quorum. `wake` is called with tickets; StorageError where the log cannot be read."""
        self._wake = wake
        self._on_ready = on_ready
        self._on_failure = on_failure
        self._on_elected = on_elected
        self._on_resigned = on_resigned
        self._now_ms = now_ms
        self._loader = MetadataLoader(self.settings.cluster_id, self.log, publishers)
        self._loader.load()
        self._adopt()
        self.quorum.start(self, run_on_loop)

    def register(self, identity: NodeIdentity) -> None:
        """Have this node registered as soon as it is the active controller; where there are others it also registers with them."""
        self._identity = identity
        if self.controller.is_active:
            self._join()

    def stop(self) -> None:
        """Leave the quorum, then close the log. Waits for the quorum's thread."""
        self._stopping = True
        self.controller.resign(self.image)
        self.quorum.stop()
        self.log.close()

    # The quorum's listener.

    def on_committed(self, batch: CommittedBatch) -> None:
        """See QuorumListener."""
        if self._stopping:
            return
        self._told_offset = batch.next_offset
        try:
            self._loader.commit(batch)
        except Exception as error:
            log.critical("the metadata log cannot be followed any further", exc_info=True)
            self._fail(error)

    def on_ticket(self, ticket: Ticket) -> None:
        """See QuorumListener."""
        self.controller.settle(ticket)
        if not self._stopping:
            self._wake(ticket)
            self._check_ready(ticket)

    def on_elected(self, epoch: int) -> None:
        """See QuorumListener."""
        if self._stopping:
            return
        image = self.image
        if image.next_offset != self._told_offset:
            reason = (
                f"the metadata log goes on to offset {image.offset} but the quorum's journal ends at {self._told_offset - 1}: "
                "the journal has been lost or replaced"
            )
            self._fail(StorageError(self.settings.folder, reason))
            return
        log.info("active controller in epoch %d at offset %d", epoch, image.offset)
        self.controller.activate(epoch, image)
        decision = bootstrap(image, self.settings.min_insync_replicas)
        self.controller.submit(decision, self._now_ms())
        self.observers.clear()
        if self._identity is not None:
            self._join()
        self._on_elected()

    def on_resigned(self) -> None:
        """See QuorumListener."""
        if not self._stopping:
            log.info("not the active controller any more")
        self.controller.resign(self.image)
        self._on_resigned()

    def on_snapshot_due(self, position: SnapshotPosition) -> Callable[[], bytes] | None:
        """See QuorumListener."""
        if self._stopping or self.image.next_offset != position.end_offset:
            return None
        return self._loader.prepare_snapshot(position)

    def on_snapshot_received(self, position: SnapshotPosition, content: bytes) -> None:
        """See QuorumListener."""
        try:
            self._loader.install(position, content, read_snapshot(content)[0])
        except Exception as error:
            log.critical("the snapshot that the leader has sent cannot be used", exc_info=True)
            self._fail(error)

    def on_failure(self, error: BaseException) -> None:
        """See QuorumListener."""
        self._fail(error)

    # Inside.

    def _adopt(self) -> None:
        """A metadata log of Apache Kafka's own, which its `quorum-state` tells, has no journal of ours: begin one behind its end."""
        folder = self.settings.folder
        foreign_state = f"{folder}/quorum-state"
        ours = (f"{folder}/{JOURNAL_NAME}", f"{folder}/{SNAPSHOT_NAME}")
        if not os.path.exists(foreign_state) or any(map(os.path.exists, ours)):
            return
        if len(self.settings.voters) > 1:
            # Their logs may end at different places, and nobody would say which of them is right.
            reason = (
                "Apache Kafka's controllers can be gone on with one at a time only: start the one with the longest log alone in "
                "controller.quorum.voters, then add the others with new folders"
            )
            raise StorageError(foreign_state, reason)
        image = self.image
        position = SnapshotPosition(image.next_offset, image.epoch, -1, image.timestamp_ms)
        content = b"".join(snapshot_batches(image_records(image), position, image.metadata_version))
        SnapshotFile.at(position, content).write(f"{folder}/{SNAPSHOT_NAME}")
        os.rename(foreign_state, foreign_state + ".adopted")
        log.info("goes on with Apache Kafka's metadata log in %s at offset %d", folder, position.end_offset)

    def _join(self) -> None:
        """Register, unfence, and lead again, all in one go: on one node nobody has to be waited for."""
        identity = self._identity
        assert identity is not None
        controller = self.controller
        now_ms = self._now_ms()
        controller.submit(register_controller(controller.image, identity), now_ms)
        if not self.settings.alone:
            return
        clean = stopped_cleanly(controller.image, identity)
        decision = register_broker(controller.image, identity)
        self.broker_epoch = decision.response
        controller.submit(decision, now_ms)
        self._joined = controller.submit(unfence_broker(controller.image, identity), now_ms)
        for election in elect_returning_broker(controller.image, identity.node_id, clean):
            self._joined = controller.submit(election, now_ms)

    def _check_ready(self, ticket: Ticket) -> None:
        if ticket is self._joined and ticket.outcome is Outcome.COMMITTED:
            on_ready, self._on_ready = self._on_ready, _already_told
            on_ready()

    def _fail(self, error: BaseException) -> None:
        self._stopping = True
        self.controller.resign(self.image)
        self._on_failure(error)


def _already_told() -> None:
    """Ready is said once."""
