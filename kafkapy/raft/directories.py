"""Which log directory holds which replica, and what a failed one takes along: pure decisions on an image.

A broker with several log directories tells where it has put its replicas. The controller must know, because when a directory fails only
the replicas in it are lost to the cluster, and the rest of the broker goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.errors import ErrorCode
from kafkapy.raft.decision import Decision
from kafkapy.raft.image import BrokerRegistration, MetadataImage, TopicImage
from kafkapy.raft.leadership import Leadership, Wanted, all_partitions, has_online_directory
from kafkapy.raft.registrations import check_broker_epoch
from kafkapy.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectory,
    ResponsePartition,
    ResponseTopic,
)
from kafkapy.wire.metadata_records import BrokerRegistrationChangeRecord
from kafkapy.wire.schema import Record


def assign_replicas(image: MetadataImage, request: AssignReplicasToDirsRequest, config: BrokerConfig) -> list[Decision]:
    """Each replica is assigned or refused by itself; one in a directory that has failed meanwhile leaves the ISR."""
    broker = check_broker_epoch(image, request.broker_id, request.broker_epoch)
    everybody, without = Leadership(image, config), Leadership(image, config, gone=(broker.id,))
    records: list[Record] = []
    directories: list[ResponseDirectory] = []
    for directory in request.directories:
        topics: list[ResponseTopic] = []
        directories.append(ResponseDirectory(id=directory.id, topics=topics))
        leadership = everybody if has_online_directory(broker, directory.id) else without
        for asked in directory.topics:
            answers: list[ResponsePartition] = []
            topics.append(ResponseTopic(topic_id=asked.topic_id, partitions=answers))
            topic = image.topics.get_by_id(asked.topic_id)
            for one in asked.partitions:
                code = _reason_to_refuse(topic, one.partition_index, broker)
                answers.append(ResponsePartition(partition_index=one.partition_index, error_code=code))
                if topic is not None and code == ErrorCode.NONE:
                    isr = (
                        None
                        if leadership is everybody
                        else without_broker(topic.partitions[one.partition_index].isr, broker.id)
                    )
                    record = leadership.change(
                        topic, one.partition_index, Wanted(isr=isr, directories={broker.id: directory.id})
                    )
                    if record is not None:
                        records.append(record)
    everybody.notes += without.notes
    return everybody.decisions(records, AssignReplicasToDirsResponse(directories=directories))


def _reason_to_refuse(topic: TopicImage | None, number: int, broker: BrokerRegistration) -> ErrorCode:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not 0 <= number < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.id not in topic.partitions[number].replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def directories_offline(
    image: MetadataImage, broker_id: int, directories: Collection[bytes], config: BrokerConfig
) -> list[Decision]:
    """Log directories of a broker have failed: replicas there leave the ISR and lead nothing, the rest of the broker goes on."""
    broker = image.brokers[broker_id]
    lost = set(directories).intersection(broker.log_dirs)
    if not lost:
        return []
    leadership = Leadership(image, config, gone=(broker_id,))
    records: list[Record] = []
    for topic, number, partition in all_partitions(image):
        if broker_id not in partition.replicas:
            continue
        place = partition.replicas.index(broker_id)
        if place < len(partition.directories) and partition.directories[place] in lost:
            record = leadership.change(topic, number, Wanted(isr=without_broker(partition.isr, broker_id)))
            if record is not None:
                records.append(record)
    rest = [directory for directory in broker.log_dirs if directory not in lost]
    if rest:  # The record has no way to say that none is left; who has none is fenced.
        records.append(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, log_dirs=rest))
    leadership.notes.append(f"broker {broker_id} has lost {len(lost)} log directories and goes on with {len(rest)}")
    return leadership.decisions(records)


def cordon_directories(image: MetadataImage, broker_id: int, directories: Collection[bytes]) -> list[Decision]:
    """Directories take no new replicas, as the broker tells it now; nothing where that is known."""
    broker = image.brokers[broker_id]
    wanted = sorted(set(directories).intersection(broker.log_dirs))
    if wanted == sorted(broker.cordoned_log_dirs or ()):
        return []
    record = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=wanted)
    return [Decision([record], None)]


def without_broker(brokers: Iterable[int], broker_id: int) -> list[int]:
    """The others."""
    return [one for one in brokers if one != broker_id]
