"""Replication, leadership that moves, markers that do not arrive."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.transactions.holding import HOLD_MS, RETRY_MS
from kafkapy.transactions.markers import MARKER_RETRY_MS
from kafkapy.transactions.states import TransactionState
from kafkapy.transactions.transaction import Producer
from tests.transactions.fakes import World, code, ok


def test_nobody_is_answered_before_the_followers_have_the_record() -> None:
    """Each step waits, and no marker goes out before the decision is replicated."""
    world = World()
    world.log.replicated = False
    starting = world.init()
    assert starting.response is None
    world.replicate()
    producer = ok(starting)
    adding = world.add(producer)
    again = world.add(producer)
    assert adding.response is None and again.response is None
    assert not world.coordinator.takes_part("t", producer, frozenset({("a", 0)}))
    world.replicate()
    ok(adding)
    ok(again)
    ending = world.end(producer)
    assert ending.response is None and world.markers() == []
    world.replicate()
    assert ok(ending) == Producer(1001, 1)
    assert world.markers() == [(Producer(1001, 1), True)]


def test_a_partition_is_not_let_in_before_that_is_replicated() -> None:
    """Records in a transaction that a failover forgets would never be ended."""
    world = World()
    producer = world.producer()
    world.log.replicated = False
    world.add(producer)
    asking = world.verify(producer)
    assert asking.response is None
    world.replicate()
    ok(asking)


def test_who_waits_when_leadership_moves_looks_for_the_new_coordinator() -> None:
    """Those who wait for followers and those who wait for markers."""
    world = World()
    producer = world.producer()
    ok(world.add(producer))
    world.partitions.codes["a", 0] = None
    following = ok(world.end(producer))
    for_markers = world.add(following)
    world.log.replicated = False
    for_followers = world.init("other")
    world.coordinator.resigned(0, world.now_ms)
    assert code(for_markers) is ErrorCode.NOT_COORDINATOR
    assert code(for_followers) is ErrorCode.NOT_COORDINATOR
    assert code(world.init()) is ErrorCode.NOT_COORDINATOR
    assert code(world.verify(producer)) is ErrorCode.NOT_COORDINATOR
    assert code(world.add(producer, version=0)) is ErrorCode.NOT_COORDINATOR
    with pytest.raises(KafkaError):
        world.coordinator.transaction("t")


def test_requests_wait_while_a_shard_loads() -> None:
    """For a moment, and are decided in the order in which they came."""
    world = World()
    producer = world.producer()
    world.coordinator.resigned(0, world.now_ms)
    world.coordinator.elected(0, 1)
    adding, ending = world.add(producer), world.end(producer)
    world.advance(HOLD_MS - 1)
    assert adding.response is None and ending.response is None
    for batch in world.log.batches[0]:
        world.coordinator.load(0, batch)
    world.coordinator.loaded(0, world.now_ms)
    world.advance(RETRY_MS)
    ok(adding)
    assert ok(ending) == Producer(1001, 1)


def test_requests_do_not_wait_for_ever_while_a_shard_loads() -> None:
    """Nor do they if it goes away meanwhile; and ListTransactions does not wait at all."""
    world = World()
    producer = world.producer()
    world.coordinator.resigned(0, world.now_ms)
    world.coordinator.elected(0, 1)
    ending = world.end(producer)
    with pytest.raises(KafkaError) as refused:
        list(world.coordinator.transactions())
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.advance(HOLD_MS)
    assert code(ending) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    adding = world.add(producer)
    world.coordinator.resigned(0, world.now_ms)
    world.advance(RETRY_MS)
    assert code(adding) is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("commit", [True, False])
def test_a_decided_transaction_is_finished_by_the_next_coordinator(commit: bool) -> None:
    """All markers are written again, under the same epoch of the producer and the new one of the coordinator."""
    world = World()
    producer = world.producer()
    ok(world.add(producer, ("a", 0), ("b", 0)))
    world.partitions.codes["b", 0] = None
    ok(world.end(producer, commit=commit))
    world.partitions.codes.clear()
    world.restart()
    following = Producer(1001, 1)
    assert world.markers("a", 0) == [(following, commit)] * 2
    assert world.markers("b", 0) == [(following, commit)]
    assert world.partitions.markers["b", 0][0].coordinator_epoch == 1
    assert world.state().state is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)
    assert ok(world.end(producer, commit=commit)) == following


def test_a_decision_that_the_followers_lack_marks_nothing_yet() -> None:
    """The coordinator after the next one may not have it, and abort what would have been committed in part."""
    world = World()
    producer = world.producer()
    ok(world.add(producer))
    world.log.replicated = False
    world.end(producer)
    world.restart()
    assert world.markers() == []
    world.replicate()
    assert world.markers() == [(Producer(1001, 1), True)]
    assert world.state().state is TransactionState.COMPLETE_COMMIT


def test_an_open_transaction_survives_and_goes_on() -> None:
    """With all its partitions."""
    world = World()
    producer = world.producer()
    ok(world.add(producer, ("a", 0), ("b", 3)))
    world.restart()
    assert world.coordinator.takes_part("t", producer, frozenset({("a", 0), ("b", 3)}))
    assert ok(world.end(producer)) == Producer(1001, 1)
    assert world.markers("b", 3) == [(Producer(1001, 1), True)]


@pytest.mark.parametrize("code_of_leader", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_a_marker_that_is_not_written_is_tried_again(code_of_leader: ErrorCode) -> None:
    """Whether the refusal comes at once or later, until it is written."""
    world = World()
    producer = world.producer()
    ok(world.add(producer, ("a", 0), ("b", 0)))
    world.partitions.codes["a", 0] = code_of_leader
    world.partitions.codes["b", 0] = None
    ok(world.end(producer))
    world.finish_markers(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert world.state().state is TransactionState.PREPARE_COMMIT
    world.partitions.codes["b", 0] = ErrorCode.NONE
    world.advance(MARKER_RETRY_MS)
    assert world.state().state is TransactionState.PREPARE_COMMIT
    world.partitions.codes.clear()
    world.advance(MARKER_RETRY_MS)
    assert world.state().state is TransactionState.COMPLETE_COMMIT
    assert world.markers("a", 0) == world.markers("b", 0) == [(Producer(1001, 1), True)]


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_partition_that_is_gone_or_in_a_later_epoch_needs_no_marker(code: ErrorCode) -> None:
    """The transaction is complete without it: nothing is there, or what was open there was ended before."""
    world = World()
    producer = world.producer()
    ok(world.add(producer))
    world.partitions.codes["a", 0] = code
    ok(world.end(producer))
    assert world.state().state is TransactionState.COMPLETE_COMMIT


def test_a_coordinator_that_was_replaced_leaves_the_rest_to_the_other() -> None:
    """It does not call the transaction complete."""
    world = World()
    producer = world.producer()
    ok(world.add(producer))
    world.partitions.codes["a", 0] = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    ok(world.end(producer))
    world.advance(60_000)
    assert world.state().state is TransactionState.PREPARE_COMMIT


def test_late_and_double_answers_about_markers_change_nothing() -> None:
    """From before a failover, for another transaction, or twice."""
    world = World()
    producer = world.producer()
    ok(world.add(producer, ("a", 0), ("b", 0)))
    world.partitions.codes.update({("a", 0): None, ("b", 0): None})
    ok(world.end(producer))
    (first, *_), _ = world.partitions.under_way
    world.restart()
    world.coordinator.marker_written(first, "a", 0, ErrorCode.NONE, world.now_ms)
    assert world.state().state is TransactionState.PREPARE_COMMIT
    current = world.partitions.under_way[0][0]
    for _ in range(2):
        world.coordinator.marker_written(current, "a", 0, ErrorCode.NONE, world.now_ms)
    world.coordinator.marker_written(current, "c", 0, ErrorCode.NONE, world.now_ms)
    assert world.state().state is TransactionState.PREPARE_COMMIT
    world.coordinator.marker_written(current, "b", 0, ErrorCode.NONE, world.now_ms)
    assert world.state().state is TransactionState.COMPLETE_COMMIT
    world.coordinator.resigned(0, world.now_ms)
    world.coordinator.marker_written(current, "b", 0, ErrorCode.NONE, world.now_ms)


def test_the_last_record_is_tried_again_too() -> None:
    """All markers are written, but the log does not take that for a while."""
    world = World()
    producer = world.producer()
    ok(world.add(producer))
    world.partitions.codes["a", 0] = None
    following = ok(world.end(producer))
    adding = world.add(following)
    world.log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    world.finish_markers()
    world.advance(MARKER_RETRY_MS)
    world.log.refuse_with = None
    assert world.state().state is TransactionState.PREPARE_COMMIT
    world.advance(MARKER_RETRY_MS)
    ok(adding)
    assert len(world.markers()) == 1


def test_each_id_lives_in_the_partition_of_its_hash() -> None:
    """So every broker and client finds it in the same place."""
    world = World(partitions=50)
    world.producer("my-transactional-id")
    (partition,) = world.log.ends
    assert partition == world.coordinator.partition_of("my-transactional-id")
    world.restart()
    assert world.state("my-transactional-id").producer == Producer(1001, 0)
