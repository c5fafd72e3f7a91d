"""What is committed: every batch that any leader's high watermark has ever passed, in order. It only grows, and everybody is compared with it."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from kafkapy.log.log import Log
from kafkapy.wire.record_batch import BATCH_HEADER, BATCH_HEADER_BYTES, LENGTH_END
from sim.events import InvariantError


class Batch(NamedTuple):
    """A batch by what tells it from every other; the checksum covers its records."""

    base_offset: int
    next_offset: int
    epoch: int
    crc: int
    producer_id: int
    base_sequence: int

    def __str__(self) -> str:
        return (
            f"[{self.base_offset}, {self.next_offset}) of epoch {self.epoch}, "
            f"producer {self.producer_id} from {self.base_sequence}"
        )


def parse_batches(data: bytes | memoryview) -> list[Batch]:
    """The whole batches in these bytes."""
    found = []
    position = 0
    while position + BATCH_HEADER_BYTES <= len(data):
        fields = BATCH_HEADER.unpack_from(data, position)
        base, length, epoch, _, crc, _, delta, _, _, producer_id, _, sequence, _ = fields
        found.append(Batch(base, base + delta + 1, epoch, crc, producer_id, sequence))
        position += length + LENGTH_END
    return found


def batches_between(log: Log, start: int, end: int) -> list[Batch]:
    """The batches of a log in [start, end); both are borders of batches."""
    found: list[Batch] = []
    position = start
    while position < end:
        piece = log.read(position, 1 << 20, upper_offset=end)
        if not piece.size:
            raise InvariantError(f"{log.topic_partition}: nothing can be read at {position}, the log ends at {end}")
        more = parse_batches(piece.read_bytes())
        found += more
        position = more[-1].next_offset
    return found


class PartitionTruth:
    """One partition."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.batches: list[Batch] = []
        self.starts: list[int] = []
        self.end_offset = 0
        self.leader_of_epoch: dict[int, int] = {}
        # producer id -> the sequence that its next batch must have
        self.next_sequence: dict[int, int] = {}
        # Producers with acks=1: what a dead leader alone held may be missing, so theirs may have gaps, but never anything twice.
        self.may_lose: set[int] = set()

    def extend(self, node_id: int, log: Log, high_watermark: int) -> None:
        """A leader's high watermark has passed records that nobody's had passed before."""
        for batch in batches_between(log, self.end_offset, high_watermark):
            if batch.base_offset != self.end_offset:
                raise InvariantError(
                    f"{self.name}: a gap in the log of {node_id}: {self.end_offset} is followed by {batch}"
                )
            if self.batches and batch.epoch < self.batches[-1].epoch:
                raise InvariantError(f"{self.name}: epochs fall: {self.batches[-1]} is followed by {batch}")
            expected = self.next_sequence.get(batch.producer_id, 0)
            may_lack = batch.producer_id in self.may_lose and batch.base_sequence > expected
            if batch.producer_id >= 0 and batch.base_sequence != expected and not may_lack:
                what = "twice" if batch.base_sequence < expected else "with a gap"
                raise InvariantError(f"{self.name}: committed {what}: {batch}, sequence {expected} is next")
            self.next_sequence[batch.producer_id] = batch.base_sequence + batch.next_offset - batch.base_offset
            self.batches.append(batch)
            self.starts.append(batch.base_offset)
            self.end_offset = batch.next_offset

    def at(self, offset: int) -> Batch | None:
        """The batch that holds an offset."""
        index = bisect_right(self.starts, offset) - 1
        if index < 0 or offset >= self.end_offset:
            return None
        return self.batches[index]

    def compare(self, who: str, log: Log, start: int, end: int) -> None:
        """A log must hold in [start, end) exactly what is committed; `end` is not beyond the end of either."""
        if start >= end:
            return
        index = bisect_right(self.starts, start) - 1
        for batch in batches_between(log, start, end):
            if index >= len(self.batches) or self.batches[index] != batch:
                known = self.batches[index] if index < len(self.batches) else None
                raise InvariantError(f"{self.name}: {who} has {batch}, committed is {known}")
            index += 1

    def acknowledged(self, who: str, batch: tuple[int, int, int, int]) -> None:
        """A producer was told at acks=all that (offset, producer id, sequence, count) counts."""
        offset, producer_id, sequence, count = batch
        known = self.at(offset)
        if (
            known is None
            or (known.base_offset, known.producer_id, known.base_sequence) != (offset, producer_id, sequence)
            or known.next_offset - known.base_offset != count
        ):
            raise InvariantError(
                f"{self.name}: {who} was told that sequence {sequence} is at {offset}; committed there is {known} "
                f"(the end is {self.end_offset})"
            )

    def consumed(self, who: str, batch: Batch) -> None:
        """A consumer was given a batch."""
        if self.at(batch.base_offset) != batch:
            raise InvariantError(
                f"{self.name}: {who} was given {batch}, committed there is {self.at(batch.base_offset)} "
                f"(the end is {self.end_offset})"
            )
