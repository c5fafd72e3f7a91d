"""A simulated broker's replicas: it follows the metadata, copies from leaders, and watches over the ISR of what it leads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkapy.config.log_config import LogConfig, LogConfigs
from kafkapy.errors import StorageError
from kafkapy.handlers.replicas import TopicReplicas
from kafkapy.log.log import Log
from kafkapy.log.partition import Partition
from kafkapy.raft.image import TOPIC, MetadataImage, PartitionImage
from kafkapy.replication.follower import FETCH_VERSION, LIST_OFFSETS_VERSION, FetchSettings, LeaderFetcher
from kafkapy.replication.isr import IsrTracker
from kafkapy.types import TopicPartition
from kafkapy.wire.messages.fetch import FetchRequest
from sim.network import Connection

if TYPE_CHECKING:
    from sim.broker import Broker

ISR_CHECK_US = 100_000
CHECKPOINT_US = 1_000_000
FLUSH_US = 400_000
UNLINK_US = 500_000
RECONNECT_US = 60_000
ASK_TIMEOUT_MS = 2_000
LAG_MS_MAX = 1_500


class Fetching:
    """The fetcher of one leader, with its connection."""

    def __init__(self, replication: Replication, leader_id: int) -> None:
        self.replication = replication
        self.broker = replication.broker
        self.leader_id = leader_id
        settings = FetchSettings(partition_max_bytes=self.broker.dice.choice((700, 1 << 20)), backoff_ms=200)
        self.core = LeaderFetcher(leader_id, self.broker.node_id, settings, replication)
        self._connection: Connection | None = None
        self._connecting = False
        self._owed = 0

    def pump(self) -> None:
        """Send what there is to send."""
        broker = self.broker
        if not len(self.core) or broker.life.broker_epoch < 0:
            return
        if self._connection is None or not self._connection.is_open:
            self._connect()
            return
        while (request := self.core.next_request(broker.now_ms, broker.life.broker_epoch)) is not None:
            self._ask(self._connection, request)
        next_ms = self.core.next_time_ms()
        if next_ms is not None:
            delay_us = max(1, next_ms - broker.now_ms) * 1000
            broker.simulation.at(delay_us, self.pump, broker.process)

    def _connect(self) -> None:
        broker = self.broker
        if self._connecting or self._owed:
            return  # What the last connection owes is answered first, with nothing.
        self._connection = broker.cluster.network.connect(broker.process, broker.cluster.processes[self.leader_id])
        if self._connection is None:
            self._connecting = True
            broker.simulation.at(RECONNECT_US, self._connect_again, broker.process)
        else:
            self.pump()

    def _connect_again(self) -> None:
        self._connecting = False
        self.pump()

    def _ask(self, connection: Connection, request: Any) -> None:
        version = FETCH_VERSION if request.__class__ is FetchRequest else LIST_OFFSETS_VERSION
        broker = self.broker

        def done(response: Any) -> None:
            self._owed -= 1
            self.core.answered(request, response, broker.now_ms)
            self.pump()

        self._owed += 1
        connection.ask(request, version, done, ASK_TIMEOUT_MS)


class Replication:
    """The FollowerHost of the fetchers, and the ISR of what this broker leads."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.isr = IsrTracker(
            broker.node_id,
            LAG_MS_MAX,
            is_eligible=self._is_eligible,
            committed=broker.high_watermark_rose,
            kick=self.alter_partitions,
        )
        self._fetchers: dict[int, Fetching] = {}
        self._log_configs = LogConfigs(broker.config)

    def begin(self) -> None:
        """The chores."""
        broker = self.broker
        for callback, delay_us in (
            (self._check_isr, ISR_CHECK_US),
            (self._write_checkpoints, CHECKPOINT_US),
            (self._flush_one, FLUSH_US),
        ):
            broker.simulation.at(broker.dice.randrange(delay_us), callback, broker.process)

    # Following the metadata.

    def publish(self, delta: Any, image: MetadataImage) -> None:
        """Do what the delta asks for."""
        broker = self.broker
        for topic_delta in delta.topics.changed.values():
            replicas = broker.replicas
            topic = replicas.topics.get(topic_delta.name)
            if topic is None:
                topic = TopicReplicas(topic_delta.name, topic_delta.id, 0)
                replicas.topics[topic_delta.name] = replicas.by_id[topic_delta.id] = topic
            topic_image = image.topics.get(topic_delta.name)
            assert topic_image is not None
            topic.partition_count = len(topic_image.partitions)
            for index, state in topic_delta.changed.items():
                if broker.node_id in state.replicas:
                    self._take_role(topic, index, state)
        for fetcher in list(self._fetchers.values()):
            fetcher.pump()

    def _take_role(self, topic: TopicReplicas, index: int, state: PartitionImage) -> None:
        broker = self.broker
        partition = topic.partitions.get(index)
        if partition is None:
            partition = topic.partitions[index] = self._new_partition(topic, index)
            broker.fetch_sessions.partition_appeared(topic.name, topic.topic_id, index)
        if state.leader == broker.node_id:
            if not partition.is_leader or partition.leader_epoch != state.leader_epoch:
                broker.note(f"leads {partition.topic_partition} in epoch {state.leader_epoch}, ISR {list(state.isr)}")
            for fetcher in self._fetchers.values():
                fetcher.core.unfollow(partition)
            partition.make_leader(
                state.leader_epoch,
                state.isr,
                state.replicas,
                partition_epoch=state.partition_epoch,
                now_ms=broker.now_ms,
            )
            self.isr.has_news(partition)
        else:
            partition.make_follower(
                state.leader, state.leader_epoch, state.isr, state.replicas, partition_epoch=state.partition_epoch
            )
            self.isr.forget(partition)
            for leader_id, fetcher in self._fetchers.items():
                if leader_id != state.leader:
                    fetcher.core.unfollow(partition)
            if state.leader >= 0:
                self._fetcher(state.leader).core.follow(partition)
        broker.wake(partition)

    def _fetcher(self, leader_id: int) -> Fetching:
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            fetcher = self._fetchers[leader_id] = Fetching(self, leader_id)
        return fetcher

    def _new_partition(self, topic: TopicReplicas, index: int) -> Partition:
        broker = self.broker
        name = TopicPartition(topic.name, index)

        def open_log() -> Log:
            return broker.logs.get(name, self._config_of(topic.name), topic.topic_id, broker.now_ms)

        partition = Partition(name, topic.topic_id, broker.node_id, open_log, broker.logs.high_watermark(name))
        partition.watchers = (self.isr,)
        return partition

    def _config_of(self, topic: str) -> LogConfig:
        overrides = dict(self.broker.image.config(TOPIC, topic))
        overrides["internal.segment.bytes"] = str(self.broker.cluster.segment_bytes)
        return self._log_configs.of(overrides)

    # What the fetchers have done.

    def storage_failed(self, error: StorageError) -> None:
        """See FollowerHost."""
        self.broker.storage_failed(error)

    def truncate(self, partition: Partition, offset: int, now_ms: int) -> None:
        """See FollowerHost."""
        name = partition.topic_partition
        self.broker.note(f"cuts {name} from {partition.log.log_end_offset} to {offset}")
        self.broker.logs.before_truncation(name, offset)
        self._unlink_later(partition.truncate_to(offset, now_ms))

    def start_anew(self, partition: Partition, offset: int, now_ms: int) -> None:
        """See FollowerHost."""
        self.broker.note(f"starts {partition.topic_partition} anew at {offset}")
        self.broker.logs.before_truncation(partition.topic_partition, 0)
        self._unlink_later(partition.truncate_fully_and_start_at(offset, now_ms))

    def _unlink_later(self, paths: list[str]) -> None:
        broker = self.broker

        def unlink() -> None:
            for path in paths:
                broker.cluster.router.unlink(path)

        if paths:
            broker.simulation.at(UNLINK_US, unlink, broker.process)

    def committed(self, partition: Partition) -> None:
        """See FollowerHost."""
        self.broker.high_watermark_rose(partition)

    def may_fetch(self, partition: Partition, now_ms: int) -> int:
        """See FollowerHost."""
        return 0

    def received(self, partition: Partition, size: int, now_ms: int) -> None:
        """See FollowerHost."""

    # The ISR.

    def _is_eligible(self, replica_id: int, broker_epoch: int) -> bool:
        broker = self.broker.image.brokers.get(replica_id)
        return broker is not None and broker.is_active and broker_epoch in (-1, broker.epoch)

    def _check_isr(self) -> None:
        broker = self.broker
        self.isr.check(broker.now_ms)
        self.alter_partitions()
        broker.simulation.at(ISR_CHECK_US, self._check_isr, broker.process)

    def alter_partitions(self) -> None:
        """Send what the tracker wants to have changed."""
        broker = self.broker
        request = self.isr.next_request(broker.now_ms, broker.life.broker_epoch)
        if request is None:
            return

        def done(response: Any) -> None:
            self.isr.answered(response, broker.now_ms)
            self.alter_partitions()

        broker.ask_controller(request, 3, done)

    # Chores.

    def _write_checkpoints(self) -> None:
        broker = self.broker
        broker.logs.write_checkpoints(
            {
                partition.topic_partition: partition.known_high_watermark
                for partition in broker.replicas.all_partitions()
            }
        )
        broker.simulation.at(CHECKPOINT_US, self._write_checkpoints, broker.process)

    def _flush_one(self) -> None:
        """As the system does it now and then, whenever it likes."""
        broker = self.broker
        logs = list(broker.logs.logs.values())
        if logs:
            broker.dice.choice(logs).flush(broker.now_ms)
        broker.simulation.at(broker.dice.randrange(2 * FLUSH_US), self._flush_one, broker.process)
