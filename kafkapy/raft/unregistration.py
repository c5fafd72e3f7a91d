"""Removing a broker from the cluster: a pure decision on an image, with Apache Kafka's codes and sentences.

As in Apache Kafka nobody asks whether it is still running. What it leads has no leader afterwards, unless another replica is in sync; it stays in
the ISR where it is the last one, because only it has all records. A broker that comes back registers anew and leads them again.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.decision import DECISION_RECORDS_MAX, Decision
from kafkapy.raft.image import NO_LEADER, MetadataImage, PartitionImage
from kafkapy.wire.messages.unregister_broker import UnregisterBrokerResponse
from kafkapy.wire.metadata_records import PartitionChangeRecord, UnregisterBrokerRecord
from kafkapy.wire.schema import Record


def unregister_broker(image: MetadataImage, broker_id: int) -> Decision:
    """Forget the broker; KafkaError BROKER_ID_NOT_REGISTERED if there is none."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    records: list[Record] = []
    for name in sorted(image.topics.by_name):
        topic = image.topics.by_name[name]
        for number, partition in enumerate(topic.partitions):
            changed = _without(image, partition, broker_id)
            if changed is not None:
                changed.topic_id, changed.partition_id = topic.id, number
                records.append(changed)
    if len(records) >= DECISION_RECORDS_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "The broker has too many partitions to be removed at once.")
    records.append(UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch))
    return Decision(records, UnregisterBrokerResponse())


def _without(image: MetadataImage, partition: PartitionImage, broker_id: int) -> PartitionChangeRecord | None:
    """What changes in a partition; None if it loses nothing."""
    rest = [one for one in partition.isr if one != broker_id]
    leads = partition.leader == broker_id
    if not leads and (broker_id not in partition.isr or not rest):
        return None
    record = PartitionChangeRecord(isr=rest) if rest else PartitionChangeRecord()
    if leads:
        living = (one for one in rest if one in image.brokers and image.brokers[one].is_active)
        record.leader = next(living, NO_LEADER)
    return record
