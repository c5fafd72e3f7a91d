"""WriteTxnMarkers (key 27, v1-2): append the markers of ended transactions to partitions that this broker leads.

Sent by the transaction coordinator of another broker, and by Admin.abortTransaction. Each partition answers for itself, once its marker is
replicated. v2 says which transaction version the marker belongs to: from version 2 on its epoch must be above that of the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkapy.errors import ErrorCode, KafkaError, StorageError
from kafkapy.handlers.wait import Wait
from kafkapy.log.append_info import AppendOrigin
from kafkapy.transactions.transaction import Producer
from kafkapy.types import OFFSETS_TOPIC
from kafkapy.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkapy.wire.records import encode_end_txn_marker

if TYPE_CHECKING:
    from kafkapy.handlers.context import BrokerView, RequestContext
    from kafkapy.log.partition import Partition


class Appended(NamedTuple):
    """Where a marker stands, for those who wait until it is replicated."""

    partition: Partition
    offset: int
    leader_epoch: int

    @property
    def code(self) -> ErrorCode | None:
        """NONE once the marker is replicated, an error if it may be lost, None as long as nobody knows."""
        if not self.partition.is_leader or self.partition.leader_epoch != self.leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE if self.partition.high_watermark > self.offset else None


def append_marker(
    broker: BrokerView,
    topic_name: str,
    index: int,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    committed: bool,
    transaction_version: int,
    now_ms: int,
) -> Appended:
    """Append a marker to a partition that this broker leads, and let the group coordinator know if it holds offsets back."""
    topic = broker.replicas.topics.get(topic_name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(topic.missing_partition(index))
    batch = encode_end_txn_marker(committed, coordinator_epoch, producer_id, producer_epoch, now_ms)
    try:
        info = partition.append_as_leader(
            batch,
            now_ms=now_ms,
            required_acks=-1,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=transaction_version,
        )
    except StorageError as error:
        broker.storage_failed(error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
    broker.wake(partition)
    broker.transactions.guards.ended(topic_name, index, Producer(producer_id, producer_epoch))
    if topic_name == OFFSETS_TOPIC:
        broker.groups.end_transaction(index, producer_id, commit=committed)
    return Appended(partition, info.last_offset, partition.leader_epoch)


def handle(context: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse | Wait:
    """Append all markers, then answer when they are replicated."""
    markers: list[WritableTxnMarkerResult] = []
    waiting: list[tuple[Appended, WritableTxnMarkerPartitionResult]] = []
    for marker in request.markers:
        topics: list[WritableTxnMarkerTopicResult] = []
        for topic in marker.topics:
            results: list[WritableTxnMarkerPartitionResult] = []
            for index in topic.partition_indexes:
                result = WritableTxnMarkerPartitionResult(partition_index=index)
                try:
                    appended = append_marker(
                        context.broker,
                        topic.name,
                        index,
                        producer_id=marker.producer_id,
                        producer_epoch=marker.producer_epoch,
                        coordinator_epoch=marker.coordinator_epoch,
                        committed=marker.transaction_result,
                        transaction_version=marker.transaction_version,
                        now_ms=context.now_ms,
                    )
                except KafkaError as error:
                    result.error_code = error.code
                else:
                    waiting.append((appended, result))
                results.append(result)
            topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=results))
        markers.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
    response = WriteTxnMarkersResponse(markers=markers)

    def again(expired: bool) -> WriteTxnMarkersResponse | None:
        codes = [appended.code for appended, _ in waiting]
        if None in codes and not expired:
            return None
        for (_, result), code in zip(waiting, codes, strict=True):
            result.error_code = ErrorCode.REQUEST_TIMED_OUT if code is None else code
        return response

    ready = again(False)
    if ready is not None:
        return ready
    keys = tuple(appended.partition for appended, _ in waiting)
    return Wait(keys, context.now_ms + context.broker.config.request_timeout_ms, again)
