"""Short ways to write the requests and batches that tests send most."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kafkapy.types import ZERO_UUID
from kafkapy.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kafkapy.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.wire.records import BatchBuilder


def batch(*values: bytes | None, key: bytes | None = None, timestamp: int | None = None, **options: Any) -> bytes:
    """One batch with these values; the options are those of BatchBuilder."""
    builder = BatchBuilder(**options)
    for value in values:
        builder.append(int(time.time() * 1000) if timestamp is None else timestamp, key, value)
    return bytes(builder.build())


def produce(
    topic: str,
    records: bytes | None,
    *,
    index: int = 0,
    acks: int = 1,
    topic_id: bytes = ZERO_UUID,
    timeout_ms: int = 5000,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """A Produce of one batch to one partition."""
    return produce_many(
        [(topic, index, records)],
        acks=acks,
        topic_id=topic_id,
        timeout_ms=timeout_ms,
        transactional_id=transactional_id,
    )


def produce_many(
    parts: Sequence[tuple[str, int, bytes | None]],
    *,
    acks: int = 1,
    topic_id: bytes = ZERO_UUID,
    timeout_ms: int = 5000,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """A Produce of several (topic, partition, records)."""
    topics: dict[str, TopicProduceData] = {}
    for topic, index, records in parts:
        data = topics.setdefault(topic, TopicProduceData(name=topic, topic_id=topic_id))
        data.partition_data.append(PartitionProduceData(index=index, records=records))
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=list(topics.values()), transactional_id=transactional_id
    )


def fetch_partition(index: int = 0, offset: int = 0, max_bytes: int = 1 << 20, **options: Any) -> FetchPartition:
    """One partition of a Fetch."""
    return FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes, **options)


def fetch(
    topic: str | bytes,
    *partitions: FetchPartition,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    forget: Sequence[int] = (),
    **options: Any,
) -> FetchRequest:
    """A Fetch of partitions of one topic, named or given by its id."""
    named = _fetch_name(topic)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(partitions=list(partitions), **named)] if partitions else [],
        forgotten_topics_data=[ForgottenTopic(partitions=list(forget), **named)] if forget else [],
        **options,
    )


def _fetch_name(topic: str | bytes) -> dict[str, Any]:
    return {"topic_id": topic} if isinstance(topic, bytes) else {"topic": topic}


def list_offsets(
    topic: str, timestamp: int, *, index: int = 0, epoch: int = -1, isolation: int = 0
) -> ListOffsetsRequest:
    """A ListOffsets of one partition."""
    asked = ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
    return ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
    )


def metadata(*names: str, create: bool = False) -> MetadataRequest:
    """A Metadata for these topics."""
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=create)
