"""Whatever happens in whatever order, the controller's decisions keep partitions sane and lose nothing that was acknowledged.

A random life of a cluster: brokers register, crash, stop, come back and lose directories; leaders change the ISR; partitions move and are
elected; min.insync.replicas changes. Beside it stands a model of the data: which replicas have all that was ever acknowledged.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkapy.errors import KafkaError
from kafkapy.raft.alter_partition import alter_partition
from kafkapy.raft.broker_sessions import BrokerSessions
from kafkapy.raft.configs import incremental_alter_configs
from kafkapy.raft.decision import Decision
from kafkapy.raft.elections import PREFERRED, UNCLEAN, elect_leaders, preferred_elections
from kafkapy.raft.image import NO_LEADER, MetadataImage, PartitionImage
from kafkapy.raft.image_records import image_records
from kafkapy.raft.leadership import RECOVERING, Leadership
from kafkapy.raft.membership import after, elect_leaderless, fence_broker, heartbeat
from kafkapy.raft.reassignments import alter_partition_reassignments
from kafkapy.raft.registrations import register_broker
from kafkapy.raft.unregistration import unregister_broker
from kafkapy.wire.messages.alter_partition import AlterPartitionRequest, BrokerState, RequestPartition, RequestTopic
from kafkapy.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkapy.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kafkapy.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafkapy.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.raft.clusters import BROKERS, TOPIC_ID, cluster, directory, partitions_of
from tests.raft.test_registrations import registration
from tests.raft.worlds import CONFIG, replay

STEPS = 60


class Life:
    """A cluster, and of each partition the replicas that have everything."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.unclean = self.dice.random() < 0.2
        partitions = []
        for _ in range(4):
            replicas = tuple(self.dice.sample(BROKERS, self.dice.randrange(1, 5)))
            places = tuple(directory(one) for one in replicas)
            partitions.append(PartitionImage(replicas, replicas, replicas[0], 0, 0, directories=places))
        unclean = {"unclean.leader.election.enable": str(self.unclean).lower()}
        self.image = cluster(*partitions, min_insync_replicas=self.dice.randrange(1, 4), settings=unclean)
        self.complete = [set(one.isr) for one in partitions]
        self.sessions = BrokerSessions()

    def step(self) -> None:
        """Something happens; most things that are refused are not worth a word."""
        act: Callable[[], Sequence[Decision]] = self.dice.choice(
            (
                self._fence,
                self._crash,
                self._beat,
                self._beat,
                self._beat,
                self._alter_isr,
                self._alter_isr,
                self._alter_isr,
                self._reassign,
                self._elect,
                self._balance,
                self._configure,
                self._unregister,
                self._acknowledge,
                self._acknowledge,
            )
        )
        before = self.image
        try:
            decisions = act()
        except KafkaError:
            return
        self.image = after(before, decisions)
        self._check(before, [note for one in decisions for note in one.notes])

    # What happens.

    def _broker(self) -> int:
        return self.dice.choice(sorted(self.image.brokers) or [1])

    def _fence(self) -> Sequence[Decision]:
        broker_id = self._broker()
        if broker_id not in self.image.brokers or self.image.brokers[broker_id].fenced:
            return []
        return fence_broker(self.image, broker_id, CONFIG)

    def _crash(self) -> Sequence[Decision]:
        """Another process registers: it has lost records unless the one before stopped cleanly."""
        broker_id = self.dice.choice(BROKERS)
        existing = self.image.brokers.get(broker_id)
        clean = existing is not None and self.dice.random() < 0.5
        request = registration(
            broker_id,
            incarnation_id=self.dice.randbytes(16),
            previous_broker_epoch=existing.epoch if existing is not None and clean else -1,
        )
        decisions = register_broker(self.image, request, CONFIG, has_session=False)
        if not clean:
            for replicas in self.complete:
                replicas.discard(broker_id)
        return decisions

    def _beat(self) -> Sequence[Decision]:
        broker = self.image.brokers.get(self._broker())
        if broker is None:
            return []
        request = BrokerHeartbeatRequest(
            broker_id=broker.id,
            broker_epoch=broker.epoch,
            current_metadata_offset=self.dice.choice((broker.epoch - 1, self.image.offset)),
            want_fence=self.dice.random() < 0.05,
            want_shut_down=self.dice.random() < 0.15,
            offline_log_dirs=[directory(broker.id)] if self.dice.random() < 0.05 else [],
        )
        return heartbeat(self.image, request, CONFIG, self.sessions, 0)

    def _alter_isr(self) -> Sequence[Decision]:
        """Followers catch up with their leader, or fall behind. Whoever joins has all that the leader has."""
        number = self.dice.randrange(4)
        partition = partitions_of(self.image)[number]
        leader = self.image.brokers.get(partition.leader)
        if leader is None:
            return []
        isr = {partition.leader, *(one for one in partition.replicas if self.dice.random() < 0.6)}
        members = [
            BrokerState(broker_id=one, broker_epoch=self.image.brokers[one].epoch)
            for one in sorted(isr)
            if one in self.image.brokers
        ]
        wanted = RequestPartition(
            partition_index=number,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch - (self.dice.random() < 0.1),
            new_isr_with_epochs=members,
        )
        topics = [RequestTopic(topic_id=TOPIC_ID, partitions=[wanted])]
        request = AlterPartitionRequest(broker_id=leader.id, broker_epoch=leader.epoch, topics=topics)
        decision = alter_partition(self.image, request, CONFIG)
        if decision.records:
            self.complete[number] |= isr
        return [decision]

    def _reassign(self) -> Sequence[Decision]:
        replicas = None if self.dice.random() < 0.3 else self.dice.sample(BROKERS, self.dice.randrange(1, 4))
        wanted = [ReassignablePartition(partition_index=self.dice.randrange(4), replicas=replicas)]
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=wanted)])
        return [alter_partition_reassignments(self.image, request, CONFIG)]

    def _elect(self) -> Sequence[Decision]:
        kind = UNCLEAN if self.unclean and self.dice.random() < 0.3 else PREFERRED
        wanted = [TopicPartitions(topic="t", partitions=[self.dice.randrange(4)])]
        request = ElectLeadersRequest(election_type=kind, topic_partitions=wanted)
        return [elect_leaders(self.image, request, CONFIG)]

    def _balance(self) -> Sequence[Decision]:
        return preferred_elections(self.image, CONFIG) or elect_leaderless(self.image, CONFIG)

    def _configure(self) -> Sequence[Decision]:
        change = AlterableConfig(name="min.insync.replicas", config_operation=0, value=str(self.dice.randrange(1, 4)))
        resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[change])
        return [incremental_alter_configs(self.image, IncrementalAlterConfigsRequest(resources=[resource]), CONFIG)]

    def _unregister(self) -> Sequence[Decision]:
        return unregister_broker(self.image, self._broker(), CONFIG) if self.dice.random() < 0.2 else []

    def _acknowledge(self) -> Sequence[Decision]:
        """Records are acknowledged where enough are in sync: from then on only those have everything."""
        for number, partition in enumerate(partitions_of(self.image)):
            needed = Leadership(self.image, CONFIG).min_insync_replicas("t")
            if partition.leader != NO_LEADER and len(partition.isr) >= min(needed, len(partition.replicas)):
                self.complete[number] = set(partition.isr)
        return []

    # What must hold.

    def _check(self, before: MetadataImage, notes: list[str]) -> None:
        leadership = Leadership(self.image, CONFIG)
        needed = leadership.min_insync_replicas("t")
        for number, (old, new) in enumerate(zip(partitions_of(before), partitions_of(self.image), strict=True)):
            self._check_shape(new, needed)
            assert new.leader_epoch >= old.leader_epoch and new.partition_epoch >= old.partition_epoch
            assert (new.leader_epoch > old.leader_epoch) or new.leader == old.leader, "a new leader without an epoch"
            assert new == old or new.partition_epoch > old.partition_epoch
            if new.leader != NO_LEADER:
                assert leadership.may_lead(new, new.leader), "the leader is dead"
            else:
                waiting_for = new.isr or new.eligible_leader_replicas
                assert not any(leadership.may_lead(new, one) for one in waiting_for), "nobody leads who could"
            self._check_data(number, old, new, notes)

    def _check_shape(self, partition: PartitionImage, needed: int) -> None:
        replicas = set(partition.replicas)
        assert len(partition.replicas) == len(replicas) == len(partition.directories) > 0
        assert len(set(partition.isr)) == len(partition.isr) and replicas.issuperset(partition.isr)
        assert partition.leader == NO_LEADER or partition.leader in partition.isr
        assert not set(partition.eligible_leader_replicas).intersection(partition.isr)
        assert replicas.issuperset(partition.eligible_leader_replicas)
        assert not partition.eligible_leader_replicas or len(partition.isr) < min(needed, len(replicas))
        assert replicas.issuperset(partition.adding_replicas) and replicas.issuperset(partition.removing_replicas)

    def _check_data(self, number: int, old: PartitionImage, new: PartitionImage, notes: list[str]) -> None:
        """A leader that hasn't got everything was elected uncleanly, which is recorded and told."""
        told = any(f"t-{number} " in note for note in notes)
        if told and self.unclean:
            self.complete[number] = set(new.isr)
        complete = self.complete[number]
        if new.leader in (NO_LEADER, old.leader) and new.leader_epoch == old.leader_epoch:
            return
        if new.leader != NO_LEADER and new.leader not in complete:
            assert new.leader_recovery_state == RECOVERING or self.unclean, "records are lost, and nobody was asked"
            assert self.unclean or old.last_known_elr == (new.leader,), "others may have them"
            assert len(old.replicas) == 1 or told
            self.complete[number] = {new.leader}


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_any_life_of_a_cluster(seed: int) -> None:
    """Each step keeps the partitions sane and the acknowledged records, and a snapshot of the end is the end."""
    life = Life(seed)
    for _ in range(STEPS):
        life.step()
    rebuilt = replay(MetadataImage(life.image.cluster_id), list(image_records(life.image)))
    assert rebuilt.topics == life.image.topics and rebuilt.brokers == life.image.brokers
