"""The logic of `kafkapy wire check` and `kafkapy wire decode`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kafkapy.wire.check import check_files, decode_text
from kafkapy.wire.messages.heartbeat import HeartbeatRequest
from tests.wire.catalog import HAS_FACTS, PROTOCOL


def heartbeat(**changes: Any) -> dict[str, Any]:
    """A vector that is right, unless something is changed."""
    request = HeartbeatRequest(group_id="g", generation_id=7, member_id="m")
    vector = {
        "api": "Heartbeat",
        "kind": "request",
        "version": 4,
        "variant": "rich",
        "hex": request.encode(4).hex(),
        "json": request.to_json(4),
    }
    return {**vector, **changes}


def run(tmp_path: Path, *vectors: Any) -> tuple[int, list[str]]:
    """The exit status and the lines for a file of these vectors."""
    path = tmp_path / "vectors.jsonl"
    path.write_text("\n".join(json.dumps(vector) for vector in vectors))
    lines: list[str] = []
    return check_files([path], lines.append), lines


def test_right_vectors_pass(tmp_path: Path) -> None:
    """Every vector is counted, and the status is 0."""
    assert run(tmp_path, heartbeat(), heartbeat(key=12)) == (0, ["2 passed, 0 failed"])


def test_compressed_files_are_read(tmp_path: Path) -> None:
    """A .gz file is the same as a plain one."""
    path = tmp_path / "vectors.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(heartbeat()).encode() + b"\n\n"))
    lines: list[str] = []
    assert check_files([path], lines.append) == 0
    assert lines == ["1 passed, 0 failed"]


def test_a_wrong_value_is_told_with_its_place(tmp_path: Path) -> None:
    """A failure names the line, the message, the field and both values."""
    value = {**heartbeat()["json"], "generationId": 8}
    status, lines = run(tmp_path, heartbeat(), heartbeat(json=value))
    assert status == 1
    assert "vectors.jsonl:2: Heartbeat request 4 rich: decoding generationId gives 7, not 8" in lines[0]
    assert lines[-1] == "1 passed, 1 failed"


@pytest.mark.parametrize(
    "vector",
    [
        heartbeat(hex="00"),
        heartbeat(hex="xyz"),
        heartbeat(hex=heartbeat()["hex"] + "00"),
        heartbeat(version=99),
        heartbeat(api="Nonsense"),
        heartbeat(kind="reply"),
        heartbeat(json={"unknown": 1}),
        {"set": "group", "name": "Nothing", "version": 0, "hex": "", "json": {}},
        {"set": "nothing"},
        {"case": "cut", "compression": "none", "hex": "00" * 70, "json": {}},
        {},
        [],
        7,
    ],
)
def test_a_broken_vector_is_a_failure_not_a_crash(tmp_path: Path, vector: Any) -> None:
    """Whatever a line holds, it is told and counted."""
    status, lines = run(tmp_path, vector)
    assert (status, lines[-1], len(lines)) == (1, "0 passed, 1 failed", 2)


def test_a_missing_file_is_a_failure(tmp_path: Path) -> None:
    """A file that cannot be read is told like a vector that is wrong."""
    lines: list[str] = []
    assert check_files([tmp_path / "none.jsonl"], lines.append) == 1
    assert lines[-1] == "0 passed, 1 failed"


@pytest.mark.skipif(not HAS_FACTS, reason="the vectors are not here")
def test_all_batches_pass() -> None:
    """The record sets of every codec."""
    lines: list[str] = []
    assert check_files([PROTOCOL / "batches.jsonl.gz"], lines.append) == 0, lines[:5]


def test_decode_shows_places_and_values() -> None:
    """Each field has a line with its position, its bytes, its name and value."""
    text = decode_text("heartbeat", 4, "request", "02 67 00000007 02 6d 00 00")
    assert '     0  0267                              groupId = "g"' in text
    assert "     2  00000007                          generationId = 7" in text
    assert "     8  00                                groupInstanceId = null" in text


def test_decode_shows_elements_unknown_tags_and_rest() -> None:
    """Array elements are numbered, unknown tags and what follows are not hidden."""
    raw = "0000" + "02" + "001200000004" + "00" + "00000000" + "01" + "6402abcd" + "ff"
    text = decode_text("ApiVersions", 3, "response", raw)
    assert "apiKeys: 1 element" in text
    assert "  [0]" in text
    assert "tag 100 = 2 bytes" in text
    assert text.endswith("1 byte follows that is no part of it")


def test_decode_reads_headers() -> None:
    """With the header, both parts are shown, and the second starts where the first ends."""
    raw = "000c000400000001000161" + "00" + heartbeat()["hex"]
    text = decode_text("12", 4, "request", raw, header=True)
    assert 'clientId = "a"' in text
    assert "HeartbeatRequest version 4, from byte 12" in text


def test_decode_shows_how_far_it_came() -> None:
    """Bytes that end too early are shown up to there, with the reason."""
    text = decode_text("heartbeat", 4, "request", "02670000")
    assert "generationId cannot be read" in text
    assert "expected 4, found 2" in text
    assert "cannot be read" in decode_text("heartbeat", 4, "request", "000c", header=True)


@pytest.mark.parametrize(
    ("api", "version", "kind", "hex"),
    [
        ("Nonsense", 0, "request", ""),
        ("Fetch", 99, "request", ""),
        ("Fetch", 12, "reply", ""),
        ("Fetch", 12, "request", "0g"),
    ],
)
def test_decode_refuses_questions_without_sense(api: str, version: int, kind: str, hex: str) -> None:
    """What is asked wrongly is a ValueError that says so."""
    with pytest.raises(ValueError, match=r"\w"):
        decode_text(api, version, kind, hex)
