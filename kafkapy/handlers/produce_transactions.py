"""Produce with a transactional id: no partition gets the first batch of a transaction that its coordinator does not know of (KIP-890).

Partitions in which the producer's transaction is open already need no question. For the others the coordinator is asked, or, from v12 on,
told: there the partition joins the transaction by being written to. The batches are appended in the very step in which the answer is known, because a
step later the transaction may have ended. Usually that is at once; who has to wait keeps a copy of the records, since the
connection's buffer moves on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.handlers.wait import Wait
from kafkapy.transactions.transaction import Producer
from kafkapy.transactions.verification import PRODUCE_ADDS_VERSION, code_for_produce
from kafkapy.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kafkapy.wire.record_batch import read_header

if TYPE_CHECKING:
    from kafkapy.handlers.context import RequestContext
    from kafkapy.wire.messages.produce import ProduceRequest

Codes = Mapping[tuple[str, int], ErrorCode]
AppendAll = Callable[["RequestContext", "ProduceRequest", Codes | None], Any]


def append_in_transaction(context: RequestContext, request: ProduceRequest, append_all: AppendAll) -> Any:
    """Ask where that is needed, then append."""
    adds = context.api_version >= PRODUCE_ADDS_VERSION
    producer, unknown = _unverified(context, request)
    if not unknown or not (adds or context.broker.config.transaction_partition_verification_enable):
        return append_all(context, request, {})
    return _Question(context, request, append_all, unknown).ask(producer, unknown, adds)


def _unverified(context: RequestContext, request: ProduceRequest) -> tuple[Producer, frozenset[tuple[str, int]]]:
    """The producer, and the partitions in which it has no open transaction yet. What is malformed is left to the append to refuse."""
    replicas = context.broker.replicas
    by_id = context.api_version >= 13
    producer = Producer()
    unknown = set()
    for topic_data in request.topic_data:
        topic = replicas.by_id.get(topic_data.topic_id) if by_id else replicas.topics.get(topic_data.name)
        if topic is None:
            continue
        for data in topic_data.partition_data:
            partition = topic.partitions.get(data.index)
            if partition is None or data.records is None:
                continue
            try:
                header = read_header(data.records)
            except KafkaError:
                continue
            if not header.is_transactional:
                continue
            producer = Producer(header.producer_id, header.producer_epoch)
            state = partition.log.producers.states.get(header.producer_id)
            if state is None or state.txn_first_offset < 0 or state.epoch != header.producer_epoch:
                unknown.add((topic.name, data.index))
    return producer, frozenset(unknown)


class _Question:
    """One request while the coordinator thinks about its partitions. It is the key on which its answer waits."""

    def __init__(
        self,
        context: RequestContext,
        request: ProduceRequest,
        append_all: AppendAll,
        partitions: frozenset[tuple[str, int]],
    ) -> None:
        self._context = context
        self._request = request
        self._append_all = append_all
        self._outcome: Any = None
        self._answered = False
        self._given_up = False
        found = (context.broker.replicas.find(name, index) for name, index in partitions)
        self._partitions = tuple(partition for partition in found if partition is not None)

    def ask(self, producer: Producer, partitions: frozenset[tuple[str, int]], adds: bool) -> Any:
        """The response, or a wait for it."""
        context, request = self._context, self._request
        assert request.transactional_id is not None
        context.broker.transactions.verify_or_add_anywhere(
            request.transactional_id, producer, partitions, context.now_ms, self._decided, add=adds
        )
        if self._answered:
            return self._outcome
        for topic in request.topic_data:
            for data in topic.partition_data:
                data.records = None if data.records is None else bytearray(data.records)
        # Once appended, the answer may wait for the partitions' high watermarks too.
        return Wait((self, *self._partitions), context.now_ms + max(0, request.timeout_ms), self._again)

    def _decided(self, codes: Codes) -> None:
        if self._given_up:
            return
        version = self._context.api_version
        shown = {place: code_for_produce(code, version) for place, code in codes.items()}
        self._outcome = self._append_all(self._context, self._request, shown)
        self._answered = True
        self._context.broker.wake(self)

    def _again(self, expired: bool) -> Any:
        if not self._answered:
            if not expired:
                return None
            self._given_up = True
            return self._timed_out()
        outcome = self._outcome
        return outcome.again(expired) if isinstance(outcome, Wait) else outcome

    def _timed_out(self) -> ProduceResponse:
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        PartitionProduceResponse(
                            index=data.index, error_code=ErrorCode.NOT_ENOUGH_REPLICAS, base_offset=-1
                        )
                        for data in topic.partition_data
                    ],
                )
                for topic in self._request.topic_data
            ]
        )
