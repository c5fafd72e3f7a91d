"""AddPartitionsToTxn (key 24, v0-5): partitions that a transaction is about to write to.

v0-3 come from clients, for one transaction. v4-5 come from other brokers, for many, and may ask only whether the partitions
take part already. All partitions of a transaction are added or none: where one does not exist, the others answer
OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.transaction_replies import code_for
from kafkapy.handlers.wait import Wait
from kafkapy.transactions.coordinator import Codes
from kafkapy.transactions.transaction import Producer
from kafkapy.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FENCED_VERSION = 2
BATCHED_VERSION = 4


class _Asked:
    """One transaction of the request. It is the key on which the answer waits until it has its codes."""

    __slots__ = ("codes", "transaction")

    def __init__(self, transaction: AddPartitionsToTxnTransaction) -> None:
        self.transaction = transaction
        self.codes: Codes | None = None


def handle(context: RequestContext, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse | Wait:
    """Ask the coordinator about every transaction, and answer when all are decided."""
    version = context.api_version
    if version >= BATCHED_VERSION:
        transactions = request.transactions
    else:
        transactions = [
            AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
        ]
    asked = [_Asked(transaction) for transaction in transactions]
    for one in asked:
        _ask(context, one)
    waiting = [one for one in asked if one.codes is None]
    if not waiting:
        return _respond(version, asked)

    def again(expired: bool) -> AddPartitionsToTxnResponse | None:
        if not expired and any(one.codes is None for one in waiting):
            return None
        return _respond(version, asked)

    return Wait(tuple(waiting), context.now_ms + context.broker.config.request_timeout_ms, again)


def _ask(context: RequestContext, asked: _Asked) -> None:
    broker, transaction = context.broker, asked.transaction
    partitions = frozenset((topic.name, index) for topic in transaction.topics for index in topic.partitions)
    missing = {one for one in partitions if not _exists(context, *one)}
    if missing:
        asked.codes = {
            one: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if one in missing else ErrorCode.OPERATION_NOT_ATTEMPTED
            for one in partitions
        }
        return
    transactional_id = transaction.transactional_id
    producer = Producer(transaction.producer_id, transaction.producer_epoch)

    def decided(codes: Codes) -> None:
        asked.codes = codes
        broker.wake(asked)

    if context.api_version >= BATCHED_VERSION:
        broker.transactions.verify_or_add(
            transactional_id, producer, partitions, context.now_ms, decided, add=not transaction.verify_only
        )
        return

    def added(code: ErrorCode, producer: Producer) -> Codes:
        codes = dict.fromkeys(partitions, code_for(code, context.api_version, FENCED_VERSION))
        decided(codes)
        return codes

    broker.transactions.add_partitions(transactional_id, producer, partitions, context.now_ms, added)


def _exists(context: RequestContext, topic_name: str, index: int) -> bool:
    topic = context.broker.replicas.topics.get(topic_name)
    return topic is not None and 0 <= index < topic.partition_count


def _respond(version: int, asked: list[_Asked]) -> AddPartitionsToTxnResponse:
    if version < BATCHED_VERSION:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topics(asked[0]))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transactional_id=one.transaction.transactional_id, topic_results=_topics(one))
            for one in asked
        ]
    )


def _topics(asked: _Asked) -> list[AddPartitionsToTxnTopicResult]:
    # Without codes the followers of the coordinator's log were too slow.
    codes = asked.codes or {}
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=codes.get((topic.name, index), ErrorCode.COORDINATOR_NOT_AVAILABLE),
                )
                for index in topic.partitions
            ],
        )
        for topic in asked.transaction.topics
    ]
