"""Transactions V2: every end raises the epoch."""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.transactions.states import TransactionState
from tests.transactions.fakes import Producer, World, code, ok


def test_a_transaction_from_beginning_to_end() -> None:
    """Init, add, commit: one marker, under the epoch that the producer goes on with."""
    world = World()
    producer = world.producer()
    assert producer == Producer(1001, 0)
    ok(world.add(producer, ("a", 0), ("b", 1)))
    assert world.state().state is TransactionState.ONGOING
    following = ok(world.end(producer))
    assert following == Producer(1001, 1)
    assert world.state().state is TransactionState.COMPLETE_COMMIT
    assert world.markers("a", 0) == world.markers("b", 1) == [(following, True)]


def test_a_repeated_end_is_answered_as_the_first() -> None:
    """Commit again and abort again with the epoch of the transaction that ended."""
    world = World()
    producer = world.producer()
    ok(world.add(producer))
    following = ok(world.end(producer))
    assert ok(world.end(producer)) == following
    assert code(world.end(producer, commit=False)) is ErrorCode.INVALID_TXN_STATE
    assert len(world.markers()) == 1


def test_a_late_end_cannot_end_the_next_transaction() -> None:
    """The EndTxn of two transactions ago is fenced (KAFKA-17754)."""
    world = World()
    first = world.producer()
    ok(world.add(first))
    second = ok(world.end(first))
    ok(world.add(second))
    assert code(world.end(first)) is ErrorCode.PRODUCER_FENCED
    assert world.state().state is TransactionState.ONGOING
    third = ok(world.end(second, commit=False))
    assert code(world.end(first)) is ErrorCode.PRODUCER_FENCED
    assert world.markers() == [(second, True), (third, False)]
