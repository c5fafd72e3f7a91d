"""Transactions V1: the epoch stays, and clients announce their partitions."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.transactions.states import TransactionState
from kafkapy.transactions.transaction import Producer
from tests.transactions.fakes import V1, V2, World, code, ok


@pytest.mark.parametrize("commit", [True, False])
def test_transactions_follow_each_other_under_one_epoch(commit: bool) -> None:
    """Add, end, add, end."""
    world = World()
    producer = world.producer()
    for _ in range(2):
        ok(world.add(producer, version=V1))
        ok(world.end(producer, commit=commit, version=V1))
    assert world.markers() == [(producer, commit)] * 2
    assert world.partitions.markers["a", 0][0].transaction_version == 0


@pytest.mark.parametrize("commit", [True, False])
def test_the_same_end_again_is_fine_and_the_other_is_not(commit: bool) -> None:
    """A repeated EndTxn writes nothing."""
    world = World()
    producer = world.producer()
    ok(world.add(producer, version=V1))
    ok(world.end(producer, commit=commit, version=V1))
    ok(world.end(producer, commit=commit, version=V1))
    assert code(world.end(producer, commit=not commit, version=V1)) is ErrorCode.INVALID_TXN_STATE
    assert len(world.markers()) == 1


def test_there_is_nothing_to_end_before_the_first_partition() -> None:
    """Neither by a commit nor by an abort."""
    world = World()
    producer = world.producer()
    assert code(world.end(producer, version=V1)) is ErrorCode.INVALID_TXN_STATE
    assert code(world.end(producer, commit=False, version=V1)) is ErrorCode.INVALID_TXN_STATE


def test_only_the_current_producer_ends_its_transaction() -> None:
    """Unknown ids and other epochs, older or newer."""
    world = World()
    world.producer()
    producer = world.producer()
    ok(world.add(producer, version=V1))
    assert code(world.end(Producer(5, 1), version=V1)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    for epoch in (0, 2):
        assert code(world.end(Producer(1001, epoch), version=V1)) is ErrorCode.PRODUCER_FENCED
    assert world.state().state is TransactionState.ONGOING


def test_a_partition_is_let_in_only_when_it_was_announced() -> None:
    """Which the leader of a partition asks before the first records of a transaction."""
    world = World()
    producer = world.producer()
    assert code(world.verify(producer, ("a", 0))) is ErrorCode.TRANSACTION_ABORTABLE
    ok(world.add(producer, ("a", 0), version=V1))
    ok(world.verify(producer, ("a", 0)))
    assert code(world.verify(producer, ("a", 1))) is ErrorCode.TRANSACTION_ABORTABLE
    assert code(world.verify(Producer(1001, 9), ("a", 0))) is ErrorCode.PRODUCER_FENCED
    assert code(world.verify(Producer(9, 0), ("a", 0))) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    ok(world.end(producer, version=V1))
    assert code(world.verify(producer, ("a", 0))) is ErrorCode.TRANSACTION_ABORTABLE


def test_a_client_can_change_over_between_two_transactions() -> None:
    """It was upgraded, or the cluster was."""
    world = World()
    producer = world.producer()
    ok(world.add(producer, version=V1))
    ok(world.end(producer, version=V1))
    ok(world.add(producer, version=V2))
    producer = ok(world.end(producer, version=V2))
    ok(world.add(producer, version=V1))
    ok(world.end(producer, version=V1))
    assert producer == Producer(1001, 1)
    assert [one.producer_epoch for one, _ in world.markers()] == [0, 1, 1]


def test_a_zombie_does_not_take_an_end_of_v1_for_its_own() -> None:
    """With V2 the epoch before the current one would mean a repeated EndTxn; here it means another producer."""
    world = World()
    zombie = world.producer()
    producer = world.producer()
    ok(world.add(producer, version=V1))
    ok(world.end(producer, commit=False, version=V1))
    assert code(world.end(zombie, commit=False, version=V2)) is ErrorCode.PRODUCER_FENCED


def test_records_have_no_flexible_fields_before_the_feature_is_on() -> None:
    """transaction.version 0 means that older brokers may have to read them."""
    world = World(version=0)
    producer = world.producer()
    ok(world.add(producer, version=V1))
    ok(world.end(producer, version=V1))
    before = world.state()
    world.restart()
    assert world.state() == before._replace(previous_producer_id=-1)
