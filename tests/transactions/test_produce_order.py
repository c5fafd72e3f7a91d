"""Pipelined Produce requests of one transaction keep their order, however long the coordinator of another broker thinks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio

from kafkapy.errors import ErrorCode
from kafkapy.testing import Broker
from kafkapy.transactions.ordering import REFUSED_MAX, Place, ProduceOrder
from kafkapy.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkapy.wire.messages.end_txn import EndTxnRequest
from kafkapy.wire.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.wire.messages.init_producer_id import InitProducerIdRequest
from tests.support.patient_client import codes_of
from tests.support.requests import batch, produce_many
from tests.support.wire_client import WireClient

VERSION = 12
OUT_OF_ORDER = {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}


class Slow:
    """A broker whose transaction coordinator answers when the test wants it."""

    def __init__(self, broker: Broker, wire: WireClient) -> None:
        self.wire = wire
        self._parts = broker.parts
        self._questions: deque[tuple[frozenset[tuple[str, int]], Callable[[Any], None]]] = deque()
        wire.request(FindCoordinatorRequest(key="id", key_type=1), 3)
        started = wire.request(InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=60_000), 4)
        self._who = {"producer_id": started.producer_id, "producer_epoch": started.producer_epoch}
        self._parts.transactions.verify_or_add_anywhere = self._ask

    def _ask(self, name: str, producer: Any, partitions: Any, now_ms: int, then: Any, *, add: bool) -> None:
        self._questions.append((partitions, then))

    def send(self, *batches: tuple[int, int], acks: int = -1) -> None:
        """A request with one record for each (partition, sequence)."""
        parts = [
            ("t", index, batch(b"v", base_sequence=sequence, transactional=True, **self._who))
            for index, sequence in batches
        ]
        self.wire.send(produce_many(parts, acks=acks, transactional_id="id"), VERSION, answered=acks != 0)

    def waits(self) -> int:
        """How many Produce requests wait for something."""
        return self._call(lambda: sum("produce" in key.__class__.__module__ for key in self._parts.waiting._by_key))

    def receive(self) -> set[ErrorCode]:
        """The codes of the next answer."""
        return codes_of(self.wire.receive())

    def is_asked(self) -> int:
        """How many questions have no answer; everything that was sent has been handled."""
        with WireClient("127.0.0.1", self._parts.port) as other:
            other.request(FindCoordinatorRequest(key="id", key_type=1), 3)
        return self._call(lambda: len(self._questions))

    def wait_until_asked(self) -> None:
        """Until there is a question."""
        for _ in range(1000):
            if self.is_asked():
                return
        raise AssertionError("nobody asks")

    def decide(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """Answer the oldest question."""

        def answer() -> None:
            partitions, then = self._questions.popleft()
            then(dict.fromkeys(partitions, code))
            self._parts.waiting.settle()

        self._call(answer)

    def _call(self, function: Callable[[], Any]) -> Any:
        return trio.from_thread.run_sync(function, trio_token=self._parts._token)


@pytest.fixture
def slow() -> Iterator[Slow]:
    """A topic of two partitions, a producer, and a connection."""
    with Broker(topics={"t": 2}) as broker, WireClient("127.0.0.1", broker.port) as wire:
        yield Slow(broker, wire)


def test_a_request_does_not_overtake_one_that_waits(slow: Slow) -> None:
    """Neither where its partition has to be asked for, nor where it needs no question."""
    slow.send((0, 0))
    slow.wait_until_asked()
    slow.decide()
    assert slow.receive() == set()
    slow.send((0, 1), (1, 0))
    slow.send((0, 2))
    slow.send((1, 1))
    slow.wait_until_asked()
    assert slow.is_asked() == 1
    slow.decide()
    assert [slow.receive() for _ in range(3)] == [set()] * 3


def test_what_follows_a_refused_batch_is_refused_too(slow: Slow) -> None:
    """It is not taken for the producer's first batch; sent again in order both are taken."""
    slow.send((0, 0))
    slow.send((0, 1))
    slow.wait_until_asked()
    slow.decide(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    slow.decide()
    assert [slow.receive(), slow.receive()] == [{ErrorCode.NOT_ENOUGH_REPLICAS}, OUT_OF_ORDER]
    slow.send((0, 0))
    slow.send((0, 1))
    slow.wait_until_asked()
    slow.decide()
    assert [slow.receive(), slow.receive()] == [set(), set()]


def test_what_was_refused_here_may_have_been_written_through_another_leader() -> None:
    """Then the log knows the producer, and its next batch is in order."""
    with Broker(topics={"t": 1}) as broker, WireClient("127.0.0.1", broker.port) as wire:
        wire.request(FindCoordinatorRequest(key="id", key_type=1), 3)
        started = wire.request(InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=60_000), 4)
        who = {"producer_id": started.producer_id, "producer_epoch": started.producer_epoch}

        def write(sequence: int) -> set[ErrorCode]:
            topic = AddPartitionsToTxnTopic(name="t", partitions=[0])
            added = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="id",
                v3_and_below_producer_id=started.producer_id,
                v3_and_below_producer_epoch=started.producer_epoch,
                v3_and_below_topics=[topic],
            )
            for _ in range(1000):
                # The markers of the transaction before may still be on their way.
                (result,) = wire.request(added, 3).results_by_topic_v3_and_below
                if not result.results_by_partition[0].partition_error_code:
                    break
            parts = [("t", 0, batch(b"v", base_sequence=sequence, transactional=True, **who))]
            wire.send(produce_many(parts, acks=-1, transactional_id="id"), 11)
            codes = codes_of(wire.receive())
            wire.request(EndTxnRequest(transactional_id="id", committed=True, **who), 3)
            return codes

        assert write(0) == set()
        place = Place("t", 0, started.producer_id, started.producer_epoch)
        broker.parts.transactions.produce_order.refused(place, 0)
        assert write(1) == set()


def test_only_so_much_is_remembered() -> None:
    """A producer that never comes back is forgotten in the end."""
    order = ProduceOrder()
    for producer_id in range(REFUSED_MAX + 1):
        order.refused(Place("t", 0, producer_id, 0), 5)
    assert not order.is_too_early(Place("t", 0, 0, 0), 9)
    assert order.is_too_early(Place("t", 0, 1, 0), 9)
    assert not order.is_too_early(Place("t", 0, 1, 0), 5)
    assert not order.is_too_early(Place("t", 0, 1, 0), 9)


def test_who_wants_no_answer_gets_none_and_harms_nobody(slow: Slow) -> None:
    """With acks=0 the coordinator's answer brings the batch into the log, and nothing is left that waits for an answer."""
    slow.send((0, 0), acks=0)
    slow.wait_until_asked()
    slow.decide()
    assert slow.waits() == 0
    slow.send((0, 1))
    assert slow.receive() == set()
