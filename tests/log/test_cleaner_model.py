"""Compaction against a simple model: whatever is written and whenever it is cleaned, nobody sees anything but what a consumer should."""

from __future__ import annotations

import random

import pytest

from kafkapy.log.append_info import AppendOrigin
from kafkapy.log.log import Log
from kafkapy.log.memory_files import MemoryFilesystem
from kafkapy.wire.records import BatchBuilder, Record, encode_end_txn_marker
from tests.log.cleaning import clean, visible
from tests.log.support import NOW_MS, config, open_log

DELETE_RETENTION_MS = 10_000


class Model:
    """A log with random producers, and every record that was ever acknowledged."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.now_ms = NOW_MS
        self.settings = config(
            cleanup_policy="compact",
            segment_bytes=self.dice.choice((800, 1200, 2500)),
            index_interval_bytes=self.dice.choice((0, 100, 4096)),
            delete_retention_ms=DELETE_RETENTION_MS,
            message_timestamp_type=self.dice.choice(("CreateTime", "CreateTime", "LogAppendTime")),
        )
        self.disk = MemoryFilesystem()
        self.log: Log = open_log(self.disk, settings=self.settings)
        self.records: dict[int, Record] = {}
        self.aborted: set[int] = set()
        self.sequences = {1: 0, 2: 0, 3: 0, 4: 0}
        self.epochs = dict.fromkeys(self.sequences, 0)
        self.open_since: dict[int, list[int]] = {}
        self.checkpoint: int | None = None
        self.key_count = self.dice.choice((2, 6, 40))

    def step(self) -> None:
        """Something happens."""
        self.now_ms += self.dice.choice((0, 1, 500, 4000))
        kind = self.dice.random()
        if kind < 0.75:
            self.produce(self.dice.choice((-1, -1, 1, 2, 3, 4)))
        elif kind < 0.9:
            if self.open_since:
                self.end_transaction(self.dice.choice(sorted(self.open_since)))
        elif kind < 0.95:
            self.clean()
        else:
            self.reopen(clean=self.dice.random() < 0.5)

    def produce(self, producer_id: int) -> None:
        """One batch: plain, idempotent (1, 2) or in a transaction (3, 4)."""
        transactional = producer_id >= 3
        builder = BatchBuilder(
            codec=self.dice.choice((0, 0, 0, 1, 2, 3, 4)),
            producer_id=producer_id,
            producer_epoch=self.epochs.get(producer_id, -1),
            base_sequence=self.sequences.get(producer_id, -1),
            transactional=transactional,
        )
        count = self.dice.choice((1, 1, 2, 5))
        drawn = []
        for _ in range(count):
            key = b"key-%d" % self.dice.randrange(self.key_count)
            value = None if self.dice.random() < 0.2 else self.dice.randbytes(self.dice.choice((0, 10, 60)))
            timestamp = self.now_ms + self.dice.choice((-70_000, -1, 0, 0, 0, 5))
            headers = (("h", b"x"), ("", None)) if self.dice.random() < 0.2 else ()
            builder.append(timestamp, key, value, headers)
            drawn.append((timestamp, key, value, headers))
        info = self.log.append_as_leader(builder.build(), leader_epoch=0, now_ms=self.now_ms)
        for offset, (timestamp, key, value, headers) in enumerate(drawn, info.first_offset):
            time = info.log_append_time_ms if info.log_append_time_ms >= 0 else timestamp
            self.records[offset] = Record(offset, time, key, value, headers)
        if producer_id > 0:
            self.sequences[producer_id] += count
        if transactional:
            self.open_since.setdefault(producer_id, []).extend(range(info.first_offset, info.last_offset + 1))

    def end_transaction(self, producer_id: int) -> None:
        """Commit or abort."""
        offsets = self.open_since.pop(producer_id)
        committed = self.dice.random() < 0.5
        if not committed:
            self.aborted.update(offsets)
        bump = self.dice.random() < 0.5
        if bump:
            self.epochs[producer_id] += 1
            self.sequences[producer_id] = 0
        epoch = self.epochs[producer_id]
        marker = encode_end_txn_marker(committed, 0, producer_id, epoch, self.now_ms)
        self.log.append_as_leader(marker, leader_epoch=0, now_ms=self.now_ms, origin=AppendOrigin.COORDINATOR)
        self.log.producers.high_watermark_reached(self.log.log_end_offset)

    def clean(self) -> None:
        """A round of compaction, now and then with very little memory; then everything is looked at."""
        before = producers(self.log)
        stats = clean(self.log, self.now_ms, self.checkpoint, self.dice.choice((1 << 16, 300)))
        if stats is not None:
            self.checkpoint = stats.end_offset
        assert producers(self.log) == before
        self.check()

    def reopen(self, clean: bool) -> None:
        """Stop, cleanly or not, and start: the producers must be what they were."""
        before = producers(self.log)
        if clean:
            self.log.close()
        self.disk = self.disk.after_kill()
        self.log = open_log(self.disk, settings=self.settings, clean=clean, now_ms=self.now_ms)
        assert producers(self.log) == before
        self.log.producers.high_watermark_reached(self.log.log_end_offset)
        self.check()

    def check(self) -> None:
        """What consumers see is what they should."""
        end = self.log.first_unstable_offset if self.log.first_unstable_offset >= 0 else self.log.log_end_offset
        seen = visible(self.log, True, end)
        assert [record.offset for record in seen] == sorted({record.offset for record in seen})
        for record in seen:
            assert record == self.records[record.offset], "a kept record is what was written"
        readable = {offset: record for offset, record in self.records.items() if offset < end}
        last = {record.key: record for offset, record in sorted(readable.items()) if offset not in self.aborted}
        assert not self.aborted.intersection(record.offset for record in seen)
        kept = {record.key: record for record in seen}
        for key, record in last.items():
            if record.value is not None:
                assert kept[key] == record, "the last value of each key is there"
            elif key in kept:
                assert kept[key] == record, "a tombstone that went took all that is older with it"
        assert set(kept) <= set(last)
        for offset in range(self.log.log_start_offset, self.log.log_end_offset):
            self.log.read(offset, 1)

    def check_compact(self) -> None:
        """After a round over everything that was closed: no key twice, and no tombstone beyond its time."""
        closed_end = self.log.active.base_offset
        seen = [record for record in visible(self.log, False) if record.offset < closed_end]
        by_key: dict[bytes | None, int] = {}
        for record in seen:
            by_key[record.key] = by_key.get(record.key, 0) + 1
        assert set(by_key.values()) <= {1}
        assert not self.aborted.intersection(record.offset for record in seen)


def producers(log: Log) -> list[tuple[int, int, int, int]]:
    """What decides whether a producer's next batch is accepted, and whether its last one is taken for a duplicate."""
    return sorted((s.producer_id, s.epoch, s.next_sequence, s.last_offset) for s in log.producers.states.values())


@pytest.mark.parametrize("seed", range(40))
def test_consumers_see_the_last_value_of_each_key_and_nothing_changes_but_what_is_superseded(seed: int) -> None:
    """Random records, tombstones, transactions and producers, cleaned and restarted in between."""
    model = Model(seed)
    for _ in range(120):
        model.step()
    for producer_id in sorted(model.open_since):
        model.end_transaction(producer_id)
    model.log.roll(model.now_ms)
    model.checkpoint = None
    stats = clean(model.log, model.now_ms, None)
    assert stats is not None and stats.end_offset == model.log.log_end_offset
    model.check()
    model.check_compact()
    tombstones = [record for record in visible(model.log, True) if record.value is None]
    last = {record.key: record for offset, record in sorted(model.records.items()) if offset not in model.aborted}
    old = {record.offset for record in tombstones}
    assert all(last[record.key] == record for record in tombstones)
    # A second round after the horizon removes the tombstones; a third the markers.
    for _ in range(3):
        model.now_ms += DELETE_RETENTION_MS + 1
        model.produce(-1)
        model.log.roll(model.now_ms)
        clean(model.log, model.now_ms, None)
    left = {record.offset for record in visible(model.log, True) if record.value is None}
    assert not left & old
    model.check()
    model.reopen(clean=False)
