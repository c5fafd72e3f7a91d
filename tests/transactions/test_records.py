"""The records of `__transaction_state`: what is written is what is read."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkapy.errors import ProtocolError
from kafkapy.transactions.records import FLEXIBLE_VERSION, PLAIN_VERSION, read_record, record_key, record_value
from kafkapy.transactions.states import TransactionState
from kafkapy.transactions.transaction import NO_PARTITIONS, Transaction
from kafkapy.wire.record_framing import UnknownRecordType
from tests.transactions.fakes import V1, V2, World, ok

int64s = st.integers(-(2**63), 2**63 - 1)
partitions = st.frozensets(st.tuples(st.text(max_size=20), st.integers(0, 2**31 - 1)), max_size=8)
transactions = st.builds(
    Transaction,
    producer_id=int64s,
    producer_epoch=st.integers(-1, 32767),
    timeout_ms=st.integers(0, 2**31 - 1),
    state=st.sampled_from(TransactionState),
    updated_ms=int64s,
    partitions=partitions,
    start_ms=int64s,
    previous_producer_id=int64s,
    next_producer_id=int64s,
    client_version=st.integers(0, 2),
)


@given(transactional_id=st.text(max_size=40), transaction=transactions)
@settings(max_examples=200, deadline=None)
def test_a_transaction_survives_the_log(transactional_id: str, transaction: Transaction) -> None:
    """All of it in version 1; in version 0 all that this version has room for."""
    if transaction.state is TransactionState.EMPTY:
        transaction = transaction._replace(partitions=NO_PARTITIONS)
    key = record_key(transactional_id)
    assert read_record(key, record_value(transaction, FLEXIBLE_VERSION)) == (transactional_id, transaction)
    plain = transaction._replace(previous_producer_id=-1, next_producer_id=-1, client_version=0)
    assert read_record(key, record_value(transaction, PLAIN_VERSION)) == (transactional_id, plain)


def test_a_key_without_value_removes_the_id() -> None:
    """A tombstone."""
    assert read_record(record_key("t"), None) == ("t", None)


def test_equal_transactions_are_equal_bytes() -> None:
    """In whatever order their partitions were added."""
    world = World()
    producer = world.producer()
    ok(world.add(producer, ("b", 1), ("a", 2)))
    ok(world.add(producer, ("a", 10)))
    value = record_value(world.state(), FLEXIBLE_VERSION)
    again = world.state()._replace(partitions=frozenset([("a", 10), ("a", 2), ("b", 1)]))
    assert record_value(again, FLEXIBLE_VERSION) == value


def test_damaged_and_foreign_records() -> None:
    """A state that does not exist is damage; a type that is not known may come from a newer broker, and is skipped."""
    world = World()
    world.producer()
    value = bytearray(record_value(world.state()._replace(state=TransactionState.DEAD), PLAIN_VERSION))
    value[value.index(TransactionState.DEAD)] = 99
    with pytest.raises(ProtocolError):
        read_record(record_key("t"), bytes(value))
    with pytest.raises(UnknownRecordType):
        read_record(b"\x00\x09", b"")
    before = world.state()
    world.coordinator._led[0].shard.replay(b"\x00\x09", b"")
    assert world.state() == before


@pytest.mark.parametrize("version", [V1, V2])
def test_every_state_on_the_way_is_what_replay_makes_of_the_log(version: int) -> None:
    """After each step of a transaction a restarted coordinator knows the same."""
    world = World()

    def check() -> None:
        before = world.state()
        under_way = list(world.partitions.under_way)
        world.restart()
        assert world.state() == before
        assert len(world.partitions.under_way) == len(under_way)

    producer = world.producer()
    check()
    ok(world.add(producer, ("a", 0), version=version))
    check()
    ok(world.add(producer, ("b", 0), version=version))
    check()
    world.partitions.codes["a", 0] = None
    producer = ok(world.end(producer, version=version))
    check()
    world.finish_markers()
    check()
    ok(world.add(producer, version=version))
    ok(world.end(producer, version=version, commit=False))
    check()
    world.finish_markers()
    check()
