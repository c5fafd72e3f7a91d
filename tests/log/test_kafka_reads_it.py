"""Apache Kafka's own kafka-dump-log reads and verifies what the store writes.

Runs where java and Kafka's jars are: KAFKA_LIBS names their folder, or the benchmark has fetched them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kafkapy.log.append_info import AppendOrigin
from kafkapy.log.filesystem import OsFilesystem
from kafkapy.wire.records import encode_end_txn_marker
from tests.log.support import NOW_MS, append, batch, config, open_log

LIBS = Path(os.environ.get("KAFKA_LIBS", Path.home() / ".cache/kafkapy-bench/kafka-4.3.1/libs"))

pytestmark = [
    pytest.mark.skipif(not LIBS.is_dir() or shutil.which("java") is None, reason="needs java and Apache Kafka's jars"),
    pytest.mark.slow,
]


def dump_log(files: list[Path], *options: str) -> str:
    """What kafka-dump-log says about the files."""
    command = ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", f"{LIBS}/*"]
    command += ["org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(map(str, files)), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return "\n".join(line for line in (done.stdout + done.stderr).splitlines() if "SLF4J" not in line)


def test_kafka_dump_log_verifies_segments_indexes_snapshots_and_aborted_transactions(tmp_path: Path) -> None:
    """No mismatch, no invalid batch, and the numbers that were written, in every kind of file."""
    log = open_log(
        OsFilesystem(), folder=str(tmp_path / "orders-0"), settings=config(segment_bytes=4000, index_interval_bytes=300)
    )
    for number in range(60):
        append(log, batch(3, timestamp=NOW_MS + (number * 7) % 50, codec=number % 5), epoch=number // 20)
        append(log, batch(2, timestamp=NOW_MS + number, producer=(42, 1, 2 * number), transactional=True))
        marker = encode_end_txn_marker(number % 4 != 0, 0, 42, 1, NOW_MS + number)
        log.append_as_leader(marker, leader_epoch=2, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    end, segments = log.log_end_offset, len(log.segments)
    log.close()
    assert segments > 3
    suffixes = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    files = sorted(path for path in (tmp_path / "orders-0").iterdir() if path.suffix in suffixes)
    assert {path.suffix for path in files} == suffixes
    said = dump_log(files, "--verify-index-only")
    assert said.count("isvalid: true") == 180 and "isvalid: false" not in said
    for complaint in ("ismatch", "out of order", "not found", "Exception", "corrupt", "invalid bytes", "schema"):
        assert complaint not in said, said[said.index(complaint) - 300 :][:600]
    assert said.count("producerId: 42 firstOffset:") == 15
    assert f"firstSequence: 118 lastSequence: 119 lastOffset: {end - 2}" in said
    said = dump_log(
        [path for path in files if "index" in path.suffix and "txn" not in path.suffix], "--index-sanity-check"
    )
    assert said.count("passed sanity check") == 2 * segments
