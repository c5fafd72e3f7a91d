"""Compaction beside Apache Kafka's own cleaner: the same folders, the same time, the same files afterwards.

Runs where java and Kafka's jars are, see test_kafka_reads_it.py.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkapy.log.cleaner import cleanable_range
from kafkapy.log.filesystem import OsFilesystem
from kafkapy.log.log import Log
from kafkapy.wire.record_batch import BatchHeader, iterate_batches
from kafkapy.wire.records import Record, read_records
from tests.log.cleaning import clean
from tests.log.support import open_log
from tests.log.test_cleaner_model import DELETE_RETENTION_MS, Model
from tests.log.test_kafka_reads_it import LIBS, dump_log

pytestmark = [
    pytest.mark.skipif(not LIBS.is_dir() or shutil.which("java") is None, reason="needs java and Apache Kafka's jars"),
    pytest.mark.slow,
]

SEEDS = range(100, 108)
STEPS = 100
JAVA = ("-Xshare:auto", "-XX:TieredStopAtLevel=1")
SEGMENT_FILES = (".log", ".index", ".timeindex", ".txnindex")

Batch = tuple[BatchHeader, list[Record]]


class OnDisk(Model):
    """The model's random log in a real folder, written without being cleaned."""

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed)
        folder.mkdir(parents=True)
        self.folder = folder
        self.log = open_log(OsFilesystem(), folder=str(folder), settings=self.settings)
        for _ in range(STEPS):
            self.step()
        self.log.roll(self.now_ms)
        self.log.close()

    def clean(self) -> None:
        """Not before Kafka has its copy."""

    def reopen(self, clean: bool) -> None:
        """Nor is it stopped."""

    def open(self) -> Log:
        """The log as a start finds it."""
        self.log = open_log(OsFilesystem(), folder=str(self.folder), settings=self.settings, now_ms=self.now_ms)
        self.log.producers.high_watermark_reached(self.log.log_end_offset)
        return self.log


class Round(NamedTuple):
    """When a log is cleaned, and what is said of it then."""

    now_ms: int
    end_offset: int
    dirty_ratio: float
    first_uncleanable_offset: int


def clean_with_kafka(work: list[tuple[OnDisk, Path, list[Round]]]) -> None:
    """Have Kafka's cleaner do the same rounds to a copy of each folder; it must say the same of each."""
    command = ["java", *JAVA, "-cp", f"{LIBS}/*", str(Path(__file__).parent / "KafkaCleaner.java")]
    for model, copy, rounds in work:
        settings = model.settings
        for one in rounds:
            numbers = (settings.segment_bytes, settings.index_interval_bytes, DELETE_RETENTION_MS, 0, one.now_ms)
            command += [str(copy), *map(str, numbers)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    said = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("cleaned ")]
    ours = [one for _, _, rounds in work for one in rounds]
    assert [(int(end), float(ratio), int(uncleanable)) for end, ratio, uncleanable in said] == [one[1:] for one in ours]


def content(folder: Path, active: str) -> dict[str, bytes]:
    """The files of the closed segments. Kafka makes transaction indexes that hold nothing."""
    paths = (path for path in sorted(folder.iterdir()) if path.suffix in SEGMENT_FILES and path.stem != active)
    found = {path.name: path.read_bytes() for path in paths}
    return {name: data for name, data in found.items() if data or not name.endswith(".txnindex")}


def batches(data: bytes) -> list[Batch]:
    """What is in a file, but for what depends on the implementation of a codec."""
    return [
        (header._replace(crc=0, batch_length=0), list(read_records(data, position, header)))
        for position, header in iterate_batches(data)
    ]


def is_marker_kept_for_its_epoch(ours: Batch, theirs: Batch) -> bool:
    """The one difference that is meant: the last marker of a producer keeps its record, where Kafka leaves an empty batch."""
    header, records = ours
    return header.is_control and len(records) == 1 and not theirs[1] and header.last_offset == theirs[0].last_offset


def clean_once(model: OnDisk) -> Round:
    """A round as a broker does it that was just started."""
    log = model.open()
    stable = log.first_unstable_offset if log.first_unstable_offset >= 0 else log.log_end_offset
    dirty = cleanable_range(log, stable, None, model.now_ms)
    stats = clean(log, model.now_ms, map_bytes=1 << 20)
    log.close()
    end_offset = 0 if stats is None else stats.end_offset
    return Round(model.now_ms, end_offset, dirty.dirty_ratio, dirty.first_uncleanable_offset)


def test_the_same_files_as_apache_kafka(tmp_path: Path) -> None:
    """Segments, indexes and transaction indexes, after one to three rounds while delete horizons pass, and the numbers that decide."""
    work: list[tuple[OnDisk, Path, list[Round]]] = []
    for seed in SEEDS:
        model = OnDisk(seed, tmp_path / f"ours{seed}" / "orders-0")
        copy = tmp_path / f"kafka{seed}" / "orders-0"
        shutil.copytree(model.folder, copy)
        rounds = []
        for _ in range(1 + seed % 3):
            rounds.append(clean_once(model))
            model.now_ms += DELETE_RETENTION_MS // 2 + 1
        work.append((model, copy, rounds))
    clean_with_kafka(work)
    equal = 0
    for model, copy, _ in work:
        active = f"{model.log.active.base_offset:020d}"
        ours, theirs = content(model.folder, active), content(copy, active)
        assert ours.keys() == theirs.keys()
        equal += ours == theirs
        for name in ours:
            if name.endswith(".log") and ours[name] != theirs[name]:
                pairs = zip(batches(ours[name]), batches(theirs[name]), strict=True)
                assert all(one == other or is_marker_kept_for_its_epoch(one, other) for one, other in pairs)
            elif name.endswith(".txnindex"):
                assert ours[name] == theirs[name]
    assert equal, "those without compression come out the same to the byte"


def test_kafka_dump_log_verifies_cleaned_segments(tmp_path: Path) -> None:
    """No mismatch between log and indexes, no invalid batch."""
    model = OnDisk(7, tmp_path / "orders-0")
    log = model.open()
    assert clean(log, model.now_ms) is not None
    model.now_ms += DELETE_RETENTION_MS + 1
    assert clean(log, model.now_ms) is not None
    log.close()
    files = sorted(path for path in model.folder.iterdir() if path.suffix in SEGMENT_FILES)
    said = dump_log(files, "--verify-index-only")
    assert "isvalid: true" in said and "isvalid: false" not in said and "deleteHorizonMs" in said
    for complaint in ("ismatch", "out of order", "not found", "Exception", "corrupt", "invalid bytes", "schema"):
        assert complaint not in said, said[said.index(complaint) - 300 :][:600]
    indexes = [path for path in files if path.suffix in (".index", ".timeindex") and path.stat().st_size]
    assert dump_log(indexes, "--index-sanity-check").count("passed sanity check") == len(indexes)
