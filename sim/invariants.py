"""What must hold after each event, checked by looking only at what the event's process could have changed.

one broker leads a partition in a leader epoch, and one controller decides in a controller epoch
a high watermark never falls within the life of a broker and a leader epoch
below a high watermark every log is the same: same batches, same epochs, no batch twice, every producer's in order
a high watermark is passed only by what each living member of the ISR has
whoever joins the ISR, and whoever begins to lead, has everything that is committed
images at the same metadata offset are equal
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkapy.log.partition import Partition
from kafkapy.raft.image import MetadataImage, PartitionImage
from kafkapy.types import TopicPartition
from kafkapy.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from sim.events import InvariantError
from sim.network import Answer
from sim.truth import PartitionTruth

if TYPE_CHECKING:
    from sim.broker import Broker


class Seen:
    """A replica as it was after the last event of its broker."""

    __slots__ = ("epoch", "high_watermark", "is_leader", "partition", "partition_epoch", "truncations", "verified")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.is_leader = False
        self.epoch = -1
        self.partition_epoch = -1
        self.high_watermark = 0
        self.truncations = 0
        self.verified = 0  # The log is what is committed up to here.


class Checker:
    """The invariants of one run."""

    def __init__(self) -> None:
        self.truths: dict[TopicPartition, PartitionTruth] = {}
        self.images: dict[int, MetadataImage] = {}
        self.controller_of_epoch: dict[int, int] = {}
        self.newest: MetadataImage | None = None
        # Replicas that a power loss has robbed of records which they were believed to have.
        self.robbed: set[tuple[int, TopicPartition]] = set()
        self._seen: dict[tuple[int, TopicPartition], Seen] = {}
        self.brokers: dict[int, Broker] = {}  # those that live

    def truth(self, name: TopicPartition) -> PartitionTruth:
        """What is committed of a partition."""
        truth = self.truths.get(name)
        if truth is None:
            truth = self.truths[name] = PartitionTruth(str(name))
        return truth

    # Metadata.

    def elected(self, node_id: int, epoch: int) -> None:
        """A node has become the active controller."""
        if self.controller_of_epoch.setdefault(epoch, node_id) != node_id:
            raise InvariantError(
                f"controller epoch {epoch} has two controllers: {self.controller_of_epoch[epoch]} and {node_id}"
            )

    def published(self, node_id: int, image: MetadataImage) -> bool:
        """A node has a new image; whether it is the newest of all."""
        known = self.images.setdefault(image.offset, image)
        if known is not image and known != image:
            raise InvariantError(f"the images at metadata offset {image.offset} differ, one is that of {node_id}")
        if self.newest is not None and image.offset <= self.newest.offset:
            return False
        self.newest = image
        return True

    def check_joined(self, name: TopicPartition, before: PartitionImage | None, state: PartitionImage) -> None:
        """Whoever joins the ISR has everything that is committed: from the proposal on the high watermark waited for it."""
        truth = self.truth(name)
        for node_id in state.isr:
            broker = self.brokers.get(node_id)
            if before is None or node_id in before.isr or node_id == state.leader or broker is None:
                continue
            registered = self.newest.brokers.get(node_id) if self.newest is not None else None
            replica = broker.replicas.find(*name)
            if registered is None or registered.epoch != broker.life.broker_epoch or replica is None:
                continue
            if replica.log.log_end_offset < truth.end_offset:
                raise InvariantError(
                    f"{name}: {node_id} joins the ISR {state.isr} with {replica.log.log_end_offset} records, "
                    f"{truth.end_offset} are committed"
                )

    def check_registered(self, before: MetadataImage | None, image: MetadataImage) -> None:
        """A broker that comes back from an unclean stop may have lost records: it is neither in sync nor eligible until it has caught up."""
        for registration in image.brokers.values():
            known = before.brokers.get(registration.id) if before is not None else None
            broker = self.brokers.get(registration.id)
            if known is None or known.epoch == registration.epoch or broker is None:
                continue
            if broker.life.incarnation_id != registration.incarnation_id or broker.life.stopped_epoch == known.epoch:
                continue
            for topic in image.topics.by_name.values():
                for number, state in enumerate(topic.partitions):
                    if registration.id in (*state.isr, *state.eligible_leader_replicas):
                        raise InvariantError(
                            f"{topic.name}-{number}: {registration.id} has restarted uncleanly and is still in sync or eligible: "
                            f"ISR {state.isr}, ELR {state.eligible_leader_replicas}"
                        )

    def watch_alter_partition(self, image: MetadataImage, request: AlterPartitionRequest, answer: Answer) -> Answer:
        """The controller says yes only to replicas of the life that it knows, and to what is committed when it says so."""
        stale = {
            (topic.topic_id, asked.partition_index)
            for topic in request.topics
            for asked in topic.partitions
            for member in asked.new_isr_with_epochs
            if member.broker_id in image.brokers
            and member.broker_epoch
            not in (-1, image.brokers[member.broker_id].epoch)  # -1: a new leader doesn't know yet
        }

        def check(response: AlterPartitionResponse) -> None:
            for topic in () if response is None or response.error_code else response.topics:
                known = self.newest.topics.get_by_id(topic.topic_id) if self.newest is not None else None
                for told in topic.partitions:
                    if told.error_code:
                        continue
                    if (topic.topic_id, told.partition_index) in stale:
                        raise InvariantError(f"the controller took a former life of a replica into the ISR {told.isr}")
                    if known is None or known.partitions[told.partition_index].partition_epoch < told.partition_epoch:
                        raise InvariantError(f"the controller says that the ISR is {told.isr}, which is not committed")
            answer(response)

        return check

    # Replicas.

    def check(self, broker: Broker) -> None:
        """After an event of this broker."""
        for topic in broker.replicas.topics.values():
            for partition in topic.partitions.values():
                self._check_replica(broker, partition)

    def _check_replica(self, broker: Broker, partition: Partition) -> None:
        log = partition.opened
        if log is None:
            return
        name = partition.topic_partition
        key = (broker.node_id, name)
        seen = self._seen.get(key)
        if seen is None or seen.partition is not partition:
            seen = self._seen[key] = Seen(partition)
            seen.high_watermark = partition.high_watermark
        high_watermark = partition.high_watermark
        end_offset = log.log_end_offset
        if log.truncations != seen.truncations:
            seen.truncations = log.truncations
            seen.verified = min(seen.verified, end_offset)
        if partition.leader_epoch == seen.epoch and high_watermark < seen.high_watermark:
            raise InvariantError(
                f"{name} on {broker.node_id}: the high watermark fell from {seen.high_watermark} to {high_watermark} "
                f"in leader epoch {seen.epoch}"
            )
        truth = self.truth(name)
        if partition.is_leader:
            if not seen.is_leader or partition.leader_epoch != seen.epoch:
                self._begins_to_lead(broker, partition, seen, truth)
            if high_watermark > truth.end_offset:
                # Where the event has changed the ISR too, it is not known with which of both the high watermark rose.
                judged = partition.partition_epoch == seen.partition_epoch
                if judged and len(partition.isr) < min(log.config.min_insync_replicas, len(partition.replicas)):
                    raise InvariantError(
                        f"{name}: {high_watermark} is committed with ISR {partition.isr}, smaller than demanded"
                    )
                truth.extend(broker.node_id, log, high_watermark)
                seen.verified = high_watermark
                self._check_in_sync(partition, truth)
        elif seen.is_leader and high_watermark > truth.end_offset:
            # It was the leader until this event, in which the high watermark has risen before.
            truth.extend(broker.node_id, log, high_watermark)
            seen.verified = high_watermark
        if high_watermark > seen.verified:
            upper = min(high_watermark, truth.end_offset)
            if high_watermark > truth.end_offset:
                raise InvariantError(
                    f"{name} on {broker.node_id}: high watermark {high_watermark}, only {truth.end_offset} is committed"
                )
            truth.compare(f"broker {broker.node_id}", log, seen.verified, upper)
            seen.verified = upper
        if self.robbed and key in self.robbed and end_offset >= truth.end_offset and high_watermark >= truth.end_offset:
            self.robbed.discard(key)
        seen.is_leader = partition.is_leader
        seen.epoch = partition.leader_epoch
        seen.partition_epoch = partition.partition_epoch
        seen.high_watermark = high_watermark

    def _begins_to_lead(self, broker: Broker, partition: Partition, seen: Seen, truth: PartitionTruth) -> None:
        epoch = partition.leader_epoch
        leader = truth.leader_of_epoch.setdefault(epoch, broker.node_id)
        if leader != broker.node_id:
            raise InvariantError(f"{truth.name}: leader epoch {epoch} has two leaders: {leader} and {broker.node_id}")
        if epoch < max(truth.leader_of_epoch):
            return  # The metadata is old news: a later leader may have committed more.
        log = partition.log
        if log.log_end_offset < truth.end_offset:
            raise InvariantError(
                f"{truth.name}: broker {broker.node_id} leads from epoch {epoch} on and has {log.log_end_offset} records, "
                f"{truth.end_offset} are committed"
            )
        truth.compare(f"the new leader {broker.node_id}", log, seen.verified, truth.end_offset)
        seen.verified = max(seen.verified, truth.end_offset)

    def _check_in_sync(self, partition: Partition, truth: PartitionTruth) -> None:
        """The high watermark rose: everybody who counts as in sync has the records."""
        name = partition.topic_partition
        for node_id in {*partition.isr, *partition.proposed_isr}:
            other = self.brokers.get(node_id)
            if other is None or node_id == partition.node_id or (node_id, name) in self.robbed:
                continue
            replica = other.replicas.find(*name)
            if replica is None:
                continue
            log = replica.log
            if log.log_end_offset < truth.end_offset:
                raise InvariantError(
                    f"{name}: {truth.end_offset} records are committed by {partition.node_id} in epoch "
                    f"{partition.leader_epoch} with ISR {partition.isr}, {node_id} has only {log.log_end_offset}"
                )
            key = (node_id, name)
            seen = self._seen.get(key)
            if seen is None or seen.partition is not replica:
                seen = self._seen[key] = Seen(replica)
            if log.truncations == seen.truncations:
                truth.compare(f"the replica in sync {node_id}", log, seen.verified, truth.end_offset)
                seen.verified = truth.end_offset

    # At the end.

    def check_end(self, brokers: list[Broker]) -> None:
        """All is well again and quiet: every partition is led, every replica is in sync, and all logs are the same."""
        image = self.newest
        assert image is not None
        for broker in brokers:
            if broker.image.offset != image.offset:
                raise InvariantError(
                    f"broker {broker.node_id} is at metadata offset {broker.image.offset} of {image.offset}"
                )
        for topic in image.topics.by_name.values():
            for number, state in enumerate(topic.partitions):
                name = TopicPartition(topic.name, number)
                if state.leader < 0 or set(state.isr) != set(state.replicas):
                    raise InvariantError(f"{name} has not recovered although all is well: {state}")
                self._check_copies(name, state.replicas)

    def _check_copies(self, name: TopicPartition, replicas: tuple[int, ...]) -> None:
        truth = self.truth(name)
        for node_id in replicas:
            replica = self.brokers[node_id].replicas.find(*name)
            if replica is None or replica.log.log_end_offset != truth.end_offset:
                end = None if replica is None else replica.log.log_end_offset
                raise InvariantError(f"{name}: broker {node_id} ends at {end}, {truth.end_offset} are committed")
            truth.compare(f"broker {node_id}", replica.log, 0, truth.end_offset)
