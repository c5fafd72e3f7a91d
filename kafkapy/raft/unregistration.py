"""Removing a broker from the cluster: a pure decision on an image, with Apache Kafka's codes and sentences.

As in Apache Kafka nobody asks whether it is still running. It leaves every ISR; what it leads has no leader afterwards, unless another
replica is in sync. Where it was the last one it stays eligible, because only it has all records: a broker that comes back registers anew
and leads them again.
"""

from __future__ import annotations

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.decision import Decision
from kafkapy.raft.image import MetadataImage
from kafkapy.raft.leadership import Leadership
from kafkapy.wire.messages.unregister_broker import UnregisterBrokerResponse
from kafkapy.wire.metadata_records import UnregisterBrokerRecord


def unregister_broker(image: MetadataImage, broker_id: int, config: BrokerConfig) -> list[Decision]:
    """Forget the broker; KafkaError BROKER_ID_NOT_REGISTERED if there is none."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    leadership = Leadership(image, config, gone=(broker_id,))
    records = leadership.leave_isrs(broker_id)
    records.append(UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch))
    return leadership.decisions(records, UnregisterBrokerResponse())
