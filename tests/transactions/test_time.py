"""What the passing of time does: transactions time out, unused ids are forgotten."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.transactions.coordinator import TOMBSTONES_PER_BATCH_MAX
from kafkapy.transactions.states import TransactionState
from kafkapy.transactions.transaction import EPOCH_MAX, Producer
from tests.transactions.fakes import V1, V2, World, code, ok
from tests.transactions.test_init_producer_id import exhaust

DAY_MS = 24 * 3600 * 1000


@pytest.mark.parametrize("version", [V1, V2])
def test_a_transaction_that_stays_open_for_too_long_is_aborted(version: int) -> None:
    """And its producer is fenced."""
    world = World(version=version)
    producer = world.producer(timeout_ms=15_000)
    ok(world.add(producer, version=version))
    world.advance(15_000)
    assert world.state().state is TransactionState.ONGOING
    world.advance(10_000)
    assert world.state().state is TransactionState.COMPLETE_ABORT
    assert world.markers() == [(Producer(1001, 1), False)]
    assert code(world.add(producer)) is ErrorCode.PRODUCER_FENCED
    assert ok(world.init()) == Producer(1001, 2)


def test_only_an_open_transaction_times_out() -> None:
    """One that ended has no time limit, nor has a producer without any."""
    world = World()
    world.producer("idle", timeout_ms=1)
    producer = world.producer(timeout_ms=1)
    ok(world.add(producer))
    ok(world.end(producer))
    before = dict(world.log.ends)
    world.advance(60_000)
    assert world.log.ends == before


def test_a_new_transaction_has_its_own_time() -> None:
    """It counts from its first partition."""
    world = World()
    producer = world.producer(timeout_ms=25_000)
    ok(world.add(producer))
    world.advance(19_000)
    producer = ok(world.end(producer))
    ok(world.add(producer))
    world.advance(19_000)
    ok(world.add(producer, ("b", 0)))
    assert world.state().start_ms == world.now_ms - 19_000
    world.advance(20_000)
    assert world.state().state is TransactionState.COMPLETE_ABORT


def test_an_abort_that_cannot_be_written_is_tried_again() -> None:
    """With the next sweep, and the epoch is raised only once."""
    world = World()
    producer = world.producer(timeout_ms=1)
    ok(world.add(producer))
    world.log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    world.advance(30_000)
    world.log.refuse_with = None
    world.advance(10_000)
    assert world.markers() == [(Producer(1001, 1), False)]


def test_a_time_out_may_have_to_wait_for_a_new_id() -> None:
    """The epochs are used up, and the block of ids too."""
    world = World()
    producer = exhaust(world)
    ok(world.add(producer))
    world.out_of_ids = True
    world.advance(120_000)
    assert world.state().state is TransactionState.ONGOING
    world.out_of_ids = False
    world.advance(10_000)
    assert world.state().producer == Producer(1002, 0)
    assert world.markers() == [(Producer(1001, EPOCH_MAX), False)]


def test_unused_ids_are_forgotten_after_a_week() -> None:
    """But not while a transaction is open or being ended; the rest is gone from the log too."""
    world = World(transactional_id_expiration_ms=7 * DAY_MS, transaction_max_timeout_ms=20 * DAY_MS)
    open_one = world.producer("open", timeout_ms=20 * DAY_MS)
    ok(world.add(open_one, transactional_id="open"))
    ending = world.producer("ending")
    ok(world.add(ending, ("slow", 0), transactional_id="ending"))
    world.partitions.codes["slow", 0] = None
    ok(world.end(ending, transactional_id="ending"))
    unused = world.producer("unused")
    world.advance(6 * DAY_MS)
    world.producer("used")
    world.advance(DAY_MS + 3_600_000)
    for coordinator in ("running", "restarted"):
        if coordinator == "restarted":
            world.restart()
        assert world.coordinator.transaction("unused") is None
        assert sorted(name for name, _ in world.coordinator.transactions()) == ["ending", "open", "used"]
    assert code(world.add(unused, transactional_id="unused")) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_many_expired_ids_go_in_several_batches() -> None:
    """A batch has a limited size."""
    world = World(transactional_id_expiration_ms=1000, transaction_remove_expired_transaction_cleanup_interval_ms=5000)
    shard = world.coordinator._led[0].shard
    transaction = (world.producer(), world.state())[1]
    for number in range(TOMBSTONES_PER_BATCH_MAX + 9):
        shard._apply(f"id-{number}", transaction)
    batches = len(world.log.batches[0])
    world.advance(5000)
    assert list(world.coordinator.transactions()) == []
    assert len(world.log.batches[0]) == batches + 2


def test_ids_stay_when_the_log_does_not_take_their_tombstones() -> None:
    """They are removed an hour later."""
    world = World(transactional_id_expiration_ms=1000)
    world.producer()
    world.log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    world.advance(3_600_000)
    assert world.coordinator.transaction("t") is not None
    world.log.refuse_with = None
    world.advance(3_600_000)
    assert world.coordinator.transaction("t") is None
