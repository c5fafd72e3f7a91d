"""A follower and its leader, joined by the real messages: copying, acknowledging, cutting, and what goes wrong."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.log.partition import Partition
from kafkapy.replication.follower import FetchSettings
from tests.replication.support import Clock, Node, Wire, contents, lead, send


class Pair:
    """Broker 1 leads, broker 2 follows."""

    def __init__(self, settings: FetchSettings | None = None, partitions: int = 1, **config: object) -> None:
        self.clock = Clock()
        self.leader, self.follower = Node(1, self.clock, **config), Node(2, self.clock, **config)
        self.wire = Wire(self.follower, self.leader, settings)
        self.ours = [self.leader.add(index) for index in range(partitions)]
        self.theirs = [self.follower.add(index) for index in range(partitions)]
        self.lead()

    def lead(self, epoch: int = 1, isr: tuple[int, ...] | None = None) -> None:
        for index, partition in enumerate(self.theirs):
            lead([self.leader, self.follower], 1, epoch, isr, index)
            self.wire.fetcher.follow(partition)

    def same(self) -> bool:
        return all(contents(one) == contents(other) for one, other in zip(self.ours, self.theirs, strict=True))


def ends(partition: Partition) -> tuple[int, int]:
    return partition.log.log_end_offset, partition.high_watermark


def test_records_arrive_as_they_are_and_the_next_fetch_commits_them() -> None:
    """The offset that a follower asks for is its acknowledgement."""
    pair = Pair()
    send(pair.ours[0], 3)
    assert ends(pair.ours[0]) == (3, 0)
    pair.wire.run()
    assert pair.same() and ends(pair.ours[0]) == (3, 3)
    send(pair.ours[0], 2)
    pair.wire.run()
    assert pair.same() and ends(pair.ours[0]) == (5, 5)


def test_high_watermark_travels_with_the_next_answer() -> None:
    """It is no reason for an answer of its own, and arrives at the latest when the long poll ends."""
    pair = Pair()
    send(pair.ours[0], 3)
    pair.wire.run()
    assert ends(pair.theirs[0]) == (3, 0)
    pair.clock.now_ms += 500
    pair.wire.run()
    assert ends(pair.theirs[0]) == (3, 3) and pair.follower.committed_partitions == pair.theirs


def test_idle_partitions_are_not_named() -> None:
    """A session of a thousand partitions exchanges empty bodies; one append names one partition."""
    pair = Pair(partitions=40)
    pair.wire.run()
    pair.clock.now_ms += 500
    pair.wire.run()
    pair.clock.now_ms += 500
    pair.wire.run()
    assert pair.wire.requests[-1].topics == [] and pair.wire.responses[-1].responses == []
    count = len(pair.wire.requests)
    send(pair.ours[7])
    pair.wire.run()
    answer, asked = pair.wire.responses[-1], pair.wire.requests[count]
    assert [data.partition_index for topic in answer.responses for data in topic.partitions] == [7]
    assert [one.partition for topic in asked.topics for one in topic.partitions] == [7]
    assert pair.same()


def test_new_partitions_do_not_wait_for_the_long_poll() -> None:
    """The request with them leaves at once, and the leader answers the one that waits."""
    pair = Pair()
    pair.wire.run()
    pair.ours.append(pair.leader.add(1))
    pair.theirs.append(pair.follower.add(1))
    lead([pair.leader, pair.follower], 1, 1, None, 1)
    send(pair.ours[1], 5)
    pair.wire.fetcher.follow(pair.theirs[1])
    pair.wire.run()
    assert pair.same() and ends(pair.ours[1]) == (5, 5)


def test_many_new_partitions_are_added_in_slices() -> None:
    """Opening thousands of logs for one request would hold up those that are there already."""
    pair = Pair(partitions=600)
    pair.wire.send()
    assert sum(len(topic.partitions) for topic in pair.wire.requests[0].topics) == 250
    assert pair.wire.requests[0].max_wait_ms == 0
    pair.wire.run()
    for partition in pair.ours[::97]:
        send(partition)
    pair.wire.run()
    assert pair.same() and all(ends(one)[0] == ends(one)[1] for one in pair.ours)


def test_batches_larger_than_the_limits_come_one_at_a_time() -> None:
    """A fetch brings at least one batch, and no more than fits beyond that."""
    pair = Pair(FetchSettings(max_bytes=200, partition_max_bytes=150), partitions=3)
    for partition in pair.ours:
        for _ in range(3):
            send(partition, 3, size=50)
    pair.wire.run()
    assert pair.same() and all(ends(one) == (9, 9) for one in pair.ours)


@pytest.mark.parametrize("when", ["before", "after"])
def test_broken_connection_costs_nothing_but_time(when: str) -> None:
    """A new session names everything anew; what had arrived is not sent again."""
    pair = Pair(partitions=3)
    pair.wire.run()
    for partition in pair.ours:
        send(partition, 2)
    if when == "after":
        pair.wire.settle()
    pair.wire.break_off()
    pair.wire.run()
    assert not pair.same()
    pair.clock.now_ms += 20
    pair.wire.run()
    assert pair.same() and all(ends(one) == (2, 2) for one in pair.ours)
    assert len(pair.leader.fetch_sessions._followers) == 1


def test_session_that_the_leader_has_forgotten_begins_anew() -> None:
    """A leader that was started anew knows no sessions."""
    pair = Pair()
    pair.wire.run()
    pair.leader.fetch_sessions.close(pair.wire.requests[-1].session_id)
    send(pair.ours[0])
    pair.clock.now_ms += 500
    pair.wire.run()
    assert ErrorCode.FETCH_SESSION_ID_NOT_FOUND in [one.error_code for one in pair.wire.responses]
    assert pair.same()


def test_divergence_is_cut_by_epoch() -> None:
    """What the old leader alone had goes; what the new leader has instead comes."""
    pair = Pair()
    send(pair.ours[0], 4)
    pair.wire.run()
    # Broker 2 leads in epoch 2 and writes what nobody copies; then broker 1 leads again.
    lead([pair.leader, pair.follower], 2, 2)
    pair.wire.fetcher.unfollow(pair.theirs[0])
    send(pair.theirs[0], 3)
    lead([pair.leader, pair.follower], 1, 3)
    send(pair.ours[0], 2, size=99)
    pair.wire.fetcher.follow(pair.theirs[0])
    pair.wire.run()
    assert pair.same() and ends(pair.ours[0]) == (6, 6)
    assert pair.theirs[0].log.epochs.entries == pair.ours[0].log.epochs.entries


def test_diverging_follower_is_not_believed() -> None:
    """Its offset says nothing before its history is ours."""
    pair = Pair()
    send(pair.ours[0], 4)
    pair.wire.run()
    lead([pair.leader, pair.follower], 2, 2)
    send(pair.theirs[0], 5)
    pair.wire.fetcher.unfollow(pair.theirs[0])
    lead([pair.leader, pair.follower], 1, 3)
    send(pair.ours[0], 5)
    pair.wire.fetcher.follow(pair.theirs[0])
    pair.wire.send()
    assert pair.ours[0].high_watermark == 4


def test_answers_to_what_was_asked_before_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    """Two requests are open when an epoch changes: the earlier one's answer is about a position that is no longer ours."""
    pair = Pair()
    send(pair.ours[0], 4)
    pair.wire.run()
    lead([pair.leader, pair.follower], 2, 2)
    send(pair.theirs[0], 3)
    pair.wire.fetcher.unfollow(pair.theirs[0])
    pair.lead(3)
    send(pair.ours[0], 2)
    pair.wire.send()
    pair.lead(4)
    for _ in range(3):
        send(pair.ours[0], 2)
    pair.wire.send()
    for _ in range(4):
        pair.wire.settle()
        pair.wire.receive()
        pair.wire.send()
    pair.wire.run()
    assert pair.same() and ends(pair.ours[0]) == (12, 12)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_follower_that_is_out_of_range_starts_at_the_leaders_start() -> None:
    """Retention or DeleteRecords went past its end: the log begins anew there, in the middle of a batch if need be."""
    pair = Pair()
    send(pair.ours[0], 10)
    lead([pair.leader, pair.follower], 1, 2, (1,))
    assert pair.ours[0].high_watermark == 10
    pair.ours[0].delete_records(6)
    pair.lead(3, (1,))
    pair.wire.run()
    assert ends(pair.theirs[0])[0] == 10 and pair.theirs[0].log.log_start_offset == 6
    assert pair.ours[0].followers[2].end_offset == 10 and pair.ours[0].low_watermark() == 6


def test_leaders_log_start_is_followed() -> None:
    """Records deleted on the leader go from the replicas too, and the leader learns when."""
    pair = Pair()
    for _ in range(4):
        send(pair.ours[0], 5)
    pair.wire.run()
    assert pair.ours[0].delete_records(10) == 0
    pair.wire.run()
    assert pair.theirs[0].log.log_start_offset == 10 and pair.ours[0].low_watermark() == 10


def test_shorter_leader_of_an_unclean_election_cuts_the_follower() -> None:
    """An offset beyond its end, in an epoch that it does not know: only the election could allow that."""
    pair = Pair()
    send(pair.ours[0], 2)
    send(pair.ours[0], 2)
    pair.wire.run()
    lead([pair.leader, pair.follower], 2, 2)
    pair.wire.fetcher.unfollow(pair.theirs[0])
    send(pair.theirs[0], 6)
    pair.ours[0].truncate_to(2, pair.clock.now_ms)
    pair.lead(3, (1,))
    pair.wire.run()
    assert pair.same() and ends(pair.theirs[0])[0] == 2


def test_epoch_that_the_leader_has_not_heard_of_waits_for_it() -> None:
    """The metadata reaches brokers one after the other: an error would only make the follower pause."""
    pair = Pair()
    pair.wire.run()
    pair.theirs[0].make_follower(1, 5, (1, 2), (1, 2))
    pair.wire.fetcher.follow(pair.theirs[0])
    pair.wire.run()
    assert pair.wire.requests[-1].topics[0].partitions[0].current_leader_epoch == 5
    pair.ours[0].make_leader(5, (1, 2), (1, 2))
    pair.wire.settle()
    assert pair.ours[0].followers[2].end_offset == 0, "it is believed from then on"
    send(pair.ours[0], 2)
    pair.wire.run()
    assert pair.same() and ends(pair.ours[0]) == (2, 2)


def test_partition_that_the_leader_does_not_have_yet_waits_for_it() -> None:
    """A new topic's follower may be faster than its leader."""
    pair = Pair()
    pair.leader.forget(0)
    pair.wire.run()
    pair.clock.now_ms += 20
    pair.wire.run()
    ours = pair.leader.add(0)
    ours.make_leader(1, (1, 2), (1, 2))
    pair.leader.fetch_sessions.partition_appeared("orders", ours.topic_id, 0)
    pair.wire.settle()
    assert ours.followers[2].end_offset == 0
    send(ours, 3)
    pair.wire.run()
    assert ends(ours) == (3, 3) and contents(ours) == contents(pair.theirs[0])


def test_errors_pause_their_partition_alone_and_twice_as_long_each_time() -> None:
    """The others go on."""
    pair = Pair(partitions=2)
    pair.wire.run()
    pair.ours[0].make_follower(2, 1, (1, 2), (1, 2))
    pair.wire.run()
    send(pair.ours[1], 2)
    pair.wire.run()
    assert contents(pair.ours[1]) == contents(pair.theirs[1])
    pauses = []
    for _ in range(8):
        due = pair.wire.fetcher.next_time_ms()
        assert due is not None
        pauses.append(due - pair.clock.now_ms)
        pair.clock.now_ms = due
        pair.wire.run()
    assert pauses == [20, 40, 80, 160, 320, 640, 1000, 1000]


def test_strangers_and_former_incarnations_are_not_believed() -> None:
    """Only a replica of the partition, and only the broker that is registered now."""
    clock = Clock()
    nodes = [Node(1, clock), Node(2, clock), Node(9, clock)]
    ours, theirs, strange = (node.add() for node in nodes)
    lead(nodes[:2], 1, 1)
    strange.make_follower(1, 1, (1, 2), (1, 2))
    send(ours, 3)
    wire = Wire(nodes[2], nodes[0])
    wire.fetcher.follow(strange)
    wire.run()
    assert wire.responses[0].responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    nodes[0].image.brokers[2] = type("Registration", (), {"epoch": 7})
    for broker_epoch, high_watermark in ((6, 0), (7, 3)):
        wire = Wire(nodes[1], nodes[0])
        wire.broker_epoch = broker_epoch
        wire.fetcher.follow(theirs)
        wire.run()
        assert ours.high_watermark == high_watermark


def test_damaged_batch_is_refused_and_asked_for_again() -> None:
    """A checksum that does not match appends nothing."""
    pair = Pair()
    send(pair.ours[0], 2)
    good = pair.leader.disk.files[pair.ours[0].log.active.file.path].data
    good[70] ^= 1
    pair.wire.run()
    assert ends(pair.theirs[0])[0] == 0
    good[70] ^= 1
    pair.clock.now_ms += 20
    pair.wire.run()
    assert pair.same()


def test_throttled_partition_is_asked_for_when_its_time_has_come() -> None:
    """It leaves the session meanwhile."""
    pair = Pair()
    send(pair.ours[0], 2)
    pair.follower.held_ms = 300
    pair.wire.run()
    assert ends(pair.theirs[0])[0] == 0
    pair.follower.held_ms = 0
    pair.clock.now_ms += 300
    pair.wire.run()
    assert pair.same()


def test_a_follower_that_knew_its_leader_first_counts_at_once() -> None:
    """It names its position once, before the leader knows that it leads; the leader counts it when it does, without another request."""
    pair = Pair()
    send(pair.ours[0], 3)
    pair.wire.run()
    pair.ours[0].make_follower(2, 2, (1, 2), (1, 2))
    pair.theirs[0].make_follower(1, 3, (1, 2), (1, 2))
    pair.wire.fetcher.follow(pair.theirs[0])
    pair.wire.run()
    pair.ours[0].make_leader(3, (1, 2), (1, 2), now_ms=pair.clock.now_ms)
    assert pair.ours[0].followers[2].end_offset < 0
    pair.wire.run()
    assert pair.ours[0].followers[2].end_offset == 3
