"""DescribeProducers (key 61, v0): the producers that a partition remembers, and their open transactions (KIP-664)."""

from __future__ import annotations

from kafkapy.errors import KafkaError
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.lookup import led_partition
from kafkapy.raft.topic_names import check_topic_name
from kafkapy.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Answer each partition on its own."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name, partitions=[_describe(context, topic.name, index) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _describe(context: RequestContext, topic: str, index: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
        partition = led_partition(context, topic, index)
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=str(error))
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.current_txn_first_offset,
            )
            for producer in partition.log.active_producers()
        ],
    )
