"""`kafkapy log verify`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from kafkapy.cli.framework import command
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.errors import KafkaError, StorageError

if TYPE_CHECKING:
    from kafkapy.cli.log.files import LogFile
    from kafkapy.wire.record_batch import BatchHeader

PROBLEM = Shape(
    "What is wrong",
    Column("file", "the file"),
    Column("position", "the byte at which it shows; null if it is no matter of bytes", "integer"),
    Column("problem", "what is wrong there"),
)
VERIFIED = Shape(
    "What was checked",
    Column("sound", "whether nothing is wrong", "boolean"),
    Column("files", "how many files were read", "integer"),
    Column("batches", "how many batches they hold", "integer"),
    Column("records", "how many records", "integer"),
    Column("bytes", "bytes of all batches", "bytes"),
    problems=PROBLEM,
)


class Problem(NamedTuple):
    """One finding."""

    path: Path
    position: int | None
    problem: str


@command(
    "verify",
    client=False,
    short_help="Check a broker's files for damage.",
    examples="""
        kafkapy log verify kafkapy-data
        kafkapy log verify kafkapy-data/orders-0 --shallow --format json
        """,
)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--shallow", is_flag=True, help="Leave the records inside the batches alone, which is much faster.")
@output(VERIFIED)
@click.pass_context
def verify(ctx: click.Context, paths: tuple[Path, ...], shallow: bool, out: Output) -> None:
    """Check a broker's files for damage.

    PATH is a data folder, the folder of a partition or a single file. Every batch's checksum, offsets, epoch and records are
    checked, every entry of an index against the batch that it points at, and every snapshot and checkpoint. The exit code is 1 if
    something is wrong. Nothing is written. Of a running broker the last batch may look cut off; stop it to be sure.
    """
    from kafkapy.cli.log.files import Kind, find_files
    from kafkapy.cli.progress import progress

    files = [file for path in paths for file in find_files(path)]
    total = sum(file.path.stat().st_size for file in files if file.kind is Kind.BATCHES)
    with progress("verify", total, unit="bytes") as advance:
        check = _Check(shallow, advance)
        check.run(files)
    out.document(
        {
            "sound": not check.problems,
            "files": len(files),
            "batches": check.batches,
            "records": check.records,
            "bytes": check.bytes,
            "problems": [
                {"file": str(item.path), "position": item.position, "problem": item.problem} for item in check.problems
            ],
        }
    )
    ctx.exit(1 if check.problems else 0)


class _Check:
    """Counts and findings over all files."""

    def __init__(self, shallow: bool, advance: Callable[[int], None]) -> None:
        self.batches = self.records = self.bytes = 0
        self.problems: list[Problem] = []
        self._shallow = shallow
        self._advance = advance

    def run(self, files: list[LogFile]) -> None:
        """Everything that was found; indexes together with the segment that they belong to."""
        from kafkapy.cli.log.files import Kind

        by_path = {file.path: file for file in files}
        indexes = (Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TXN_INDEX)
        ends: dict[Path, int] = {}
        for file in files:
            if file.kind is Kind.BATCHES:
                beside = [by_path.pop(file.path.with_suffix(suffix), None) for suffix in _INDEX_SUFFIXES]
                segment = _Segment(self, file, [index for index in beside if index is not None])
                is_log = file.path.suffix == ".log"
                if is_log and ends.get(file.path.parent, 0) > file.base_offset:
                    self.found(
                        file.path, None, f"begins before offset {ends[file.path.parent]}, where the one before it ends"
                    )
                end = segment.check(self._shallow)
                if is_log:
                    ends[file.path.parent] = end
        for file in files:
            if file.path in by_path and file.kind is not Kind.BATCHES:
                if file.kind in indexes and not file.path.with_suffix(".log").exists():
                    self.found(file.path, None, "there is no segment for it")
                self._parse(file)

    def found(self, path: Path, position: int | None, problem: str) -> None:
        """Note a problem."""
        self.problems.append(Problem(path, position, problem))

    def count(self, header: BatchHeader) -> None:
        """Note a sound batch."""
        self.batches += 1
        self.records += header.record_count
        self.bytes += header.size
        self._advance(header.size)

    def _parse(self, file: LogFile) -> None:
        """A file of its own: it is sound if it can be read."""
        from kafkapy.cli.log.dump import rows_of

        for row in rows_of(file, records=False):
            if row["type"] == "damage":
                self.found(file.path, row.get("position"), row["problem"])


_INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex")


class _Segment:
    """One file of batches and the indexes beside it."""

    def __init__(self, check: _Check, file: LogFile, indexes: list[LogFile]) -> None:
        from kafkapy.cli.log.files import Kind

        self._check = check
        self._file = file
        self._next_offset = file.base_offset
        self._epoch = -1
        self._largest_timestamp = -1
        self._aborts: set[tuple[int, int]] = set()
        by_kind = {index.kind: index for index in indexes}
        self._offset_index = by_kind.get(Kind.OFFSET_INDEX)
        self._time_index = by_kind.get(Kind.TIME_INDEX)
        self._txn_index = by_kind.get(Kind.TXN_INDEX)
        # Entries that still have to meet their batch, the next one last.
        self._positions = self._entries(self._offset_index, ("offset", "position"))
        self._times = self._entries(self._time_index, ("timestamp", "offset"))

    def check(self, shallow: bool) -> int:
        """Read it to its end; returns the offset after the last one."""
        from kafkapy.cli.log.files import open_batches
        from kafkapy.log.batch_walk import UnreadableBatch

        try:
            with open_batches(self._file.path) as batches:
                for position, header, data in batches:
                    self._check_batch(position, header)
                    self._check.count(header)
                    if not shallow or header.is_control:
                        self._check_records(position, header, data)
                    self._check_index(position, header)
        except UnreadableBatch as damage:
            self._found(damage.position, damage.reason)
        else:
            self._check_left_over()
            self._check_transactions()
        return self._next_offset

    def _found(self, position: int | None, problem: str) -> None:
        self._check.found(self._file.path, position, problem)

    def _check_batch(self, position: int, header: BatchHeader) -> None:
        if header.base_offset < self._next_offset:
            self._found(position, f"offset {header.base_offset} comes after {self._next_offset - 1}")
        if header.partition_leader_epoch < self._epoch:
            self._found(position, f"leader epoch {header.partition_leader_epoch} comes after {self._epoch}")
        self._next_offset = header.next_offset
        self._epoch = header.partition_leader_epoch
        self._largest_timestamp = max(self._largest_timestamp, header.max_timestamp)

    def _check_records(self, position: int, header: BatchHeader, data: memoryview) -> None:
        from kafkapy.wire.records import read_end_txn_marker, read_records

        before = header.base_offset - 1
        try:
            for record in read_records(data, 0, header):
                if not before < record.offset <= header.last_offset:
                    self._found(
                        position,
                        f"record offset {record.offset} does not fit between {before} and {header.last_offset}",
                    )
                before = record.offset
                if header.is_control:
                    marker = read_end_txn_marker(record)
                    if marker is not None and not marker.committed:
                        self._aborts.add((header.producer_id, record.offset))
        except KafkaError as error:
            self._found(position, str(error))

    def _entries(self, file: LogFile | None, names: tuple[str, str]) -> list[tuple[int, int]]:
        """An index's entries in reverse, after a look at their order."""
        from kafkapy.cli.log.files import index_entries

        if file is None:
            return []
        entries = index_entries(file, file.path.read_bytes())
        for number, (one, other) in enumerate(pairwise(entries), 1):
            if not (one[0] < other[0] and one[1] <= other[1]):
                words = [f"{name} {value}" for name, value in zip(names, other, strict=True)]
                self._check.found(
                    file.path, None, f"entry {number}, {' at '.join(words)}, does not come after the one before it"
                )
                return []
        return entries[::-1]

    def _check_index(self, position: int, header: BatchHeader) -> None:
        """Whether the next entries are about this batch, and right."""
        while self._positions and self._positions[-1][1] <= position:
            offset, at = self._positions.pop()
            if at != position or offset < header.base_offset:
                self._index_problem(self._offset_index, f"no batch before offset {offset + 1} begins at {at}")
        while self._times and self._times[-1][1] <= header.last_offset:
            timestamp, offset = self._times.pop()
            if timestamp != self._largest_timestamp:
                self._index_problem(
                    self._time_index,
                    f"the largest timestamp up to offset {offset} is {self._largest_timestamp}, not {timestamp}",
                )

    def _check_left_over(self) -> None:
        """Entries behind the last batch."""
        for offset, position in self._positions[:1]:
            self._index_problem(self._offset_index, f"offset {offset} at {position} is behind the end of the segment")
        for timestamp, offset in self._times[:1]:
            self._index_problem(
                self._time_index, f"timestamp {timestamp} at offset {offset} is behind the end of the segment"
            )

    def _check_transactions(self) -> None:
        from kafkapy.cli.log.files import FILESYSTEM
        from kafkapy.log.sparse_index import CorruptIndexError
        from kafkapy.log.txn_index import TxnIndex

        listed: set[tuple[int, int]] = set()
        if self._txn_index is not None:
            try:
                entries = TxnIndex(FILESYSTEM, str(self._txn_index.path)).entries()
            except (CorruptIndexError, StorageError) as error:
                self._index_problem(self._txn_index, str(error))
                return
            listed = {(entry.producer_id, entry.last_offset) for entry in entries}
        for producer_id, offset in sorted(listed - self._aborts):
            self._index_problem(self._txn_index, f"producer {producer_id} aborts nothing at offset {offset}")
        for producer_id, offset in sorted(self._aborts - listed):
            self._found(None, f"the abort of producer {producer_id} at offset {offset} is not in the .txnindex")

    def _index_problem(self, file: LogFile | None, problem: str) -> None:
        assert file is not None, "an entry comes from an index"
        self._check.found(file.path, None, problem)
