"""The replicas in sync: who leaves, who joins, and what the controller's answers do."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.log.partition import Partition
from kafkapy.replication.isr import ALTER_PARTITION_VERSION, IsrTracker
from kafkapy.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartition,
    ResponseTopic,
)
from tests.replication.support import TOPIC_ID, Clock, Node, send

LAG_MS = 1000


class Leader:
    """Broker 1 leads, with the tracker, what it was told and what it says."""

    def __init__(self, isr: tuple[int, ...] = (1, 2, 3), *, partitions: int = 1, lag_messages: int = -1) -> None:
        self.clock = Clock()
        self.node = Node(1, self.clock, min_insync_replicas=1)
        self.eligible = {2, 3}
        self.kicks = 0
        self.committed: list[Partition] = []
        self.tracker = IsrTracker(
            1,
            LAG_MS,
            is_eligible=lambda node, epoch: node in self.eligible,
            committed=self.committed.append,
            kick=self.kick,
            lag_messages_max=lag_messages,
        )
        self.partitions = [self.node.add(index) for index in range(partitions)]
        for partition in self.partitions:
            partition.watchers = (self.tracker,)
            partition.make_leader(5, isr, (1, 2, 3), partition_epoch=10, now_ms=self.clock.now_ms)

    def kick(self) -> None:
        self.kicks += 1

    def fetched(self, replica: int, offset: int, index: int = 0) -> None:
        self.partitions[index].note_follower(replica, offset, 0, self.clock.now_ms, 70 + replica)

    def check(self, after_ms: int) -> None:
        self.clock.now_ms += after_ms
        self.tracker.check(self.clock.now_ms)

    def request(self) -> AlterPartitionRequest | None:
        found = self.tracker.next_request(self.clock.now_ms, 71)
        if found is not None:
            found.encode(ALTER_PARTITION_VERSION)
        return found

    def wanted(self) -> dict[int, list[int]]:
        """What the next request asks for, by partition."""
        found = self.request()
        assert found is not None and found.broker_epoch == 71
        return {
            one.partition_index: [state.broker_id for state in one.new_isr_with_epochs]
            for topic in found.topics
            for one in topic.partitions
        }

    def answer(self, isr: list[int], *, code: int = 0, partition_epoch: int = 11, leader_epoch: int = 5) -> None:
        answered = ResponsePartition(
            partition_index=0,
            error_code=code,
            leader_id=1,
            leader_epoch=leader_epoch,
            isr=isr,
            partition_epoch=partition_epoch,
        )
        topics = [ResponseTopic(topic_id=TOPIC_ID, partitions=[answered])]
        self.tracker.answered(AlterPartitionResponse(topics=topics), self.clock.now_ms)


def test_who_is_late_leaves_and_the_high_watermark_moves_when_the_controller_agrees() -> None:
    """Not before: until then the replica is in sync by the controller's word, and could be elected."""
    leader = Leader()
    send(leader.partitions[0], 4)
    leader.fetched(2, 4)
    leader.check(LAG_MS)
    assert leader.request() is None
    leader.check(1)
    assert leader.wanted() == {0: [1, 2]} and leader.kicks == 1
    assert leader.partitions[0].high_watermark == 0 and leader.request() is None
    leader.answer([1, 2])
    assert leader.partitions[0].isr == (1, 2) and leader.partitions[0].high_watermark == 4
    assert leader.committed == leader.partitions


def test_idle_replicas_stay_however_long_nothing_is_fetched() -> None:
    """Who has everything is in sync; whether its broker lives is the controller's concern."""
    leader = Leader()
    send(leader.partitions[0], 4)
    leader.fetched(2, 4)
    leader.fetched(3, 4)
    for _ in range(3):
        leader.check(10 * LAG_MS)
    assert leader.request() is None and not leader.tracker._suspects


def test_who_has_caught_up_joins_and_counts_from_the_asking_on() -> None:
    """The controller may have agreed before its answer arrives."""
    leader = Leader((1, 2))
    send(leader.partitions[0], 4)
    leader.fetched(2, 4)
    leader.fetched(3, 3)
    assert leader.request() is None
    leader.fetched(3, 4)
    send(leader.partitions[0], 1)
    leader.fetched(2, 5)
    assert leader.partitions[0].high_watermark == 4
    found = leader.request()
    assert found is not None
    states = found.topics[0].partitions[0].new_isr_with_epochs
    assert [(state.broker_id, state.broker_epoch) for state in states] == [(1, 71), (2, 72), (3, 73)]
    leader.answer([1, 2, 3])
    assert leader.partitions[0].isr == (1, 2, 3) and leader.partitions[0].high_watermark == 4
    leader.fetched(3, 5)
    assert leader.partitions[0].high_watermark == 5


def test_who_has_not_reached_the_leaders_epoch_does_not_join() -> None:
    """A high watermark that a new leader has not raised yet says too little."""
    leader = Leader((1,))
    send(leader.partitions[0], 4)
    leader.partitions[0]._high_watermark = 2
    leader.partitions[0].make_leader(6, (1, 2), (1, 2, 3), partition_epoch=11, now_ms=leader.clock.now_ms)
    assert leader.partitions[0].epoch_start_offset == 4
    leader.fetched(3, 2)
    assert leader.request() is None
    leader.fetched(3, 4)
    assert leader.wanted() == {0: [1, 2, 3]}


def test_fenced_brokers_do_not_join() -> None:
    """Nor such in a controlled shutdown, or of an earlier life."""
    leader = Leader((1, 2))
    leader.eligible.clear()
    leader.fetched(3, 0)
    assert leader.request() is None
    leader.eligible.add(3)
    leader.fetched(3, 0)
    assert leader.wanted() == {0: [1, 2, 3]}


def test_what_gathers_during_a_request_goes_with_the_next() -> None:
    """One request at a time, many partitions in it."""
    leader = Leader((1, 2), partitions=3)
    leader.fetched(3, 0, 0)
    assert leader.wanted() == {0: [1, 2, 3]}
    leader.fetched(3, 0, 1)
    leader.fetched(3, 0, 2)
    assert leader.request() is None
    leader.answer([1, 2, 3])
    assert leader.wanted() == {1: [1, 2, 3], 2: [1, 2, 3]}


def test_no_answer_is_asked_again_with_what_was_asked() -> None:
    """The pause doubles up to a second; what was asked for holds the high watermark all the time."""
    leader = Leader((1, 2))
    leader.fetched(3, 0)
    pauses = []
    for _ in range(6):
        assert leader.wanted() == {0: [1, 2, 3]}
        leader.tracker.answered(None, leader.clock.now_ms)
        due = leader.tracker.retry_at_ms()
        assert due is not None and leader.request() is None
        pauses.append(due - leader.clock.now_ms)
        leader.clock.now_ms = due
    assert pauses == [50, 100, 200, 400, 800, 1000]
    send(leader.partitions[0], 3)
    leader.fetched(2, 3)
    assert leader.partitions[0].high_watermark == 0


def test_refusal_frees_the_high_watermark_and_is_not_repeated_at_once() -> None:
    """An ineligible replica does not count; the next attempt waits a little."""
    leader = Leader((1, 2))
    leader.fetched(3, 0)
    send(leader.partitions[0], 3)
    leader.fetched(2, 3)
    assert leader.wanted() == {0: [1, 2, 3]} and leader.partitions[0].high_watermark == 0
    leader.answer([], code=ErrorCode.INELIGIBLE_REPLICA)
    assert leader.partitions[0].high_watermark == 3
    leader.fetched(3, 3)
    assert leader.request() is None
    leader.clock.now_ms += 500
    leader.fetched(3, 3)
    assert leader.wanted() == {0: [1, 2, 3]}


def test_stale_epoch_keeps_holding_until_the_metadata_tells() -> None:
    """Ours may be the change that made it stale: accepted, with an answer that was lost."""
    leader = Leader((1, 2))
    leader.fetched(3, 0)
    leader.wanted()
    leader.answer([], code=ErrorCode.INVALID_UPDATE_VERSION)
    send(leader.partitions[0], 3)
    leader.fetched(2, 3)
    assert leader.partitions[0].high_watermark == 0
    leader.partitions[0].make_leader(5, (1, 2), (1, 2, 3), partition_epoch=12, now_ms=leader.clock.now_ms)
    assert leader.partitions[0].high_watermark == 3


@pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_one_that_has_not_decided_keeps_holding(code: ErrorCode) -> None:
    """A former controller that is behind the metadata: its successor may have accepted the proposal, with an answer that was lost."""
    leader = Leader((1, 2))
    leader.fetched(3, 0)
    leader.wanted()
    leader.tracker.answered(None, leader.clock.now_ms)
    leader.clock.now_ms += 1000
    leader.wanted()
    leader.answer([], code=code)
    send(leader.partitions[0], 3)
    leader.fetched(2, 3)
    assert leader.partitions[0].high_watermark == 0
    leader.clock.now_ms += 1000
    leader.fetched(3, 0)
    leader.check(0)
    leader.fetched(3, 3)
    assert leader.partitions[0].high_watermark == 3


def test_answer_and_metadata_race() -> None:
    """The later partition epoch counts, whichever comes first."""
    leader = Leader((1, 2))
    leader.fetched(3, 0)
    leader.wanted()
    leader.answer([1, 2, 3], partition_epoch=11)
    leader.partitions[0].make_leader(5, (1, 2), (1, 2, 3), partition_epoch=10, now_ms=leader.clock.now_ms)
    assert leader.partitions[0].isr == (1, 2, 3)
    leader = Leader((1, 2))
    leader.fetched(3, 0)
    leader.wanted()
    leader.partitions[0].make_leader(5, (1,), (1, 2, 3), partition_epoch=12, now_ms=leader.clock.now_ms)
    leader.answer([1, 2, 3], partition_epoch=11)
    assert leader.partitions[0].isr == (1,)


def test_lost_leadership_ends_it() -> None:
    """What was asked is nobody's business any more."""
    leader = Leader((1, 2))
    leader.fetched(3, 0)
    leader.partitions[0].make_follower(2, 6, (1, 2), (1, 2, 3), partition_epoch=11)
    assert leader.request() is None
    leader.check(10 * LAG_MS)
    assert leader.request() is None


def test_own_limit_in_records() -> None:
    """Where it is set, who lacks more leaves however short the time."""
    leader = Leader(lag_messages=5)
    leader.fetched(2, 0)
    leader.fetched(3, 0)
    send(leader.partitions[0], 6)
    leader.fetched(2, 6)
    leader.check(1)
    assert leader.wanted() == {0: [1, 2]}
