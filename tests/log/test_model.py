"""The log against a model so simple that it cannot be wrong: a list of batches.

Hypothesis plays random sequences of what may happen to a log (appends of producers, rolls, truncations, retention, flushes, clean
stops, kills, power losses) on both, and compares everything that can be asked after each.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.log.memory_files import MemoryFilesystem
from tests.log.support import NOW_MS, batch, config, headers, open_log, read_all, records_of

SETTINGS = config(segment_bytes=700, index_interval_bytes=120, retention_bytes=2000, retention_ms=-1)


@dataclass(frozen=True)
class Batch:
    """What the model knows of a batch."""

    first: int
    last: int
    epoch: int
    timestamp: int
    producer: tuple[int, int] | None  # producer id, sequence


@dataclass
class Model:
    """The list of batches, and three offsets."""

    start: int = 0
    end: int = 0
    flushed: int = 0
    batches: list[Batch] = field(default_factory=list)

    def visible(self) -> list[Batch]:
        return [one for one in self.batches if one.last >= self.start]

    def next_sequence(self, producer: int) -> int:
        sequences = [
            (b.producer[1] + b.last - b.first + 1) for b in self.batches if b.producer and b.producer[0] == producer
        ]
        return sequences[-1] if sequences else 0


class LogMachine(RuleBasedStateMachine):
    """One log and its model."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryFilesystem()
        self.log = open_log(self.disk, settings=SETTINGS)
        self.model = Model()
        self.epoch = 0
        self.clock = NOW_MS

    @rule(
        batches=st.lists(
            st.tuples(st.integers(1, 5), st.integers(-50, 50), st.sampled_from([None, None, 1, 2])),
            min_size=1,
            max_size=8,
        )
    )
    def append(self, batches: list[tuple[int, int, int | None]]) -> None:
        for count, drift, producer in batches:
            self.append_one(count, drift, producer)

    def append_one(self, count: int, drift: int, producer: int | None) -> None:
        self.clock += drift
        sequence = self.model.next_sequence(producer) if producer is not None else -1
        sent = batch(
            count, timestamp=self.clock, producer=(-1, -1, -1) if producer is None else (producer, 0, sequence)
        )
        info = self.log.append_as_leader(sent, leader_epoch=self.epoch, now_ms=self.clock)
        assert info.first_offset == self.model.end and not info.duplicate
        made = Batch(
            self.model.end,
            info.last_offset,
            self.epoch,
            self.clock,
            None if producer is None else (producer, sequence),
        )
        self.model.batches.append(made)
        self.model.end = info.last_offset + 1

    @rule()
    def repeat_the_last_batch_of_a_producer(self) -> None:
        last = {b.producer[0]: b for b in self.model.batches if b.producer}
        for made in last.values():
            assert made.producer is not None
            sent = batch(
                made.last - made.first + 1, timestamp=made.timestamp, producer=(made.producer[0], 0, made.producer[1])
            )
            info = self.log.append_as_leader(sent, leader_epoch=self.epoch, now_ms=self.clock)
            assert info.duplicate and (info.first_offset, info.last_offset) == (made.first, made.last)

    @rule()
    def new_leader_epoch(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(self.clock)

    @rule()
    def flush(self) -> None:
        self.log.flush(self.clock)
        assert self.log.recovery_point == self.model.end
        self.model.flushed = self.model.end

    @rule(back=st.integers(0, 6))
    def truncate(self, back: int) -> None:
        whole = [b.first for b in self.model.batches if b.first >= self.model.start]
        if not whole:
            return
        offset = whole[max(0, len(whole) - back)] if back else self.model.end
        for path in self.log.truncate_to(offset, self.clock):
            self.disk.unlink(path)
        self.model.batches = [b for b in self.model.batches if b.last < offset]
        self.model.end = offset
        self.model.flushed = min(self.model.flushed, offset)

    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        offset = self.model.start + int(part * (self.model.end - self.model.start))
        self.log.maybe_increment_log_start_offset(offset)
        self.model.start = max(self.model.start, offset)
        self.model.flushed = max(self.model.flushed, offset)

    @rule()
    def retention(self) -> None:
        for path in self.log.delete_old_segments(self.clock):
            self.disk.unlink(path)
        assert self.log.log_start_offset >= self.model.start
        self.model.start = self.log.log_start_offset
        self.model.flushed = max(self.model.flushed, self.model.start)

    @rule()
    def stop_and_start(self) -> None:
        self.log.flush(self.clock)
        self.log.close()
        self.disk = self.disk.after_power_loss() if self.model.batches else self.disk.after_kill()
        self.log = open_log(self.disk, settings=SETTINGS, log_start_offset=self.model.start)
        self.model.flushed = self.model.end

    @rule()
    def kill_and_start(self) -> None:
        self.disk = self.disk.after_kill()
        self.log = open_log(
            self.disk,
            settings=SETTINGS,
            clean=False,
            recovery_point=self.log.recovery_point,
            log_start_offset=self.model.start,
        )
        self.model.flushed = self.log.recovery_point

    @invariant()
    def offsets_agree(self) -> None:
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.model.start, self.model.end)

    @invariant()
    def records_agree(self) -> None:
        data = read_all(self.log, max_bytes=300)
        found = [(h.base_offset, h.last_offset, h.partition_leader_epoch) for h in headers(data)]
        assert found == [(b.first, b.last, b.epoch) for b in self.model.visible()]

    @invariant()
    def times_agree(self) -> None:
        records = [r for r in records_of(read_all(self.log)) if r.offset >= self.model.start]
        for time in sorted({record.timestamp for record in records})[:: max(1, len(records) // 4)]:
            expected = next(record.offset for record in records if record.timestamp >= time)
            found = self.log.offset_for_timestamp(time)
            assert found is not None and found.offset == expected

    @invariant()
    def epochs_agree(self) -> None:
        visible = self.model.visible()
        if visible:
            for made in (visible[0], visible[-1]):
                assert self.log.epoch_for_offset(max(made.first, self.model.start)) == made.epoch

    @invariant()
    def outside_is_refused(self) -> None:
        for offset in (self.model.start - 1, self.model.end + 1):
            try:
                self.log.read(offset, 100)
            except KafkaError as error:
                assert error.code == ErrorCode.OFFSET_OUT_OF_RANGE
            else:
                raise AssertionError(f"offset {offset} is outside of the log")


TestLogAgainstModel = LogMachine.TestCase
TestLogAgainstModel.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
