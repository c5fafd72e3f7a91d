"""InitProducerId with a transactional id: who gets which epoch, and who is fenced."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.transactions.holding import HOLD_MS, RETRY_MS
from kafkapy.transactions.shard import CONCURRENT_WAIT_MS
from kafkapy.transactions.states import TransactionState
from kafkapy.transactions.transaction import CLIENT_EPOCH_MAX, EPOCH_MAX, NO_PRODUCER, Producer
from tests.transactions.fakes import V1, V2, World, code, ok


def exhaust(world: World, *, epoch: int = CLIENT_EPOCH_MAX) -> Producer:
    """A producer whose epoch is the last that a client may have."""
    producer = world.producer()
    shard = world.coordinator._led[0].shard
    shard.write("t", world.state()._replace(producer_epoch=epoch), world.now_ms, lambda code, now_ms: None)
    return Producer(producer.producer_id, epoch)


def test_each_start_raises_the_epoch() -> None:
    """The first producer gets a new id with epoch 0, and who comes after it the next epochs."""
    world = World()
    assert world.producer() == Producer(1001, 0)
    assert world.producer() == Producer(1001, 1)
    assert world.producer("other") == Producer(1002, 0)


def test_the_transactional_id_must_not_be_empty() -> None:
    """Nobody means that."""
    assert code(World().init("")) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_the_timeout_must_be_within_bounds(timeout_ms: int) -> None:
    """From 1 to transaction.max.timeout.ms."""
    assert code(World().init(timeout_ms=timeout_ms)) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_a_producer_goes_on_with_the_next_epoch() -> None:
    """KIP-360: it names its id and epoch, and gets the next; asked again with the same, it gets the same again."""
    world = World()
    first = world.producer()
    second = ok(world.init(expected=first))
    assert second == Producer(1001, 1)
    assert ok(world.init(expected=first)) == second
    assert ok(world.init(expected=second)) == Producer(1001, 2)
    assert code(world.init(expected=first)) is ErrorCode.PRODUCER_FENCED


def test_a_producer_that_was_replaced_does_not_go_on() -> None:
    """Neither with its epoch, nor with an id that was never its own."""
    world = World()
    first = world.producer()
    world.producer()
    assert code(world.init(expected=first)) is ErrorCode.PRODUCER_FENCED
    assert code(world.init(expected=Producer(77, 0))) is ErrorCode.PRODUCER_FENCED


def test_a_forgotten_producer_gets_a_new_id() -> None:
    """Its transactional id expired, so nothing contradicts it."""
    assert ok(World().init(expected=Producer(77, 5))) == Producer(1001, 0)


def test_a_fenced_producer_cannot_abort_its_successor() -> None:
    """It is refused before the open transaction is touched."""
    world = World()
    first = world.producer()
    second = world.producer()
    ok(world.add(second))
    assert code(world.init(expected=first)) is ErrorCode.PRODUCER_FENCED
    assert world.state().state is TransactionState.ONGOING


@pytest.mark.parametrize("version", [V1, V2])
def test_an_open_transaction_is_aborted_first(version: int) -> None:
    """Under an epoch that nobody is given; the new producer gets the one after."""
    world = World(version=version)
    first = world.producer()
    ok(world.add(first))
    assert world.producer() == Producer(1001, 2)
    assert world.markers() == [(Producer(1001, 1), False)]
    assert code(world.add(first)) is ErrorCode.PRODUCER_FENCED
    assert code(world.end(first, version=V1)) is ErrorCode.PRODUCER_FENCED


def test_a_new_producer_waits_for_the_markers() -> None:
    """It is answered when they are written."""
    world = World()
    ok(world.add(world.producer()))
    world.partitions.codes["a", 0] = None
    waiting = world.init()
    assert waiting.response is None
    world.finish_markers()
    assert ok(waiting) == Producer(1001, 2)
    assert waiting in world.woken


def test_a_new_producer_does_not_wait_for_long() -> None:
    """As in Kafka it is told that the transaction before is still being ended."""
    world = World()
    ok(world.add(world.producer()))
    world.partitions.codes["a", 0] = None
    waiting = world.init()
    world.advance(CONCURRENT_WAIT_MS)
    assert code(waiting) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.finish_markers()
    assert world.producer() == Producer(1001, 2)


def test_nothing_is_aborted_when_the_log_does_not_take_it() -> None:
    """The new producer may try again, and the transaction stays open."""
    world = World()
    ok(world.add(world.producer()))
    world.log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert code(world.init()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.state().state is TransactionState.ONGOING
    world.log.refuse_with = None
    assert world.producer() == Producer(1001, 2)


def test_when_the_epochs_are_used_up_there_is_a_new_id() -> None:
    """The last epoch stays free, to fence with."""
    world = World()
    exhausted = exhaust(world, epoch=CLIENT_EPOCH_MAX - 1)
    assert ok(world.init()) == Producer(exhausted.producer_id, CLIENT_EPOCH_MAX)
    assert ok(world.init()) == Producer(1002, 0)


def test_a_new_id_can_be_asked_for_again() -> None:
    """By the producer that used the epochs up, and by nobody else."""
    world = World()
    exhausted = exhaust(world)
    assert ok(world.init(expected=exhausted)) == Producer(1002, 0)
    assert ok(world.init(expected=exhausted)) == Producer(1002, 0)
    assert code(world.init(expected=Producer(exhausted.producer_id, 5))) is ErrorCode.PRODUCER_FENCED


def test_the_last_epoch_can_still_be_fenced() -> None:
    """V2: the abort goes out under the epoch that no client has, and the next producer has a new id."""
    world = World()
    exhausted = exhaust(world)
    ok(world.add(exhausted))
    assert ok(world.init()) == Producer(1002, 1)
    assert world.markers() == [(Producer(exhausted.producer_id, EPOCH_MAX), False)]


def test_the_last_epoch_can_still_be_fenced_with_v1() -> None:
    """There the id changes with InitProducerId."""
    world = World(version=V1)
    exhausted = exhaust(world)
    ok(world.add(exhausted, version=V1))
    assert ok(world.init()) == Producer(1002, 0)
    assert world.markers() == [(Producer(exhausted.producer_id, EPOCH_MAX), False)]
    assert code(world.init(expected=exhausted)) is ErrorCode.PRODUCER_FENCED


def test_a_new_producer_waits_for_the_next_block_of_ids() -> None:
    """It is on its way."""
    world = World()
    world.out_of_ids = True
    waiting = world.init()
    world.advance(HOLD_MS // 2)
    assert waiting.response is None
    world.out_of_ids = False
    world.advance(RETRY_MS)
    assert ok(waiting) == Producer(1001, 0)


def test_without_ids_there_is_no_new_producer() -> None:
    """After a while it is told to come back."""
    world = World()
    world.out_of_ids = True
    waiting = world.init()
    world.advance(HOLD_MS)
    assert waiting.response == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, NO_PRODUCER)
