"""`kafkapy log`: reading and verifying files without a broker."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkapy.testing.broker import Broker
from tests.cli.runner import run

SEGMENT = "00000000000000000000"


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a broker that has stopped, with a topic of several segments and indexes."""
    folder = tmp_path_factory.mktemp("log") / "data"
    with Broker(data_dir=folder) as broker:
        broker.create_topic("orders", 1, {"segment.index.bytes": "120", "index.interval.bytes": "1000"})
        lines = "".join(f"{1_700_000_000_000 + number} {number:0100d}\n" for number in range(500))
        run("produce", "orders", "-f", "%d %v\\n", "-X", "batch.size=500", "-b", broker.bootstrap, stdin=lines)
        run("produce", "orders", "-k", "k", "-H", "h=\udcff", "-z", "zstd", "-b", broker.bootstrap, stdin="last\n")
    yield folder


@pytest.fixture
def data(written: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(written, tmp_path / "data"))


def segments(data: Path) -> list[Path]:
    """The segments of the topic."""
    found = sorted((data / "orders-0").glob("*.log"))
    assert len(found) > 2
    return found


def test_a_sound_folder_is_sound(data: Path) -> None:
    """Nothing is written: the files are as they were."""
    before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    result = run("log", "verify", str(data), "--format", "json")
    assert (result.code, result.json["sound"], result.json["problems"]) == (0, True, [])
    assert result.json["records"] >= 501
    assert before == {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    assert run("log", "verify", str(data), "--shallow").code == 0


def test_a_damaged_batch_is_found_with_file_and_position(data: Path) -> None:
    """By its checksum."""
    path = segments(data)[1]
    content = bytearray(path.read_bytes())
    content[2000] ^= 1
    path.write_bytes(content)
    result = run("log", "verify", str(data / "orders-0"), "--format", "json")
    assert result.code == 1
    (problem,) = result.json["problems"]
    assert problem["file"] == str(path) and 0 < problem["position"] <= 2000
    assert "checksum" in problem["problem"]
    dumped = run("log", "dump", str(path))
    assert dumped.code == 1 and "damage" in dumped.out and "there is damage" in dumped.err


def test_a_torn_tail_is_found(data: Path) -> None:
    """A batch that is cut off by the end of the file."""
    path = segments(data)[-1]
    path.write_bytes(path.read_bytes()[:-1])
    result = run("log", "verify", str(path))
    assert result.code == 1 and "cut off" in result.out


def test_a_missing_segment_shows_in_nothing_but_an_overlap_is_found(data: Path) -> None:
    """Retention and compaction leave gaps; the same offsets twice are damage."""
    first, second, *_ = segments(data)
    for suffix in (".index", ".timeindex"):
        shutil.copy(first.with_suffix(suffix), first.with_name("00000000000000000005").with_suffix(suffix))
    shutil.copy(first, first.with_name("00000000000000000005.log"))
    problems = run("log", "verify", str(data), "--format", "json").json["problems"]
    assert any("begins before offset" in problem["problem"] for problem in problems)
    assert any("offset 0 comes after 4" in problem["problem"] for problem in problems)
    shutil.rmtree(data / "orders-0")
    assert run("log", "verify", str(data)).code == 0
    assert second.name != first.name


@pytest.mark.parametrize(
    ("suffix", "at", "bits", "problem"),
    [
        (".index", 3, 0x7F, "does not come after"),
        (".index", 7, 1, "no batch before offset"),
        (".timeindex", 0, 0x7F, "does not come after"),
        (".timeindex", 7, 1, "the largest timestamp up to"),
    ],
)
def test_wrong_index_entries_are_found(data: Path, suffix: str, at: int, bits: int, problem: str) -> None:
    """Out of order, or not what the log says."""
    path = segments(data)[0].with_suffix(suffix)
    content = bytearray(path.read_bytes())
    content[at] ^= bits
    path.write_bytes(content)
    result = run("log", "verify", str(data / "orders-0"), "--format", "json")
    assert result.code == 1
    assert [row["file"] for row in result.json["problems"]] == [str(path)]
    assert problem in result.json["problems"][0]["problem"]


def test_index_entries_behind_the_end_and_indexes_without_a_segment_are_found(data: Path) -> None:
    """As after a segment was cut by hand."""
    path = segments(data)[0]
    position = path.stat().st_size // 2
    content = path.read_bytes()
    from kafkapy.wire.record_batch import iterate_batches

    cut = max(at for at, _ in iterate_batches(content) if at <= position)
    path.write_bytes(content[:cut])
    problems = run("log", "verify", str(path.parent), "--format", "json").json["problems"]
    assert any("behind the end of the segment" in problem["problem"] for problem in problems)
    path.unlink()
    problems = run("log", "verify", str(path.parent), "--format", "json").json["problems"]
    assert {problem["problem"] for problem in problems} == {"there is no segment for it"}


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
def test_damaged_small_files_are_found(data: Path, name: str) -> None:
    """They are sound if they can be read."""
    (data / "orders-0" / name).write_text("x\n")
    result = run("log", "verify", str(data / "orders-0"))
    assert result.code == 1 and name in result.out


def test_a_damaged_producer_snapshot_is_found(data: Path) -> None:
    """By its checksum."""
    path = sorted((data / "orders-0").glob("*.snapshot"))[0]
    path.write_bytes(path.read_bytes()[:-1] + b"\x55")
    assert "checksum" in run("log", "verify", str(path)).out


def test_dumping_shows_batches_and_records(data: Path) -> None:
    """As lines of names and values, or as one JSON object a line."""
    path = segments(data)[-1]
    text = run("log", "dump", str(path), "-r").out
    assert text.startswith(f"{path}: batches\n  batch position=0 ")
    assert "codec=zstd" in text and " value=last " in text
    rows = run("log", "dump", str(path), "--records", "--format", "json").json_lines
    assert rows[-2]["type"] == "batch" and rows[-2]["codec"] == "zstd"
    assert rows[-1]["offset"] == 500
    assert (rows[-1]["key"], rows[-1]["value"]) == ("k", "last")
    assert rows[-1]["headers"] == [{"key": "h", "value_base64": "/w=="}]


def test_dumping_knows_every_kind_of_file(data: Path) -> None:
    """A whole folder: indexes, snapshots, checkpoints, and the metadata log decoded."""
    rows = run("log", "dump", str(data), "--records", "--format", "json").json_lines
    kinds = {Path(row["file"]).suffix or Path(row["file"]).name: row["type"] for row in rows}
    for name in (".index", ".timeindex", ".snapshot", ".metadata", ".properties", "leader-epoch-checkpoint"):
        assert name in kinds, name
    assert "recovery-point-offset-checkpoint" in kinds
    topics = [row["fields"]["name"] for row in rows if row.get("record") == "TopicRecord"]
    assert topics == ["orders"]
    assert "producer" in kinds.values() and "epoch" in kinds.values()


def test_other_files_are_refused(tmp_path: Path) -> None:
    """Whatever is no broker's."""
    path = tmp_path / "readme.txt"
    path.write_text("x")
    assert run("log", "dump", str(path)).code == 1
    assert run("log", "verify", str(tmp_path / "nothing")).code == 2
