"""Carries out what the metadata says about this broker: which partitions it holds and in which role, and with which configuration.

It is a publisher of the metadata loader: called with each delta on the loop, in log order, before any answer that depends on it leaves. So when a
CreateTopics is answered, the partitions are there. Logs themselves open when they are touched first, or are recovered before the
broker says that it is ready.

What is copied from or by other brokers goes through `server/replica_fetchers.py` and `server/isr_sender.py`, which a node that is alone never loads.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import trio

from kafkapy.config.dynamic import reconfigured
from kafkapy.config.log_config import LogConfigs
from kafkapy.errors import StartError, StorageError
from kafkapy.handlers.replicas import TopicReplicas
from kafkapy.log.filesystem import DamagedLogError, DiskFullError
from kafkapy.log.partition import Partition
from kafkapy.raft.image import BROKER, TOPIC
from kafkapy.raft.topic_names import INTERNAL_TOPICS
from kafkapy.replication.throttle import UNLIMITED, Throttle, is_throttled
from kafkapy.types import CLUSTER_METADATA_TOPIC, TopicPartition

if TYPE_CHECKING:
    from kafkapy.config.log_config import LogConfig
    from kafkapy.log.data_folder import DataFolder
    from kafkapy.log.log import Log
    from kafkapy.raft.delta import MetadataDelta
    from kafkapy.raft.image import MetadataImage, PartitionImage
    from kafkapy.raft.topics_delta import TopicDelta
    from kafkapy.server.broker import Broker
    from kafkapy.server.directory_reporter import DirectoryReporter
    from kafkapy.server.isr_sender import IsrSender
    from kafkapy.server.replica_fetchers import ReplicaFetchers

log = logging.getLogger("kafkapy.replicas")

# A full disk refuses every append; one line in this time is enough to say so.
DISK_FULL_INTERVAL_MS = 10_000


class ReplicaManager:
    """The partitions of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._file_config = broker.config
        self._log_configs = LogConfigs(broker.config)
        self._say_full_again_ms = 0
        self._fetchers: ReplicaFetchers | None = None
        self._isr_sender: IsrSender | None = None
        self._logs_are_checked = False
        self._leader_throttle = Throttle()
        self._follower_throttle = Throttle()
        self.directory_reporter: DirectoryReporter | None = None  # where there are other nodes that want to know

    # ---- following the metadata

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Do what the delta asks for."""
        if delta.configs:
            self._reconfigure(delta, image)
        for topic in delta.topics.deleted.values():
            self._delete_topic(topic.name, topic.id, len(topic.partitions))
        for topic_delta in delta.topics.changed.values():
            self._change_topic(topic_delta, image)
        if self._fetchers is not None:
            self._fetchers.pump()
        if delta.topics.changed:
            self._broker.coordinators.topics_changed()
        if delta.topics.deleted:
            self._broker.coordinators.topics_deleted([topic.name for topic in delta.topics.deleted.values()])

    def _change_topic(self, delta: TopicDelta, image: MetadataImage) -> None:
        replicas = self._broker.replicas
        topic = replicas.topics.get(delta.name)
        if topic is None:
            topic = TopicReplicas(delta.name, delta.id, 0)
            replicas.topics[delta.name] = replicas.by_id[delta.id] = topic
        topic_image = image.topics.get(delta.name)
        assert topic_image is not None, "a changed topic is in the image"
        topic.partition_count = len(topic_image.partitions)
        removed = []
        for index, partition_image in delta.changed.items():
            if self._broker.config.node_id in partition_image.replicas:
                self._take_role(topic, index, partition_image)
            elif index in topic.partitions:
                removed.append(topic.partitions.pop(index))
        if removed:
            self._remove(removed)

    def _take_role(self, topic: TopicReplicas, index: int, image: PartitionImage) -> None:
        broker = self._broker
        partition = topic.partitions.get(index)
        is_new = partition is None
        if partition is None:
            partition = topic.partitions[index] = self._new_partition(topic, index)
        if len(image.replicas) > 1 or self._fetchers is not None:
            self._before_role(partition, image)
        if image.leader == broker.config.node_id:
            partition.make_leader(
                image.leader_epoch,
                image.isr,
                image.replicas,
                partition_epoch=image.partition_epoch,
                now_ms=broker.clock_ms(),
            )
        else:
            partition.make_follower(
                image.leader, image.leader_epoch, image.isr, image.replicas, partition_epoch=image.partition_epoch
            )
            if image.leader >= 0 and not self._is_offline(partition):
                self._replica_fetchers().follow(partition)
        if is_new and len(image.replicas) > 1:
            self._throttle(partition, self._config_of(topic.name))
            broker.fetch_sessions.partition_appeared(topic.name, topic.topic_id, index)
        if topic.name in INTERNAL_TOPICS:
            broker.coordinators.role_changed(partition)
        if self.directory_reporter is not None:
            self.directory_reporter.check(partition, image)
        broker.wake(partition)

    def _before_role(self, partition: Partition, image: PartitionImage) -> None:
        """A leader copies from nobody and watches over its followers."""
        leads = image.leader == self._broker.config.node_id
        if self._fetchers is not None and (leads or image.leader < 0):
            self._fetchers.unfollow(partition)
        if leads:
            if self._isr_sender is None:
                from kafkapy.server.isr_sender import IsrSender

                self._isr_sender = IsrSender(self._broker)
            self._isr_sender.watch(partition)

    def _replica_fetchers(self) -> ReplicaFetchers:
        if self._fetchers is None:
            from kafkapy.server.replica_fetchers import ReplicaFetchers

            self._fetchers = ReplicaFetchers(self._broker)
            if self._logs_are_checked:
                self._fetchers.start()
        return self._fetchers

    def _new_partition(self, topic: TopicReplicas, index: int) -> Partition:
        broker = self._broker
        name = TopicPartition(topic.name, index)
        topic_id = topic.topic_id

        def open_log() -> Log:
            opened = broker.logs.get(name, self._config_of(name.topic), topic_id, broker.clock_ms())
            if self.directory_reporter is not None:
                self.directory_reporter.opened(partition)
            return opened

        partition = Partition(name, topic_id, broker.config.node_id, open_log, broker.logs.high_watermark(name))
        return partition

    def _delete_topic(self, name: str, topic_id: bytes, partition_count: int) -> None:
        broker = self._broker
        topic = broker.replicas.topics.pop(name, None)
        broker.replicas.by_id.pop(topic_id, None)
        if topic is not None:
            self._remove(list(topic.partitions.values()))

    def _remove(self, partitions: list[Partition]) -> None:
        """Stop what goes on with these partitions and delete their logs: the topic is gone, or they are somewhere else now."""
        broker = self._broker
        paths = []
        for partition in partitions:
            partition.make_follower(-1, partition.leader_epoch, (), ())
            if self._fetchers is not None:
                self._fetchers.unfollow(partition)
            if partition.topic_partition.topic in INTERNAL_TOPICS:
                broker.coordinators.role_changed(partition)
            try:
                path = broker.logs.delete(partition.topic_partition, os.urandom(16))
            except StorageError as error:
                self.storage_failed(error)
                continue
            if path is not None:
                paths.append(path)
            broker.wake(partition)
        broker.deleter.delete_later(paths, broker.config.log_segment_delete_delay_ms)

    def stop(self) -> None:
        """The logs are about to be closed."""
        if self._fetchers is not None:
            self._fetchers.stop()

    # ---- configuration

    def _config_of(self, topic: str) -> LogConfig:
        return self._log_configs.of(self._broker.topic_overrides(topic))

    def _reconfigure(self, delta: MetadataDelta, image: MetadataImage) -> None:
        broker = self._broker
        touched = {resource.name for resource in delta.configs if resource.type == TOPIC}
        if any(resource.type == BROKER for resource in delta.configs):
            node = str(broker.config.node_id)
            config, ignored = reconfigured(self._file_config, image.config(BROKER, ""), image.config(BROKER, node))
            for sentence in ignored:
                log.warning("%s", sentence)
            broker.reconfigure(config)
            self._set_rates(image)
            self._log_configs = LogConfigs(config)
            touched.update(broker.replicas.topics)
        for name in touched:
            topic = broker.replicas.topics.get(name)
            if topic is None:
                continue
            log_config = self._log_configs.of(image.config(TOPIC, name))
            for partition in topic.partitions.values():
                self._throttle(partition, log_config)
                if partition.opened is not None:
                    partition.opened.update_config(log_config)

    def _throttle(self, partition: Partition, config: LogConfig) -> None:
        """Hold copies of this partition back where its topic's configuration names it."""
        index, node_id = partition.topic_partition.partition, self._broker.config.node_id
        leads = is_throttled(config.leader_replication_throttled_replicas, index, node_id)
        follows = is_throttled(config.follower_replication_throttled_replicas, index, node_id)
        partition.leader_throttle = self._leader_throttle if leads else None
        partition.follower_throttle = self._follower_throttle if follows else None

    def _set_rates(self, image: MetadataImage) -> None:
        """The rates are dynamic only: this broker's own, or those for all brokers."""
        own = {**image.config(BROKER, ""), **image.config(BROKER, str(self._broker.config.node_id))}
        self._leader_throttle.rate = int(own.get("leader.replication.throttled.rate", UNLIMITED))
        self._follower_throttle.rate = int(own.get("follower.replication.throttled.rate", UNLIMITED))

    # ---- disks

    def storage_failed(self, error: StorageError) -> None:
        """Say what is wrong, and take a data folder offline if its disk has failed: nothing new is put there from then on.

        A full disk is no failure where there is no other broker: appends are refused until there is room again. In a cluster it is one, since
        other replicas can go on, and would otherwise wait for this one. A damaged log is offline alone.
        """
        broker = self._broker
        if isinstance(error, DiskFullError) and broker.config.single_node:
            now_ms = broker.clock_ms()
            if now_ms >= self._say_full_again_ms:
                self._say_full_again_ms = now_ms + DISK_FULL_INTERVAL_MS
                log.error("the disk is full, appends are refused until there is room: %s", error)
            return
        if isinstance(error, DamagedLogError):
            log.error("damaged: %s", error)
            return
        for folder in broker.logs.folders:
            if error.path.startswith(folder.path) and folder.failure is None:
                self._take_offline(folder, error)

    def _take_offline(self, folder: DataFolder, error: StorageError) -> None:
        """A data folder has failed: its partitions answer KAFKA_STORAGE_ERROR until the controller has given them other leaders."""
        broker = self._broker
        folder.failure = error
        log.error("data folder %s is offline: %s", folder.path, error)
        for partition in broker.replicas.all_partitions():
            if not self._is_offline(partition):
                continue
            if partition.opened is not None and partition.opened.failure is None:
                partition.opened.failure = error
            if self._fetchers is not None:
                self._fetchers.unfollow(partition)
            partition.tell_watchers()
            broker.wake(partition)
        if broker.cluster is not None:
            broker.cluster.hurry()
        if all(one.failure is not None for one in broker.logs.folders):
            broker.fail(StartError(f"no data folder is left to work with: {error}"))

    def _is_offline(self, partition: Partition) -> bool:
        """Whether the partition lies in a data folder that has failed."""
        logs = self._broker.logs
        name = partition.topic_partition
        return logs.contains(name) and logs.data_folder(name).failure is not None

    def offline_log_dirs(self) -> list[bytes]:
        """The directory ids of the data folders that have failed, for the heartbeat."""
        return [folder.directory_id for folder in self._broker.logs.folders if folder.failure is not None]

    # ---- starting

    def set_aside_strays(self) -> None:
        """Partition folders that the metadata does not know (any more) are renamed, never deleted: somebody may have put them there."""
        broker = self._broker
        for name in broker.logs.partitions():
            if name.topic == CLUSTER_METADATA_TOPIC or self._is_known(name):
                continue
            path = broker.logs.set_aside(name, os.urandom(16))
            log.warning("%s is not a partition of this cluster; its folder is now %s", name, path)

    def _is_known(self, name: TopicPartition) -> bool:
        """Whether the metadata, as far as it is known, puts this very partition here."""
        broker = self._broker
        topic = broker.replicas.topics.get(name.topic)
        if topic is None or name.partition not in topic.partitions:
            return False
        return broker.logs.stored_topic_id(name) in (None, topic.topic_id)

    async def recover(self) -> None:
        """After an unclean stop: check all logs in threads, a few at a time, before anything is served."""
        names = [name for name in self._broker.logs.needing_recovery() if self._is_known(name)]
        if names:
            await self._recover_all(names)

    def follow_leaders(self) -> None:
        """All logs have been checked: from now on they may grow and be cut."""
        self._logs_are_checked = True
        if self._fetchers is not None:
            self._fetchers.start()

    async def _recover_all(self, names: list[TopicPartition]) -> None:
        broker = self._broker
        log.info("the last stop was not clean: checking %d logs", len(names))
        limiter = trio.CapacityLimiter(
            max(1, broker.config.num_recovery_threads_per_data_dir) * len(broker.config.log_dirs)
        )
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(self._recover, name, limiter)

    async def _recover(self, name: TopicPartition, limiter: trio.CapacityLimiter) -> None:
        broker = self._broker
        topic = broker.replicas.topics.get(name.topic)
        if topic is None:
            return  # deleted meanwhile
        try:
            recovered = await trio.to_thread.run_sync(
                broker.logs.recover,
                name,
                self._config_of(name.topic),
                topic.topic_id,
                broker.clock_ms(),
                limiter=limiter,
            )
        except StorageError as error:
            # Damage that must not be guessed away: this partition stays offline, the others serve.
            log.error("%s stays offline: %s", name, error)
            return
        broker.logs.adopt(recovered)
