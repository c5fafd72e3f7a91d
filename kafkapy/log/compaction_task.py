"""What a compaction is asked to do and what it answers, as plain data that travels to another process and back.

The task names everything that the log knew when it was made: the closed segments, the aborted transactions, the producers that are
still remembered. So whoever does the work needs the files and nothing else, and what happens to the log meanwhile decides only
whether the result is still wanted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kafkapy.log.txn_index import AbortedTxn


class SegmentSource(NamedTuple):
    """A closed segment to read. It holds the offsets in [base_offset, end_offset), many of which may be gone already."""

    base_offset: int
    end_offset: int
    size: int


class LastRecord(NamedTuple):
    """What must survive of a producer: the batch with its last sequence, or the marker with its epoch if it has no such batch."""

    producer_id: int
    epoch: int
    offset: int  # of the last record of its last batch; -1: none in this epoch


class CompactionTask(NamedTuple):
    """One round of compaction of one log."""

    folder: str
    segments: list[SegmentSource]
    # Keys are looked for in [first dirty, first uncleanable); segments before that are rewritten by what was found.
    first_dirty_offset: int
    first_uncleanable_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    # Memory for the table of keys, and how full it may get.
    map_bytes: int
    map_load_factor: float
    aborted: list[AbortedTxn]
    producers: list[LastRecord]

    @classmethod
    def of(cls, fields: dict[str, Any]) -> CompactionTask:
        """The task whose `_asdict()` became JSON and came back."""
        for name, kind in (("segments", SegmentSource), ("aborted", AbortedTxn), ("producers", LastRecord)):
            fields[name] = [kind(*values) for values in fields[name]]
        return cls(**fields)


class CompactedGroup(NamedTuple):
    """Neighbouring segments that became one, written beside them as `*.cleaned` and flushed."""

    base_offsets: list[int]  # of the segments that it replaces; it has the first one's
    size: int
    has_aborted: bool  # whether it has a transaction index


class CompactionStats(NamedTuple):
    """What one round read, kept and dropped."""

    end_offset: int  # everything before it is clean now
    keys: int
    bytes_written: int
    records_read: int
    records_kept: int
