"""`kafkapy wire`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.runner import run

DECODE = ("wire", "decode", "--api", "Heartbeat", "--version", "0", "--kind", "response")


def test_check_closes_with_the_numbers(tmp_path: Path) -> None:
    """The exit code is 1 if any vector fails."""
    right = {"key": 12, "kind": "response", "version": 0, "json": {"errorCode": 27}, "hex": "001b"}
    path = tmp_path / "vectors.jsonl.gz"
    path.write_bytes(gzip.compress((json.dumps(right) + "\n").encode()))
    result = run("wire", "check", str(path))
    assert (result.code, result.out) == (0, "1 passed, 0 failed\n")
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text(json.dumps({**right, "hex": "001c"}) + "\n")
    result = run("wire", "check", str(path), str(wrong))
    assert result.code == 1
    assert result.out.splitlines()[-1] == "1 passed, 1 failed"


def test_decode_explains_each_field() -> None:
    """Where it stands, its bytes, its name and value."""
    result = run(*DECODE, "00 1b")
    assert result.code == 0 and "errorCode = 27" in result.out
    assert run(*DECODE, "-", stdin="00 1b\n").out == result.out
    with_header = run(*DECODE, "--header", "00000007001b").out
    assert "correlationId = 7" in with_header and "errorCode = 27" in with_header


def test_decode_prints_values_as_json() -> None:
    """Only the values, as the protocol's JSON names them."""
    assert run(*DECODE, "--format", "json", "001b").json == {"errorCode": 27}
    assert run(*DECODE, "--format", "json", "--header", "00000007001b").json == {"errorCode": 27}


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ((*DECODE, "0"), 2),
        ((*DECODE, "--format", "json", "0x"), 2),
        ((*DECODE, "--format", "json", "001b00"), 1),
        ((*DECODE, "--format", "json", "00"), 1),
        (("wire", "decode", "--api", "Nope", "--version", "0", "--kind", "request", ""), 2),
        (("wire", "decode", "--api", "Nope", "--version", "0", "--kind", "request", "--format", "json", ""), 2),
        (("wire", "decode", "--api", "12", "--version", "99", "--kind", "request", ""), 2),
        (("wire", "decode", "--api", "12", "--version", "99", "--kind", "request", "--format", "json", ""), 2),
    ],
)
def test_questions_and_bytes_that_make_no_sense(args: tuple[str, ...], code: int) -> None:
    """Wrong usage is 2, bytes that are no such message are 1."""
    assert run(*args).code == code
