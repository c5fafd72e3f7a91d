"""The idempotent producer and transactions in one partition: a row for each rule."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.log.append_info import AppendInfo, AppendOrigin
from kafkapy.log.log import Log
from kafkapy.log.memory_files import MemoryFilesystem
from kafkapy.wire.records import encode_end_txn_marker
from tests.log.support import NOW_MS, batch, config, open_log

Send = tuple[int, int, int]  # epoch, first sequence, number of records


def send(log: Log, epoch: int, sequence: int, count: int, *, txn: bool = False, verified: bool = True) -> AppendInfo:
    """Producer 5 sends a batch."""
    records = batch(count, producer=(5, epoch, sequence), transactional=txn)
    return log.append_as_leader(records, leader_epoch=0, now_ms=NOW_MS, transaction_verified=verified)


def mark(log: Log, commit: bool, epoch: int, *, coordinator_epoch: int = 0, version: int = 1) -> AppendInfo:
    """The transaction coordinator ends producer 5's transaction."""
    records = encode_end_txn_marker(commit, coordinator_epoch, 5, epoch, NOW_MS)
    return log.append_as_leader(
        records, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR, transaction_version=version
    )


LAST = 2**31 - 1
SEQUENCES: dict[str, tuple[list[Send], Send, ErrorCode | None]] = {
    "nothing known accepts any sequence": ([], (3, 77, 2), None),
    "the next sequence": ([(0, 0, 3)], (0, 3, 1), None),
    "a gap": ([(0, 0, 3)], (0, 4, 1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    "an old sequence that is no batch": ([(0, 0, 3)], (0, 1, 2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    "an older epoch": ([(2, 0, 1)], (1, 1, 1), ErrorCode.INVALID_PRODUCER_EPOCH),
    "an older epoch that repeats a batch": ([(2, 0, 1)], (1, 0, 1), ErrorCode.INVALID_PRODUCER_EPOCH),
    "a newer epoch begins with 0": ([(0, 0, 3)], (1, 0, 1), None),
    "a newer epoch that goes on": ([(0, 0, 3)], (1, 3, 1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    "the wrap from the last sequence": ([(0, LAST, 1)], (0, 0, 1), None),
    "the wrap within a batch": ([(0, LAST - 1, 4)], (0, 2, 1), None),
    "a gap at the wrap": ([(0, LAST, 1)], (0, 1, 1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences(name: str) -> None:
    """Kafka's rules and codes for what a producer may send next."""
    before, sent, code = SEQUENCES[name]
    log = open_log()
    for epoch, sequence, count in before:
        send(log, epoch, sequence, count)
    end = log.log_end_offset
    if code is None:
        assert not send(log, *sent).duplicate
        assert log.log_end_offset == end + sent[2]
    else:
        with pytest.raises(KafkaError) as refused:
            send(log, *sent)
        assert refused.value.code == code and log.log_end_offset == end


def test_the_last_five_batches_are_answered_as_the_first_time() -> None:
    """A duplicate is success with the original offset and time, and nothing is appended; the sixth is out of order."""
    log = open_log()
    first = [send(log, 0, 2 * number, 2) for number in range(7)]
    end = log.log_end_offset
    for number in range(2, 7):
        again = send(log, 0, 2 * number, 2)
        assert again.duplicate and again.log_append_time_ms == NOW_MS + 1
        assert (again.first_offset, again.last_offset) == (first[number].first_offset, first[number].last_offset)
    for number in range(2):
        with pytest.raises(KafkaError) as refused:
            send(log, 0, 2 * number, 2)
        assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == end


def test_duplicates_are_recognised_after_a_restart() -> None:
    """The snapshot has the last batch; replaying from it finds later ones; after a kill all five are found again."""
    disk = MemoryFilesystem()
    log = open_log(disk)
    for number in range(5):
        send(log, 0, number, 1)
    killed = open_log(disk.after_kill(), clean=False)
    assert [send(killed, 0, number, 1).first_offset for number in range(5)] == [0, 1, 2, 3, 4]
    log.close()
    stopped = open_log(disk.after_kill())
    assert send(stopped, 0, 4, 1).duplicate and send(stopped, 0, 4, 1).first_offset == 4
    assert not send(stopped, 0, 5, 1).duplicate


def test_silent_producers_expire_unless_their_transaction_is_open() -> None:
    """After producer.id.expiration.ms nothing is known of one, so that any sequence is accepted again."""
    log = open_log()
    send(log, 0, 0, 1)
    log.expire_producers(NOW_MS + 999, 1000)
    with pytest.raises(KafkaError):
        send(log, 0, 50, 1)
    log.expire_producers(NOW_MS + 1000, 1000)
    send(log, 0, 50, 1)
    mark(log, True, 0)
    send(log, 0, 51, 1, txn=True)
    log.expire_producers(NOW_MS + 99_000, 1000)
    assert len(list(log.active_producers())) == 1


def test_transaction_holds_the_first_unstable_offset_until_its_marker_is_replicated() -> None:
    """It opens with its first batch; the marker ends it, but counts only below the high watermark."""
    log = open_log()
    send(log, 0, 0, 2)
    assert log.first_unstable_offset == -1
    send(log, 0, 2, 2, txn=True)
    send(log, 0, 4, 2, txn=True)
    assert log.first_unstable_offset == 2
    mark(log, True, 0)
    assert log.first_unstable_offset == 2
    log.producers.high_watermark_reached(6)
    assert log.first_unstable_offset == 2
    log.producers.high_watermark_reached(7)
    assert log.first_unstable_offset == -1
    assert log.aborted_transactions(0, 100) == []


def test_aborted_transactions_of_several_producers() -> None:
    """Each abort is listed with the range of its records, and with the last stable offset of that moment."""
    log = open_log(settings=config(segment_bytes=500))

    def of(producer: int, sequence: int) -> None:
        records = batch(1, producer=(producer, 0, sequence), transactional=True)
        log.append_as_leader(records, leader_epoch=0, now_ms=NOW_MS)

    def end(producer: int, commit: bool) -> None:
        records = encode_end_txn_marker(commit, 0, producer, 0, NOW_MS)
        log.append_as_leader(records, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)

    for producer in (1, 2, 3):
        of(producer, 0)
    end(2, False)  # 3
    of(1, 1)
    end(1, False)  # 5
    end(3, True)  # 6
    of(2, 1)
    end(2, False)  # 8
    found = [
        (t.producer_id, t.first_offset, t.last_offset, t.last_stable_offset) for t in log.aborted_transactions(0, 9)
    ]
    assert found == [(1, 0, 5, 2), (2, 1, 3, 0), (2, 7, 8, 9)]
    assert [t.producer_id for t in log.aborted_transactions(4, 5)] == [1]
    assert [t.first_offset for t in log.aborted_transactions(6, 9)] == [7]
    assert log.aborted_transactions(0, 0) == []


TXN_STATES: dict[str, tuple[bool, bool, bool, ErrorCode | None]] = {
    # open before, sends transactionally, verified
    "the first batch of a verified transaction": (False, True, True, None),
    "the first batch of a transaction nobody verified": (False, True, False, ErrorCode.INVALID_TXN_STATE),
    "a later batch needs no verification": (True, True, False, None),
    "a batch outside of the open transaction": (True, False, True, ErrorCode.INVALID_TXN_STATE),
    "no transaction at all": (False, False, False, None),
}


@pytest.mark.parametrize("name", TXN_STATES)
def test_transaction_states(name: str) -> None:
    """When a batch may open a transaction, and that none may be written beside it."""
    is_open, txn, verified, code = TXN_STATES[name]
    log = open_log()
    sequence = 0
    if is_open:
        send(log, 0, 0, 1, txn=True)
        sequence = 1
    if code is None:
        send(log, 0, sequence, 1, txn=txn, verified=verified)
        assert (log.first_unstable_offset >= 0) == (is_open or txn)
    else:
        with pytest.raises(KafkaError) as refused:
            send(log, 0, sequence, 1, txn=txn, verified=verified)
        assert refused.value.code == code


MARKERS: dict[str, tuple[bool, int, int, int, ErrorCode | None]] = {
    # transaction open (epoch 3, coordinator epoch 2 before), marker's epoch, its coordinator's epoch, transaction version
    "the same epoch in version 1": (True, 3, 2, 1, None),
    "a bumped epoch in version 1": (True, 4, 2, 1, None),
    "an older epoch in version 1": (True, 2, 2, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
    "a bumped epoch in version 2": (True, 4, 2, 2, None),
    "the same epoch in version 2": (True, 3, 2, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
    "a marker repeated in version 2": (False, 3, 2, 2, None),
    "an older epoch in version 2": (False, 2, 2, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
    "an older coordinator": (True, 4, 1, 2, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    "a newer coordinator": (True, 4, 9, 2, None),
}


@pytest.mark.parametrize("name", MARKERS)
def test_markers(name: str) -> None:
    """Late markers are refused: by the producer's epoch, which version 2 bumps with each end, and the coordinator's."""
    is_open, epoch, coordinator_epoch, version, code = MARKERS[name]
    log = open_log()
    send(log, 3, 0, 1, txn=True)
    mark(log, True, 3, coordinator_epoch=2)
    if is_open:
        send(log, 3, 1, 1, txn=True)
    end = log.log_end_offset
    if code is None:
        assert mark(log, False, epoch, coordinator_epoch=coordinator_epoch, version=version).first_offset == end
        log.producers.high_watermark_reached(end + 1)
        assert log.first_unstable_offset == -1
        assert bool(log.aborted_transactions(end, end + 1)) == is_open
    else:
        with pytest.raises(KafkaError) as refused:
            mark(log, False, epoch, coordinator_epoch=coordinator_epoch, version=version)
        assert refused.value.code == code and log.log_end_offset == end


def test_after_a_bumped_marker_the_new_epoch_begins_with_sequence_0() -> None:
    """The marker's epoch is the producer's new one; what the old epoch sent late is fenced."""
    log = open_log()
    send(log, 0, 0, 2, txn=True)
    mark(log, True, 1, version=2)
    with pytest.raises(KafkaError) as refused:
        send(log, 0, 2, 1, txn=True)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(KafkaError) as refused:
        send(log, 1, 2, 1, txn=True)
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    send(log, 1, 0, 1, txn=True)


def test_after_a_marker_of_the_same_epoch_sequences_go_on() -> None:
    """Version 1 keeps the epoch, so the producer's sequences and duplicates stay known."""
    log = open_log()
    send(log, 0, 0, 2, txn=True)
    mark(log, True, 0)
    assert send(log, 0, 0, 2, txn=True).duplicate
    assert not send(log, 0, 2, 2, txn=True).duplicate


def test_coordinator_writes_in_a_producers_name_without_sequences() -> None:
    """Offsets of a transaction have no sequence; an older epoch is fenced all the same."""
    log = open_log()

    def commit_offsets(epoch: int, verified: bool = True) -> None:
        log.append_as_leader(
            batch(1, producer=(5, epoch, -1), transactional=True),
            leader_epoch=0,
            now_ms=NOW_MS,
            origin=AppendOrigin.COORDINATOR,
            transaction_verified=verified,
        )

    with pytest.raises(KafkaError) as refused:
        commit_offsets(1, verified=False)
    assert refused.value.code == ErrorCode.INVALID_TXN_STATE
    commit_offsets(1)
    commit_offsets(1, verified=False)
    with pytest.raises(KafkaError) as refused:
        commit_offsets(0)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.first_unstable_offset == 0


def test_describe_producers_shows_what_is_remembered() -> None:
    """Epochs, sequence, time, and the open transaction's start."""
    log = open_log()
    send(log, 2, 0, 3, txn=True)
    (producer,) = log.active_producers()
    assert producer == (5, 2, 2, NOW_MS + 2, -1, 0)
    mark(log, True, 2, coordinator_epoch=6)
    (producer,) = log.active_producers()
    assert (producer.coordinator_epoch, producer.current_txn_first_offset) == (6, -1)
