"""A transaction that ends while its coordinator is asked about it."""

from __future__ import annotations

import pytest

from kafkapy.transactions.guards import Guards
from kafkapy.transactions.transaction import Producer

BOTH = frozenset({("a", 0), ("b", 1)})


@pytest.mark.parametrize(
    ("add", "epoch", "breaks"),
    [(True, 4, False), (True, 5, False), (True, 6, True), (False, 4, False), (False, 5, True), (False, 6, True)],
)
def test_a_marker_of_the_transaction_breaks_the_guard(add: bool, epoch: int, breaks: bool) -> None:
    """Only in its own partition; in V2 the marker of the transaction before has this transaction's epoch."""
    guards = Guards()
    guard = guards.take(Producer(7, 5), BOTH, add=add)
    guards.ended("a", 0, Producer(7, epoch))
    assert guard.broken == ({("a", 0)} if breaks else set())


def test_other_producers_and_partitions_break_nothing() -> None:
    """Nor does a marker after the answer, which finds nobody."""
    guards = Guards()
    guard = guards.take(Producer(7, 5), BOTH, add=True)
    guards.ended("a", 0, Producer(8, 9))
    guards.ended("a", 1, Producer(7, 9))
    guard.close()
    guards.ended("a", 0, Producer(7, 9))
    assert not guard.broken and len(guards) == 0


def test_questions_about_the_same_place_end_one_by_one() -> None:
    """Two requests of one producer may be on their way at once."""
    guards = Guards()
    first, second = guards.take(Producer(7, 5), BOTH, add=True), guards.take(Producer(7, 5), BOTH, add=True)
    first.close()
    guards.ended("b", 1, Producer(7, 6))
    assert second.broken == {("b", 1)} and not first.broken
    second.close()
    assert len(guards) == 0
