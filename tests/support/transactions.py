"""Transactions for tests that need one to look at."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from kafkapy.wire.messages.end_txn import EndTxnRequest
from kafkapy.wire.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.wire.messages.init_producer_id import InitProducerIdRequest
from kafkapy.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.wire.records import BatchBuilder
from tests.support.wire_client import WireClient

# Produce 12 adds the partition to the transaction; before that, without verification, nobody ever hears of it.
ADDING = 12
UNANNOUNCED = 11


@contextlib.contextmanager
def open_transaction(
    port: int,
    topic: str,
    partition: int,
    transactional_id: str,
    *,
    produce_version: int = ADDING,
    timestamp_ms: int = 0,
) -> Iterator[int]:
    """A transaction that is open for the length of a with block, with one record; the value is its producer id."""
    with WireClient("127.0.0.1", port) as wire:
        wire.request(FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id]), 4)
        producer = wire.request(
            InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=600_000), 4
        )
        assert not producer.error_code
        batch = BatchBuilder(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        batch.append(timestamp_ms or time.time_ns() // 1_000_000, b"k", b"v")
        data = PartitionProduceData(index=partition, records=bytes(batch.build()))
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        answer = wire.request(request, produce_version)
        assert not answer.responses[0].partition_responses[0].error_code, answer
        yield producer.producer_id
        # What hangs is not known to the coordinator, and has nothing to end there.
        end = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=False,
        )
        wire.request(end, 4)
