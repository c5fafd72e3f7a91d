"""Produce (key 0, v3-13; advertised from 0): append each partition's batch, as it came, to its log.

The records never leave the connection's buffer: the batch header is checked, two fields are patched in place, and the same memory is
written to the segment. acks=0 is answered with nothing, and an error then closes the connection so that the producer asks for metadata anew.
acks=-1 is answered when the high watermark has passed the batch, which on a single node it already has; NOT_ENOUGH_REPLICAS_AFTER_APPEND says that
too few replicas were in sync by then. A topic with flush.messages or flush.ms is answered when the flush that became due is done.

v8: record errors. v10: the new leader of a partition that moved (KIP-951). v12: transactions add their partitions implicitly (KIP-890).
v13: topic ids (KIP-516).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkapy.errors import ErrorCode, KafkaError, StorageError
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.leader_hints import add_leader_hint, endpoints_of
from kafkapy.handlers.wait import Wait
from kafkapy.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkapy.wire.record_batch import RecordsRefused, read_header

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkapy.handlers.replicas import TopicReplicas
    from kafkapy.log.partition import Partition


class Pending(NamedTuple):
    """An append whose answer must wait: for the replicas, for the disk, or for both."""

    partition: Partition
    last_offset: int
    leader_epoch: int
    replicated: bool  # wait for the high watermark
    durable: bool  # wait for the flush
    answer: PartitionProduceResponse

    def is_done(self) -> bool:
        """Whether what it waits for has come."""
        partition = self.partition
        return not (
            (self.replicated and partition.high_watermark <= self.last_offset)
            or (self.durable and partition.log.recovery_point <= self.last_offset)
        )


def handle(context: RequestContext, request: ProduceRequest) -> ProduceResponse | Wait | None:
    """Append, then answer at once or wait for the high watermark."""
    if request.transactional_id is not None:
        from kafkapy.handlers.produce_transactions import append_in_transaction

        return append_in_transaction(context, request, append_all)
    return append_all(context, request, None)


def append_all(
    context: RequestContext, request: ProduceRequest, codes: Mapping[tuple[str, int], ErrorCode] | None
) -> ProduceResponse | Wait | None:
    """Append every partition's batch. `codes` says what the transaction coordinator thinks of partitions; None: no transaction."""
    replicas = context.broker.replicas
    by_id = context.api_version >= 13
    acks = request.acks
    pending: list[Pending] = []
    topics: list[TopicProduceResponse] = []
    failed = False
    for topic_data in request.topic_data:
        name = topic_data.name
        topic = replicas.by_id.get(topic_data.topic_id) if by_id else replicas.topics.get(name)
        answers: list[PartitionProduceResponse] = []
        for data in topic_data.partition_data:
            try:
                if codes and topic is not None and codes.get((topic.name, data.index)):
                    code = codes[topic.name, data.index]
                    raise KafkaError(
                        code, f"the transaction coordinator does not have {topic.name}-{data.index}: {code.name}"
                    )
                answer = _append(context, acks, topic, data, pending, codes is not None)
            except KafkaError as error:
                failed = True
                answer = _refusal(data, error, codes is not None)
                if context.api_version >= 10:
                    add_leader_hint(context, answer, topic.name if topic is not None else name, data.index)
            answers.append(answer)
        topics.append(TopicProduceResponse(name=name, topic_id=topic_data.topic_id, partition_responses=answers))
    if acks == 0:
        if failed:
            context.connection.close()
        return None
    response = ProduceResponse(responses=topics)
    if pending:
        return _wait(context, request.timeout_ms, pending, response)
    return _with_endpoints(context, response) if failed else response


def _with_endpoints(context: RequestContext, response: ProduceResponse) -> ProduceResponse:
    """The addresses of the leaders that refusals name."""
    if context.api_version >= 10:
        leaders = [
            answer.current_leader.leader_id for topic in response.responses for answer in topic.partition_responses
        ]
        response.node_endpoints = endpoints_of(context, leaders, NodeEndpoint)
    return response


def _append(
    context: RequestContext,
    acks: int,
    topic: TopicReplicas | None,
    data: PartitionProduceData,
    pending: list[Pending],
    transaction_verified: bool,
) -> PartitionProduceResponse:
    if topic is None:
        by_id = context.api_version >= 13
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    broker = context.broker
    partition = topic.partitions.get(data.index)
    if partition is None:
        raise KafkaError(topic.missing_partition(data.index))
    if not -1 <= acks <= 1:
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    if topic.internal and context.client_id != "__admin_client":
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
    if data.records is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a partition without records")
    try:
        info = partition.append_as_leader(
            data.records,
            now_ms=context.now_ms,
            produce_version=context.api_version,
            required_acks=acks,
            transaction_verified=transaction_verified,
        )
    except StorageError as error:
        broker.storage_failed(error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
    committed = partition.high_watermark > info.last_offset
    if committed:
        broker.wake(partition)
    answer = PartitionProduceResponse(
        index=data.index,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
    )
    replicated = acks == -1 and not committed
    durable = partition.log.needs_flush(context.now_ms)
    if durable:
        broker.flush(partition)
    if replicated or durable:
        pending.append(Pending(partition, info.last_offset, partition.leader_epoch, replicated, durable, answer))
    return answer


def _refusal(data: PartitionProduceData, error: KafkaError, in_transaction: bool) -> PartitionProduceResponse:
    code = error.code
    if code is ErrorCode.INVALID_TXN_STATE and not in_transaction and read_header(data.records).is_transactional:
        # A transactional batch in a request that names no transactional id: nobody could ever end that transaction.
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    answer = PartitionProduceResponse(
        index=data.index, error_code=code, base_offset=-1, log_start_offset=-1, error_message=error.message
    )
    if isinstance(error, RecordsRefused):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=text)
            for number, text in error.record_errors
        ]
    return answer


def _wait(context: RequestContext, timeout_ms: int, pending: list[Pending], response: ProduceResponse) -> Wait:
    """Hold the answer until every batch is where it must be, or the time that the client gave is over."""

    def again(expired: bool) -> ProduceResponse | None:
        still: list[Pending] = []
        moved = False
        for entry in pending:
            partition, answer = entry.partition, entry.answer
            if partition.leader_epoch != entry.leader_epoch or not partition.is_leader:
                answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                moved = True
                if context.api_version >= 10:
                    add_leader_hint(context, answer, *partition.topic_partition)
            elif partition.log.failure is not None:
                answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            elif entry.is_done():
                if not (entry.replicated and partition.is_under_min_isr):
                    continue
                answer.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            elif expired:
                answer.error_code = ErrorCode.REQUEST_TIMED_OUT
            else:
                still.append(entry)
                continue
            answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
        pending[:] = still
        if still:
            return None
        return _with_endpoints(context, response) if moved else response

    keys = tuple(entry.partition for entry in pending)
    return Wait(keys, context.now_ms + max(0, timeout_ms), again)
