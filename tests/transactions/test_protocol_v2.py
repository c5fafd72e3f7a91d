"""Transactions V2: every end raises the epoch."""

from __future__ import annotations

from kafkapy.errors import ErrorCode
from kafkapy.transactions.holding import HOLD_MS
from kafkapy.transactions.shard import CONCURRENT_WAIT_MS
from kafkapy.transactions.states import TransactionState
from kafkapy.transactions.transaction import CLIENT_EPOCH_MAX, EPOCH_MAX, NO_PRODUCER, Producer
from tests.transactions.fakes import World, code, ok
from tests.transactions.test_init_producer_id import exhaust


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


def test_markers_say_which_version_they_belong_to() -> None:
    """So that a leader can insist on a higher epoch (KIP-1228), and which coordinator decided."""
    world = World()
    world.restart()
    producer = world.producer()
    ok(world.add(producer))
    ok(world.end(producer))
    (marker,) = world.partitions.markers["a", 0]
    assert (marker.transaction_version, marker.coordinator_epoch, marker.transactional_id) == (2, 1, "t")


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


def test_a_late_partition_does_not_join_the_next_transaction() -> None:
    """A Produce that was on its way when its transaction ended is fenced."""
    world = World()
    producer = world.producer()
    ok(world.add(producer))
    ok(world.end(producer))
    assert code(world.add(producer, ("b", 0))) is ErrorCode.PRODUCER_FENCED
    assert world.state().state is TransactionState.COMPLETE_COMMIT


def test_an_abort_of_nothing_raises_the_epoch() -> None:
    """From each state without an open transaction; nothing is marked."""
    world = World()
    producer = world.producer()
    for _ in range(3):
        following = ok(world.end(producer, commit=False))
        assert following == Producer(1001, producer.producer_epoch + 1)
        assert world.state().state is TransactionState.COMPLETE_ABORT
        assert world.state().start_ms == world.now_ms
        producer = following
    assert world.partitions.markers == {}
    ok(world.add(producer))
    producer = ok(world.end(producer))
    assert ok(world.end(producer, commit=False)).producer_epoch == producer.producer_epoch + 1


def test_a_commit_of_nothing_is_an_error() -> None:
    """Before the first transaction and after each."""
    world = World()
    producer = world.producer()
    assert code(world.end(producer)) is ErrorCode.INVALID_TXN_STATE
    producer = ok(world.end(producer, commit=False))
    assert code(world.end(producer)) is ErrorCode.INVALID_TXN_STATE


def test_an_end_must_come_from_the_current_producer() -> None:
    """Another id is no producer of this transactional id at all; another epoch is fenced."""
    world = World()
    producer = world.producer()
    ok(world.add(producer))
    assert code(world.end(Producer(7, 0))) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert code(world.end(Producer(1001, 5))) is ErrorCode.PRODUCER_FENCED
    assert code(world.end(producer, transactional_id="unknown")) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert code(world.end(producer, transactional_id="")) is ErrorCode.INVALID_REQUEST


def test_partitions_must_come_from_the_current_producer() -> None:
    """The same codes, and nothing changes."""
    world = World()
    producer = world.producer()
    assert code(world.add(Producer(7, 0))) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert code(world.add(Producer(1001, 1))) is ErrorCode.PRODUCER_FENCED
    assert code(world.add(producer, transactional_id="unknown")) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.state().state is TransactionState.EMPTY


def test_known_partitions_are_not_written_again() -> None:
    """The second batch of a transaction in a partition costs no record."""
    world = World()
    producer = world.producer()
    ok(world.add(producer, ("a", 0), ("a", 1)))
    end = world.log.ends[0]
    ok(world.add(producer, ("a", 1)))
    assert world.log.ends[0] == end
    assert world.coordinator.takes_part("t", producer, frozenset({("a", 0)}))
    assert not world.coordinator.takes_part("t", producer, frozenset({("a", 2)}))
    assert not world.coordinator.takes_part("t", Producer(1001, 1), frozenset({("a", 0)}))


def test_the_next_transaction_waits_for_the_markers_of_the_last() -> None:
    """EndTxn is answered once decided, and what follows when every partition is marked, in order."""
    world = World()
    producer = world.producer()
    ok(world.add(producer))
    world.partitions.codes["a", 0] = None
    producer = ok(world.end(producer))
    adding, ending = world.add(producer), world.end(producer)
    assert adding.response is None and ending.response is None
    world.partitions.codes.clear()
    world.finish_markers()
    ok(adding)
    assert ok(ending) == Producer(1001, 2)
    assert world.markers() == [(Producer(1001, 1), True), (Producer(1001, 2), True)]


def test_who_waits_for_markers_for_too_long_is_told_to_try_again() -> None:
    """Each after its own time."""
    world = World()
    producer = world.producer()
    ok(world.add(producer))
    world.partitions.codes["a", 0] = None
    producer = ok(world.end(producer))
    first = world.add(producer)
    world.advance(CONCURRENT_WAIT_MS - 1)
    second = world.add(producer)
    world.advance(1)
    assert code(first) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert second.response is None
    world.advance(CONCURRENT_WAIT_MS)
    assert code(second) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_commit_that_meets_an_abort_is_fenced() -> None:
    """The transaction timed out while the commit was on its way (KAFKA-20785)."""
    world = World()
    producer = world.producer(timeout_ms=1000)
    ok(world.add(producer))
    world.advance(10_000)
    assert code(world.end(producer)) is ErrorCode.PRODUCER_FENCED
    assert ok(world.end(producer, commit=False)) == Producer(1001, 1)


def test_an_end_that_uses_up_the_epochs_brings_a_new_id() -> None:
    """The answer names it, the markers still have the old one, and the end can be repeated."""
    world = World()
    producer = exhaust(world)
    ok(world.add(producer))
    world.partitions.codes["a", 0] = None
    assert ok(world.end(producer)) == Producer(1002, 0)
    assert world.state().next_producer_id == 1002
    world.finish_markers()
    assert world.markers() == [(Producer(1001, EPOCH_MAX), True)]
    assert world.state().producer == Producer(1002, 0)
    assert ok(world.end(producer)) == Producer(1002, 0)
    assert code(world.end(producer, commit=False)) is ErrorCode.INVALID_TXN_STATE
    assert code(world.end(Producer(1001, 3))) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    ok(world.add(Producer(1002, 0)))
    assert code(world.end(Producer(1001, CLIENT_EPOCH_MAX))) is not ErrorCode.NONE


def test_without_a_new_id_an_end_has_to_wait() -> None:
    """And the transaction stays open."""
    world = World()
    producer = exhaust(world)
    ok(world.add(producer))
    world.out_of_ids = True
    ending = world.end(producer)
    world.advance(HOLD_MS)
    assert ending.response == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, NO_PRODUCER)
    assert world.state().state is TransactionState.ONGOING
    world.out_of_ids = False
    assert ok(world.end(producer)) == Producer(1002, 0)


def test_an_end_that_the_log_refuses_has_not_happened() -> None:
    """The client looks for the coordinator and tries again."""
    world = World()
    producer = world.producer()
    ok(world.add(producer))
    world.log.refuse_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code(world.end(producer)) is ErrorCode.NOT_COORDINATOR
    world.log.refuse_with = None
    assert world.markers() == []
    assert ok(world.end(producer)) == Producer(1001, 1)
