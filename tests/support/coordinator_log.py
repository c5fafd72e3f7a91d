"""An internal topic in memory, as a coordinator under test writes it."""

from __future__ import annotations

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.wire.record_batch import assign_offsets, read_header


class FakeLog:
    """The partitions of the topic. Everything is committed at once unless `replicated` is set to False."""

    def __init__(self) -> None:
        self.batches: dict[int, list[bytes]] = {}
        self.ends: dict[int, int] = {}
        self.high_watermarks: dict[int, int] = {}
        self.replicated = True
        self.refuse_with: ErrorCode | None = None

    def append(self, partition: int, batch: bytearray) -> int:
        """Keep the batch behind the last one, as a leader does."""
        if self.refuse_with is not None:
            raise KafkaError(self.refuse_with)
        start = self.ends.get(partition, 0)
        header = read_header(batch)
        assign_offsets(batch, 0, header, start, 0)
        self.batches.setdefault(partition, []).append(bytes(batch))
        self.ends[partition] = start + header.record_count
        if self.replicated:
            self.high_watermarks[partition] = self.ends[partition]
        return self.ends[partition]

    def is_committed(self, partition: int, end_offset: int) -> bool:
        """Whether the high watermark is there."""
        return self.high_watermarks.get(partition, 0) >= end_offset
