"""Segments read without a broker give what a consumer would have read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kafkapy.log.checkpoints import HIGH_WATERMARK_FILE, encode_offsets
from kafkapy.log.txn_index import AbortedTxn
from kafkapy.types import TopicPartition
from kafkapy.wire.records import Record, encode_batch, encode_end_txn_marker
from spark_jobs import log_folder
from spark_jobs.log_folder import LogFolderError, PartitionLog
from spark_jobs.log_read import OffsetRange, read_range

NAME = "orders"


def batch(first: int, count: int, size: int = 10, **options: object) -> bytearray:
    """Records with the offsets from `first` on, each a second later than the last."""
    records = [Record(offset, offset * 1000, b"k%d" % offset, b"v" * size) for offset in range(first, first + count)]
    return encode_batch(records, **options)


def marker(offset: int, producer_id: int, committed: bool) -> bytearray:
    """The end of a transaction, at an offset."""
    data = encode_end_txn_marker(committed, 0, producer_id, 0, 0)
    data[:8] = offset.to_bytes(8, "big")
    return data


class Folder:
    """A data folder with one partition, written by hand."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.partition = root / f"{NAME}-0"
        self.partition.mkdir()

    def segment(self, base: int, *batches: bytes | bytearray) -> None:
        """A segment file, no index."""
        (self.partition / f"{base:020d}.log").write_bytes(b"".join(batches))

    def index(self, base: int, suffix: str, entries: list[bytes]) -> None:
        """An index file."""
        (self.partition / f"{base:020d}{suffix}").write_bytes(b"".join(entries))

    def aborted(self, base: int, *entries: AbortedTxn) -> None:
        """A transaction index."""
        rows = [b"\0\0" + b"".join(number.to_bytes(8, "big") for number in entry) for entry in entries]
        (self.partition / f"{base:020d}.txnindex").write_bytes(b"".join(rows))

    def log(self, high_watermark: int) -> PartitionLog:
        """The partition as the folder shows it, with that checkpoint."""
        (self.root / HIGH_WATERMARK_FILE).write_bytes(encode_offsets({TopicPartition(NAME, 0): high_watermark}))
        [found] = log_folder.partitions(str(self.root))
        return found


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """An empty one."""
    return Folder(tmp_path)


def offsets(log: PartitionLog, start: int, end: int, read_bytes: int = 4096, **more: object) -> list[int]:
    """The offsets that a task with this range reads."""
    wanted = OffsetRange(log.topic, log.partition, log.folder, start, end, **more)
    return [offset for part in read_range(wanted, read_bytes) for offset in part.column("offset").to_pylist()]


def test_ranges_are_read_across_segments_and_end_exactly(folder: Folder) -> None:
    """Start and end within batches, a segment's end between, a batch larger than what is read at once."""
    folder.segment(0, batch(0, 10), batch(10, 10, size=3000))
    folder.segment(20, batch(20, 5), batch(25, 5, codec=4))
    log = folder.log(30)
    assert (log.start_offset, log.end_offset) == (0, 30)
    assert offsets(log, 0, 30) == list(range(30))
    assert offsets(log, 7, 27) == list(range(7, 27))
    assert offsets(log, 19, 20) == [19]


def test_what_lies_behind_the_high_watermark_is_not_looked_at(folder: Folder) -> None:
    """A half-written batch is what a running broker's log ends with."""
    folder.segment(0, batch(0, 10), batch(10, 10)[:80])
    log = folder.log(10)
    assert offsets(log, 0, log.end_offset) == list(range(10))
    assert log_folder.last_stable_offset(log) == 10
    assert log_folder.offset_at(log, 10_000) is None


def test_a_log_that_is_shorter_than_was_noted_is_an_error(folder: Folder) -> None:
    """Nothing is left out silently."""
    folder.segment(0, batch(0, 10))
    with pytest.raises(LogFolderError, match="ends at offset 10, before 20"):
        offsets(folder.log(20), 0, 20)


def test_damage_is_told_with_its_file(folder: Folder) -> None:
    """A flipped byte does not match the checksum; a file that ends in a batch is cut off."""
    data = batch(0, 10)
    data[-1] ^= 1
    folder.segment(0, data)
    with pytest.raises(LogFolderError, match=r"0{20}\.log.*checksum"):
        offsets(folder.log(10), 0, 10)
    folder.segment(0, batch(0, 10)[:-5])
    with pytest.raises(LogFolderError, match="cut off"):
        offsets(folder.log(10), 0, 10)


def test_records_that_retention_took_are_an_error_unless_allowed(folder: Folder) -> None:
    """The first segments went away between planning and reading."""
    folder.segment(10, batch(10, 10))
    log = folder.log(20)
    with pytest.raises(LogFolderError, match="offset 0 is gone, the log begins at 10"):
        offsets(log, 0, 20)
    assert offsets(log, 0, 20, fail_on_data_loss=False) == list(range(10, 20))
    shutil.rmtree(folder.partition)
    with pytest.raises(LogFolderError, match="was deleted"):
        offsets(log, 10, 20)


def test_markers_and_aborted_records_are_left_out(folder: Folder) -> None:
    """Two producers' transactions interleave; only the aborted one's records go, and no marker is a record."""
    mine = {"transactional": True, "producer_epoch": 0, "base_sequence": 0}
    folder.segment(
        0,
        batch(0, 3, producer_id=1, **mine),
        batch(3, 3, producer_id=2, **mine),
        marker(6, 1, committed=False),
        batch(7, 3, producer_id=1, **mine),
        marker(10, 2, committed=True),
        marker(11, 1, committed=True),
        batch(12, 2, producer_id=3, **mine),
        batch(14, 1),
    )
    folder.aborted(0, AbortedTxn(1, 0, 6, 3))
    log = folder.log(15)
    stable = log_folder.last_stable_offset(log)
    assert stable == 12
    aborted = tuple(log_folder.aborted_transactions(log, 0, stable))
    assert offsets(log, 0, stable, aborted=aborted) == [3, 4, 5, 7, 8, 9]
    assert offsets(log, 0, 15) == [0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 14]
    assert log_folder.last_stable_offset(folder.log(5)) == 0, "the abort at 6 is not complete there"


def test_indexes_lead_to_the_batch_and_wrong_ones_do_no_harm(folder: Folder) -> None:
    """Right entries, entries of another log, and the zeros at the end of an index that Apache Kafka has open."""
    batches = [batch(first, 10) for first in range(0, 50, 10)]
    folder.segment(0, *batches)
    positions = [sum(map(len, batches[:slot])) for slot in range(5)]
    right = [(10 * slot + 9).to_bytes(4, "big") + positions[slot].to_bytes(4, "big") for slot in (1, 3)]
    wrong = [(19).to_bytes(4, "big") + (7).to_bytes(4, "big")]
    for entries in (right, [*right, bytes(80)], wrong, [bytes(80)], []):
        folder.index(0, ".index", entries)
        log = folder.log(50)
        assert offsets(log, 42, 50) == list(range(42, 50)), entries
    folder.index(0, ".index", [*right, bytes(80)])
    [segment] = log_folder.segments(log.folder)
    assert log_folder.offset_index(segment)[0].tolist() == [19, 39]


def test_times_are_found_with_and_without_an_index(folder: Folder) -> None:
    """The first record at or after a time, within its batch and across segments."""
    folder.segment(0, batch(0, 10), batch(10, 10))
    folder.segment(20, batch(20, 10))
    log = folder.log(30)
    entry = (19_000).to_bytes(8, "big") + (19).to_bytes(4, "big")
    for entries in ([], [entry], [entry, bytes(24)]):
        folder.index(0, ".timeindex", entries)
        assert [log_folder.offset_at(log, at) for at in (0, 4_500, 19_000, 19_001, 29_000)] == [0, 5, 19, 20, 29]
        assert log_folder.offset_at(log, 29_001) is None


def test_plans_are_cut_pruned_and_checked(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options as Spark's own source has them; needs pyspark for the module, not for the plan."""
    pytest.importorskip("pyspark")
    from spark_jobs.log_source import plan

    folder.segment(0, *(batch(first, 10) for first in range(0, 50, 10)))
    size = len(batch(0, 10))
    folder.index(
        0, ".index", [(10 * slot + 9).to_bytes(4, "big") + (size * slot).to_bytes(4, "big") for slot in (1, 2, 3)]
    )
    folder.segment(50, batch(50, 10))
    folder.log(60)
    common = {"path": str(folder.root), "subscribe": NAME}

    def ranges(**options: str) -> list[tuple[int, int]]:
        return [(wanted.start, wanted.end) for wanted in plan({**common, **options})]

    assert ranges() == [(0, 50), (50, 60)]
    assert ranges(splitBytes=str(size)) == [(0, 20), (20, 30), (30, 40), (40, 50), (50, 60)]
    assert ranges(startingTimestamp="55000") == [(55, 60)]
    bounds = {"startingOffsets": json.dumps({NAME: {"0": 5}}), "endingOffsets": json.dumps({NAME: {"0": 15}})}
    assert ranges(**bounds) == [(5, 15)]
    wrong = {
        "no topic nope": {"subscribe": "nope"},
        "neither read_committed": {"isolationLevel": "x"},
        "says nothing about orders-0": {"startingOffsets": json.dumps({"other": {"0": 1}})},
        "complete up to offset 60": {"endingOffsets": json.dumps({NAME: {"0": 61}})},
        "is no folder": {"path": str(folder.root / "nope")},
        "exactly one of": {"subscribePattern": ".*"},
    }
    for message, options in wrong.items():
        with pytest.raises(LogFolderError, match=message):
            ranges(**options)
