"""Asks the transaction coordinators of other brokers about partitions that are led here (KIP-890): does the transaction take part, or add it.

One request per broker is under way; what is asked meanwhile leaves together in the next one. An answer counts only if nothing has happened in the
meantime to what it was asked for: neither a marker of the producer (transactions/guards.py) nor a change of leaders. Otherwise, and where
no answer comes, the client is told to send its records again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkapy.errors import ErrorCode
from kafkapy.transactions.coordinator import Codes
from kafkapy.types import TRANSACTION_TOPIC
from kafkapy.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from kafkapy.server.broker import Broker
    from kafkapy.transactions.transaction import Producer, TopicPartitions

ADD_PARTITIONS_VERSION = 5


class Question:
    """One transaction and the partitions that are asked for."""

    def __init__(
        self,
        broker: Broker,
        transactional_id: str,
        producer: Producer,
        partitions: TopicPartitions,
        then: Callable[[Codes], None],
        add: bool,
    ) -> None:
        self._broker = broker
        self.transactional_id = transactional_id
        self._producer = producer
        self._partitions = partitions
        self._then = then
        self._add = add
        self._guard = broker.transactions.guards.take(producer, partitions, add=add)
        self._epochs = {one: self._leader_epoch(*one) for one in partitions}

    def entry(self) -> AddPartitionsToTxnTransaction:
        """Its part of a request."""
        topics: dict[str, list[int]] = {}
        for topic, index in self._partitions:
            topics.setdefault(topic, []).append(index)
        return AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.producer_epoch,
            verify_only=not self._add,
            topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
        )

    def answer(self, codes: Codes) -> None:
        """Hand the codes on, as far as they still count. NETWORK_EXCEPTION stands for no answer."""
        self._guard.close()
        self._then(
            {
                one: codes.get(one, ErrorCode.NETWORK_EXCEPTION)
                if one not in self._guard.broken and self._epochs[one] == self._leader_epoch(*one)
                else ErrorCode.NETWORK_EXCEPTION
                for one in self._partitions
            }
        )

    def _leader_epoch(self, topic: str, index: int) -> int:
        partition = self._broker.replicas.find(topic, index)
        return -1 if partition is None or not partition.is_leader else partition.leader_epoch


class Questions:
    """What this broker asks of coordinators elsewhere."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._queued: dict[int, list[Question]] = {}
        self._under_way: set[int] = set()

    def ask(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: TopicPartitions,
        then: Callable[[Codes], None],
        add: bool,
    ) -> bool:
        """Ask the broker that coordinates the id; False where that is this one, or nobody."""
        broker = self._broker
        topic = broker.image.topics.get(TRANSACTION_TOPIC)
        if topic is None:
            return False
        leader = topic.partitions[broker.transactions.partition_of(transactional_id)].leader
        if leader in (-1, broker.config.node_id):
            return False
        question = Question(broker, transactional_id, producer, partitions, then, add)
        self._queued.setdefault(leader, []).append(question)
        if leader not in self._under_way:
            self._send(leader)
        return True

    def _send(self, node: int) -> None:
        """Send what is queued for a broker; of one transaction only the first question, because answers name nothing but the transaction."""
        chosen: dict[str, Question] = {}
        rest = []
        for question in self._queued.pop(node):
            if chosen.setdefault(question.transactional_id, question) is not question:
                rest.append(question)
        if rest:
            self._queued[node] = rest
        self._under_way.add(node)
        request = AddPartitionsToTxnRequest(transactions=[question.entry() for question in chosen.values()])
        self._broker.peers.to(node).ask(
            request,
            ADD_PARTITIONS_VERSION,
            partial(self._answered, node, chosen),
            self._broker.config.request_timeout_ms,
        )

    def _answered(self, node: int, chosen: dict[str, Question], response: Any) -> None:
        self._under_way.discard(node)
        answers = {one.transactional_id: one for one in response.results_by_transaction} if response is not None else {}
        for transactional_id, question in chosen.items():
            answer = answers.get(transactional_id)
            codes = {}
            for topic in answer.topic_results if answer is not None else ():
                for row in topic.results_by_partition:
                    codes[topic.name, row.partition_index] = ErrorCode(row.partition_error_code)
            question.answer(codes)
        if node in self._queued and node not in self._under_way:
            self._send(node)
