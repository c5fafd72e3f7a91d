"""AddPartitionsToTxn (key 24, v0-5): partitions that a transaction is about to write to.

v0-3 come from clients, for one transaction. v4-5 come from other brokers, for many, and may ask only whether the partitions
take part already. All partitions of a transaction are added or none: where one does not exist, the others answer
OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkapy.coordination import Reply
from kafkapy.errors import ErrorCode
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.transaction_replies import code_for
from kafkapy.handlers.wait import Wait
from kafkapy.transactions.transaction import EPOCH_BUMP_VERSION, Producer
from kafkapy.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FENCED_VERSION = 2
BATCHED_VERSION = 4

Codes = Mapping[tuple[str, int], ErrorCode]


class _Asked(NamedTuple):
    """One transaction of the request: its codes, or the Reply that will have them."""

    transactional_id: str
    topics: list[AddPartitionsToTxnTopic]
    codes: Codes | Reply


def handle(context: RequestContext, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse | Wait:
    """Ask the coordinator about every transaction, and answer when all are decided."""
    version = context.api_version
    if version < BATCHED_VERSION:
        transactions = [
            AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
        ]
    else:
        transactions = request.transactions
    asked = [_Asked(one.transactional_id, one.topics, _ask(context, one)) for one in transactions]
    waiting = [one.codes for one in asked if isinstance(one.codes, Reply) and one.codes.response is None]
    if not waiting:
        return _respond(version, asked)

    def again(expired: bool) -> AddPartitionsToTxnResponse | None:
        if not expired and any(reply.response is None for reply in waiting):
            return None
        return _respond(version, asked)

    return Wait(tuple(waiting), context.now_ms + context.broker.config.request_timeout_ms, again)


def _ask(context: RequestContext, transaction: AddPartitionsToTxnTransaction) -> Codes | Reply:
    topics = context.broker.replicas.topics
    partitions = frozenset((topic.name, index) for topic in transaction.topics for index in topic.partitions)
    missing = {
        (name, index)
        for name, index in partitions
        if name not in topics or not 0 <= index < topics[name].partition_count
    }
    if missing:
        return {
            one: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if one in missing else ErrorCode.OPERATION_NOT_ATTEMPTED
            for one in partitions
        }
    coordinator = context.broker.transactions
    transactional_id = transaction.transactional_id
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    version = context.api_version
    if transaction.verify_only:
        reply: Reply = coordinator.verify_partitions(transactional_id, producer, partitions, context.now_ms)
        return reply

    def make(code: ErrorCode, producer: Producer) -> Codes:
        return dict.fromkeys(partitions, code_for(code, version, FENCED_VERSION))

    client_version = EPOCH_BUMP_VERSION if version >= BATCHED_VERSION else 0
    added: Reply = coordinator.add_partitions(
        transactional_id, producer, partitions, client_version, context.now_ms, make
    )
    return added


def _respond(version: int, asked: list[_Asked]) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=_topics(one)) for one in asked
    ]
    if version < BATCHED_VERSION:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _topics(asked: _Asked) -> list[AddPartitionsToTxnTopicResult]:
    codes = asked.codes.response if isinstance(asked.codes, Reply) else asked.codes
    if codes is None:  # the followers were too slow
        codes = {}
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
        for topic in asked.topics
    ]
