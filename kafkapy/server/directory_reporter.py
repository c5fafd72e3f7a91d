"""Tells the controller which of this broker's log directories holds which replica (KIP-858), as far as it can't know.

With several directories the controller can tell what is lost with one that fails, and move those leaderships while the rest of the broker serves
on. With a single one it knows, until the disk is replaced: then the old directory is still in the metadata, and for good reason. The new one is
empty, so nobody must take this replica for its former self and let it lead. It says where it is only when somebody else leads the
partition, and so it can get the records back.

A log is put into a directory when it is first touched, so replicas become known one by one; what has gathered while a request was on its way
leaves with the next one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kafkapy.errors import ErrorCode
from kafkapy.raft.image import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, NO_LEADER

if TYPE_CHECKING:
    from kafkapy.log.partition import Partition
    from kafkapy.raft.image import PartitionImage
    from kafkapy.server.broker import Broker

log = logging.getLogger("kafkapy.replicas")

# As many as Apache Kafka puts into one request.
REPLICAS_PER_REQUEST_MAX = 2250
TIMEOUT_MS = 10_000
RETRY_MS = 1_000


class DirectoryReporter:
    """The replicas whose directory the controller doesn't know yet."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._unreported: dict[tuple[bytes, int], bytes] = {}
        self._sent: dict[tuple[bytes, int], bytes] = {}
        self._is_due = False

    def check(self, partition: Partition, image: PartitionImage) -> None:
        """The metadata tells where the replica is; if it is somewhere else, say so."""
        logs, name = self._broker.logs, partition.topic_partition
        if not logs.contains(name):
            return
        directory_id = logs.data_folder(name).directory_id
        place = image.replicas.index(self._broker.config.node_id)
        told = image.directories[place] if place < len(image.directories) else DIRECTORY_UNASSIGNED
        is_replaced = told not in (directory_id, DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING)
        if told == directory_id or (is_replaced and image.leader == NO_LEADER):
            self._unreported.pop((partition.topic_id, name.partition), None)
        else:
            self._unreported[partition.topic_id, name.partition] = directory_id
            self._send_later(0)

    def opened(self, partition: Partition) -> None:
        """The replica has got its directory, if it hadn't one already."""
        name = partition.topic_partition
        image = self._broker.image.topics.partition(name.topic, name.partition)
        if image is not None and self._broker.config.node_id in image.replicas:
            self.check(partition, image)

    def _send_later(self, delay_ms: int) -> None:
        if not self._is_due:
            self._is_due = True
            self._broker.controller_channel.later(delay_ms, self._send)

    def _send(self) -> None:
        from kafkapy.wire.messages.assign_replicas_to_dirs import (
            AssignReplicasToDirsRequest,
            RequestDirectory,
            RequestPartition,
            RequestTopic,
        )

        self._is_due = False
        if self._sent or not self._unreported:
            return
        broker_epoch = self._broker.metadata.broker_epoch
        if broker_epoch < 0:
            self._send_later(RETRY_MS)
            return
        request = AssignReplicasToDirsRequest(broker_id=self._broker.config.node_id, broker_epoch=broker_epoch)
        directories: dict[bytes, dict[bytes, RequestTopic]] = {}
        for (topic_id, index), directory_id in list(self._unreported.items())[:REPLICAS_PER_REQUEST_MAX]:
            topics = directories.setdefault(directory_id, {})
            topic = topics.setdefault(topic_id, RequestTopic(topic_id=topic_id))
            topic.partitions.append(RequestPartition(partition_index=index))
            self._sent[topic_id, index] = self._unreported.pop((topic_id, index))
        request.directories = [
            RequestDirectory(id=directory_id, topics=list(topics.values()))
            for directory_id, topics in directories.items()
        ]
        self._broker.controller_channel.ask(request, 0, self._answered, TIMEOUT_MS)

    def _answered(self, response: Any) -> None:
        sent, self._sent = self._sent, {}
        if response is None or response.error_code:
            if response is not None:
                log.warning("the controller refused log directories: %s", ErrorCode(response.error_code).name)
            self._unreported = {**sent, **self._unreported}
            self._send_later(RETRY_MS)
        elif self._unreported:
            self._send_later(0)
