"""A partition: roles, epochs, the high watermark, and what each kind of reader sees."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.log.append_info import AppendOrigin
from kafkapy.log.log import Log
from kafkapy.log.memory_files import MemoryFilesystem
from kafkapy.log.partition import Partition
from kafkapy.log.progress import FollowerProgress
from kafkapy.wire.records import encode_end_txn_marker
from tests.log.support import NAME, NOW_MS, TOPIC_ID, batch, config, offsets_of, open_log


def partition(
    isr: tuple[int, ...] = (1,), replicas: tuple[int, ...] = (1,), *, epoch: int = 3, **settings: object
) -> Partition:
    """Broker 1's replica, leading."""
    log = open_log(settings=config(**settings))
    made = Partition(NAME, TOPIC_ID, 1, lambda: log)
    made.make_leader(epoch, isr, replicas, now_ms=NOW_MS)
    return made


def send(target: Partition, count: int = 2, *, acks: int = -1, **options: object) -> int:
    return target.append_as_leader(batch(count, **options), now_ms=NOW_MS, required_acks=acks).first_offset  # type: ignore[arg-type]


def code_of(refused: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return refused.value.code


def test_alone_the_high_watermark_follows_the_append_at_once() -> None:
    """One replica needs to wait for nobody."""
    alone = partition()
    assert send(alone) == 0 and alone.high_watermark == 2
    assert offsets_of(alone.read(0, 1000).records.read_bytes()) == [0, 1]


def test_log_is_opened_when_it_is_touched_first() -> None:
    """An idle partition costs no file."""
    opened = []
    log = open_log()

    def open_it() -> Log:
        opened.append(1)
        return log

    idle = Partition(NAME, TOPIC_ID, 1, open_it, checkpointed_high_watermark=7)
    idle.make_leader(0, (1,), (1,))
    assert idle.opened is None and idle.known_high_watermark == 7 and not opened
    send(idle)
    assert idle.opened is log and opened == [1]


def test_only_the_leader_appends_and_serves() -> None:
    """A follower, and a replica that was told nothing yet, answer NOT_LEADER_OR_FOLLOWER."""
    log = open_log()
    replica = Partition(NAME, TOPIC_ID, 1, lambda: log)
    for _ in range(2):
        for action in (lambda: send(replica), lambda: replica.read(0, 100), lambda: replica.delete_records(0)):
            with pytest.raises(KafkaError) as refused:
                action()
            assert code_of(refused) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        replica.make_follower(2, 5, (2, 1), (1, 2))


@pytest.mark.parametrize(
    "asked,code", [(-1, None), (3, None), (2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_leader_epochs_of_askers_are_checked(asked: int, code: ErrorCode | None) -> None:
    """An older one is fenced, a newer one unknown, -1 is no check."""
    leader = partition()
    if code is None:
        leader.read(0, 100, current_leader_epoch=asked)
    else:
        with pytest.raises(KafkaError) as refused:
            leader.read(0, 100, current_leader_epoch=asked)
        assert code_of(refused) == code


def test_high_watermark_is_the_smallest_end_among_the_replicas_in_sync() -> None:
    """Followers acknowledge by asking for the next offset; those out of sync do not count."""
    leader = partition((1, 2, 3), (1, 2, 3, 4))
    for _ in range(3):
        send(leader)
    assert leader.high_watermark == 0 and leader.read(0, 1000).records.size == 0
    assert not leader.note_follower(2, 4, 0, NOW_MS)
    assert not leader.note_follower(4, 6, 0, NOW_MS)
    assert leader.note_follower(3, 2, 0, NOW_MS) and leader.high_watermark == 2
    assert leader.note_follower(3, 6, 0, NOW_MS) and leader.high_watermark == 4
    assert offsets_of(leader.read(0, 1000).records.read_bytes()) == [0, 1, 2, 3]
    assert leader.read(5, 1000).records.size == 0
    with pytest.raises(KafkaError) as refused:
        leader.note_follower(9, 0, 0, NOW_MS)
    assert code_of(refused) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_followers_read_to_the_end_of_the_log() -> None:
    """What is not replicated yet must be fetched by those who replicate it."""
    leader = partition((1, 2), (1, 2))
    send(leader)
    assert leader.read(0, 1000).records.size == 0
    assert offsets_of(leader.read(0, 1000, replica_id=2).records.read_bytes()) == [0, 1]


def test_too_few_replicas_in_sync_refuse_acks_all_and_hold_the_high_watermark() -> None:
    """min.insync.replicas binds acks=all; acks=1 is written, but nothing is committed meanwhile."""
    leader = partition((1,), (1, 2, 3), min_insync_replicas=2)
    with pytest.raises(KafkaError) as refused:
        send(leader)
    assert code_of(refused) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert send(leader, acks=1) == 0 and leader.high_watermark == 0
    leader.make_leader(3, (1, 2), (1, 2, 3))
    leader.note_follower(2, 2, 0, NOW_MS)
    assert leader.high_watermark == 2 and send(leader) == 2


def test_more_replicas_than_there_are_cannot_be_demanded() -> None:
    """A topic of one replica works whatever min.insync.replicas says, as in Kafka."""
    assert send(partition(min_insync_replicas=2)) == 0


def test_proposed_replica_counts_until_the_controller_has_answered() -> None:
    """Else the high watermark could pass a replica that is already in sync by the controller's word."""
    leader = partition((1,), (1, 2))
    send(leader)
    assert leader.high_watermark == 2
    leader.note_follower(2, 2, 0, NOW_MS)
    leader.proposed_isr = (1, 2)
    send(leader)
    assert not leader.raise_high_watermark() and leader.high_watermark == 2


def test_read_committed_stops_at_an_open_transaction_and_lists_aborted_ones() -> None:
    """Up to the last stable offset; the list is for the range that is returned."""
    leader = partition()
    send(leader, producer=(7, 0, 0), transactional=True)
    send(leader)
    found = leader.read(0, 1000, committed_only=True)
    assert found.records.size == 0 and found.last_stable_offset == 0 and found.high_watermark == 4
    assert offsets_of(leader.read(0, 1000).records.read_bytes()) == [0, 1, 2, 3]
    marker = encode_end_txn_marker(False, 0, 7, 0, NOW_MS)
    leader.append_as_leader(marker, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    found = leader.read(0, 1000, committed_only=True)
    assert found.aborted == [(7, 0)] and found.records.end_offset == 5 and found.last_stable_offset == 5
    assert leader.read(0, 1000).aborted == []
    assert leader.read(2, 1000, committed_only=True).aborted == [(7, 0)]
    assert leader.read(5, 1000, committed_only=True).aborted == []


def test_history_that_parts_is_told() -> None:
    """A fetch with its last epoch learns where ours ended; with one that is not known here it is out of range."""
    leader = partition(epoch=0)
    send(leader, 4)
    leader.make_leader(5, (1,), (1,))
    send(leader, 4)
    assert leader.end_offset_for_epoch(0) == (0, 4) and leader.end_offset_for_epoch(5) == (5, 8)
    assert leader.end_offset_for_epoch(3) == (0, 4) and leader.end_offset_for_epoch(6) == (-1, -1)
    assert leader.read(3, 1000, last_fetched_epoch=0).diverging is None
    assert leader.read(6, 1000, last_fetched_epoch=0).diverging == (0, 4)
    assert leader.read(2, 1000, last_fetched_epoch=3).diverging == (0, 4)
    with pytest.raises(KafkaError) as refused:
        leader.read(6, 1000, last_fetched_epoch=6)
    assert code_of(refused) == ErrorCode.OFFSET_OUT_OF_RANGE


def test_new_leader_knows_its_epoch_before_its_first_batch() -> None:
    """OffsetForLeaderEpoch answers the end of the log."""
    leader = partition(epoch=9)
    assert leader.end_offset_for_epoch(9) == (9, 0)


def test_records_are_deleted_up_to_the_high_watermark() -> None:
    """-1 means all; beyond it is out of range; a topic that is only compacted refuses."""
    leader = partition()
    send(leader, 10)
    assert leader.delete_records(4) == 4 and leader.delete_records(2) == 4
    with pytest.raises(KafkaError) as refused:
        leader.delete_records(11)
    assert code_of(refused) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert leader.delete_records(-1) == 10
    with pytest.raises(KafkaError) as refused:
        partition(cleanup_policy="compact").delete_records(0)
    assert code_of(refused) == ErrorCode.POLICY_VIOLATION


def test_follower_takes_the_leaders_high_watermark_as_far_as_it_reaches() -> None:
    """It copies batches and offsets, and cuts what the leader does not have."""
    leader, log = partition((1, 2), (1, 2)), open_log()
    for _ in range(3):
        send(leader)
    follower = Partition(NAME, TOPIC_ID, 2, lambda: log)
    follower.make_follower(1, 3, (1, 2), (1, 2))
    data = leader.read(0, 250, replica_id=2).records.read_bytes()
    follower.append_as_follower(data, now_ms=NOW_MS, leader_high_watermark=6)
    assert follower.high_watermark == follower.log.log_end_offset == 4
    assert not follower.follow_high_watermark(2)
    follower.truncate_to(2, NOW_MS)
    assert follower.high_watermark == 2
    follower.truncate_fully_and_start_at(50, NOW_MS)
    assert (follower.high_watermark, follower.log.log_end_offset) == (50, 50)


def test_follower_takes_nothing_of_a_later_epoch_than_it_follows() -> None:
    """A leader that lost its leadership while it sent may send what its successor wrote, behind what that one does not have."""
    leader, log = partition((1, 2), (1, 2)), open_log()
    send(leader)
    leader.make_leader(4, (1, 2), (1, 2), now_ms=NOW_MS)
    send(leader)
    data = leader.read(0, 1000, replica_id=2).records.read_bytes()
    follower = Partition(NAME, TOPIC_ID, 2, lambda: log)
    follower.make_follower(1, 3, (1, 2), (1, 2))
    follower.append_as_follower(data, now_ms=NOW_MS, leader_high_watermark=4)
    assert (log.log_end_offset, log.epochs.latest_epoch, follower.high_watermark) == (2, 3, 2)


def test_high_watermark_comes_back_from_its_checkpoint() -> None:
    """A restarted follower serves nothing above it until the leader says more; a log that is shorter bounds it."""
    disk = MemoryFilesystem()
    log = open_log(disk)
    log.append_as_leader(batch(10), leader_epoch=0, now_ms=NOW_MS)
    for checkpoint, expected in ((6, 6), (99, 10)):
        again = Partition(NAME, TOPIC_ID, 2, lambda: open_log(disk.after_kill(), clean=False), checkpoint)
        again.make_follower(1, 1, (1, 2), (1, 2))
        assert again.high_watermark == expected


def test_transactions_that_ended_long_ago_hold_nothing_back_after_a_cut_or_a_crash() -> None:
    """The producers are read anew from the log then, and the high watermark need not move for their markers to count."""
    disk = MemoryFilesystem()
    log = open_log(disk)
    leader = Partition(NAME, TOPIC_ID, 1, lambda: log)
    leader.make_leader(0, (1,), (1,))
    send(leader, producer=(7, 0, 0), transactional=True)
    leader.append_as_leader(
        encode_end_txn_marker(True, 0, 7, 0, NOW_MS), now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
    )
    assert leader.last_stable_offset == 3
    leader.truncate_to(3, NOW_MS)
    assert leader.last_stable_offset == 3
    again = Partition(NAME, TOPIC_ID, 2, lambda: open_log(disk.after_kill(), clean=False), 3)
    again.make_follower(1, 1, (1, 2), (1, 2))
    assert again.last_stable_offset == 3


def test_followers_leave_and_join_the_replicas_in_sync() -> None:
    """Behind for too long: out. Back at the high watermark, within this leader's epoch: in again."""
    leader = partition((1, 2, 3), (1, 2, 3, 4))
    send(leader)
    leader.note_follower(2, 2, 0, NOW_MS + 500)
    leader.note_follower(3, 0, 0, NOW_MS + 500)
    leader.note_follower(4, 1, 0, NOW_MS + 500)
    assert leader.out_of_sync(NOW_MS + 1000, 1000) == []
    assert leader.out_of_sync(NOW_MS + 1001, 1000) == [3]
    leader.make_leader(3, (1, 2), (1, 2, 3, 4), partition_epoch=1)
    assert leader.high_watermark == 2 and leader.may_join_isr() == []
    leader.note_follower(4, 2, 0, NOW_MS + 2000)
    assert leader.may_join_isr() == [4]
    assert leader.followers[2].end_offset == 2, "progress survives a change within the epoch"


def test_follower_of_a_busy_leader_stays_in_sync_although_it_is_never_at_its_end() -> None:
    """It was caught up at its last fetch if it now has what was the end then."""
    progress = FollowerProgress(2, 0, in_sync=True)
    for number in range(1, 20):
        progress.fetched(number * 10 - 10, 0, number * 10, now_ms=number * 100)
        assert progress.is_caught_up(number * 10 + 5, number * 100, 150)
    progress.fetched(100, 0, 300, now_ms=5000)
    assert not progress.is_caught_up(300, 5000, 150)
