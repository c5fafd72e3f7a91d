"""Produce with a transactional id: no partition gets the first batch of a transaction that its coordinator does not know of (KIP-890).

Partitions in which the producer's transaction is open already need no question. For the others the coordinator is asked, or, from v12 on,
told: there the partition joins the transaction by being written to. The batches are appended in the very step in which the answer is known, because a
step later the transaction may have ended. Usually that is at once; who has to wait keeps a copy of the records, since the
connection's buffer moves on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.handlers.wait import Wait
from kafkapy.transactions.ordering import Place
from kafkapy.transactions.transaction import Producer
from kafkapy.transactions.verification import PRODUCE_ADDS_VERSION, code_for_produce
from kafkapy.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kafkapy.wire.record_batch import read_header

if TYPE_CHECKING:
    from kafkapy.handlers.context import RequestContext
    from kafkapy.wire.messages.produce import ProduceRequest

Codes = Mapping[tuple[str, int], ErrorCode]
AppendAll = Callable[["RequestContext", "ProduceRequest", "Codes | None"], Any]


# Who is answered with these sends the same batch again.
_PASSING = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS)


def append_in_transaction(context: RequestContext, request: ProduceRequest, append_all: AppendAll) -> Any:
    """Ask where that is needed, then append; but never before an earlier request of the same connection (transactions/ordering.py)."""
    queues = context.broker.transactions.produce_order.queues
    queue = queues.get(context.connection)
    if queue is None:
        if not _unverified(context, request)[1] or not _asks(context):
            return append_all(context, request, {})
        queue = queues[context.connection] = deque()
    produce = _Produce(context, request, append_all)
    queue.append(produce)
    if len(queue) == 1:
        _go_on(context)
        if produce.answered:
            return produce.outcome
    wait = produce.wait()
    # Who wants no answer must not be waited for with one: there will be none, at the deadline either.
    return None if request.acks == 0 else wait


def _asks(context: RequestContext) -> bool:
    """Whether the coordinator is asked about partitions, or told of them."""
    config = context.broker.config
    return context.api_version >= PRODUCE_ADDS_VERSION or config.transaction_partition_verification_enable


def _go_on(context: RequestContext) -> None:
    """Carry out the requests of a connection in their order, up to one that has to wait."""
    queues = context.broker.transactions.produce_order.queues
    queue = queues[context.connection]
    while queue:
        head = queue[0]
        head.begin()
        if not head.answered and not head.given_up:
            return
        queue.popleft()
    del queues[context.connection]


def _unverified(context: RequestContext, request: ProduceRequest) -> tuple[Producer, dict[tuple[str, int], int]]:
    """The producer, and the partitions in which it has no open transaction yet, with the sequence of its batch there.

    What is malformed is left to the append to refuse.
    """
    replicas = context.broker.replicas
    by_id = context.api_version >= 13
    producer = Producer()
    unknown: dict[tuple[str, int], int] = {}
    for topic_data in request.topic_data:
        topic = replicas.by_id.get(topic_data.topic_id) if by_id else replicas.topics.get(topic_data.name)
        if topic is None:
            continue
        for data in topic_data.partition_data:
            partition = topic.partitions.get(data.index)
            if partition is None or not partition.is_leader or data.records is None:
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
                unknown[topic.name, data.index] = header.base_sequence
    return producer, unknown


class _Produce:
    """One request while the coordinator thinks about its partitions, or an earlier request waits. It is the key on which its answer waits."""

    def __init__(self, context: RequestContext, request: ProduceRequest, append_all: AppendAll) -> None:
        self.outcome: Any = None
        self.answered = False
        self.given_up = False
        self._context = context
        self._request = request
        self._append_all = append_all
        self._begun = False
        self._beginning = False
        self._producer = Producer()
        self._unknown: dict[tuple[str, int], int] = {}

    def begin(self) -> None:
        """It is this request's turn: append, or ask first."""
        if self._begun or self.given_up:
            return
        self._begun = self._beginning = True
        context, request = self._context, self._request
        self._producer, self._unknown = _unverified(context, request)
        if not self._unknown or not _asks(context):
            self._append({})
        else:
            assert request.transactional_id is not None
            context.broker.transactions.verify_or_add_anywhere(
                request.transactional_id,
                self._producer,
                frozenset(self._unknown),
                context.now_ms,
                self._decided,
                add=context.api_version >= PRODUCE_ADDS_VERSION,
            )
        self._beginning = False

    def wait(self) -> Wait:
        """Wait for the answer, with a copy of the records."""
        context, request = self._context, self._request
        keys: list[Hashable] = [self]
        by_id = context.api_version >= 13
        replicas = context.broker.replicas
        for topic_data in request.topic_data:
            topic = replicas.by_id.get(topic_data.topic_id) if by_id else replicas.topics.get(topic_data.name)
            for data in topic_data.partition_data:
                data.records = None if data.records is None else bytearray(data.records)
                partition = topic.partitions.get(data.index) if topic is not None else None
                if partition is not None:
                    # Once appended, the answer may wait for the high watermark too.
                    keys.append(partition)
        return Wait(tuple(keys), context.now_ms + max(0, request.timeout_ms), self._again)

    def _decided(self, codes: Codes) -> None:
        if self.given_up:
            return
        version = self._context.api_version
        self._append({place: code_for_produce(code, version) for place, code in codes.items()})
        if not self._beginning:
            _go_on(self._context)

    def _append(self, codes: dict[tuple[str, int], ErrorCode]) -> None:
        """Append what may be appended, in the very step in which that is known."""
        context = self._context
        order = context.broker.transactions.produce_order
        for (topic, index), sequence in self._unknown.items():
            place = Place(topic, index, *self._producer)
            code = codes.get((topic, index))
            if code:
                if code in _PASSING:
                    order.refused(place, sequence)
            elif self._is_known(place):
                order.forget(place)
            elif order.is_too_early(place, sequence):
                codes[topic, index] = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self.outcome = self._append_all(context, self._request, codes)
        self.answered = True
        context.broker.wake(self)

    def _is_known(self, place: Place) -> bool:
        """Whether the log has seen the producer in this epoch."""
        partition = self._context.broker.replicas.find(place.topic, place.partition)
        if partition is None or not partition.is_leader:
            return False
        state = partition.log.producers.states.get(place.producer_id)
        return state is not None and state.epoch == place.producer_epoch

    def _again(self, expired: bool) -> Any:
        if not self.answered:
            if not expired:
                return None
            self._give_up()
            return self._timed_out()
        outcome = self.outcome
        return outcome.again(expired) if isinstance(outcome, Wait) else outcome

    def _give_up(self) -> None:
        """The client's time is over. Its next requests don't wait any longer for this one's answer."""
        self.given_up = True
        order = self._context.broker.transactions.produce_order
        for (topic, index), sequence in self._unknown.items():
            order.refused(Place(topic, index, *self._producer), sequence)
        queue = order.queues.get(self._context.connection)
        if queue and queue[0] is self:
            _go_on(self._context)

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
