"""The error codes are Kafka's, to the last one, and the exceptions say what happened."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkapy.errors import ErrorCode, KafkaError, StorageError

FACTS = Path(__file__).resolve().parents[3] / "shared/protocol/errors.json"


@pytest.mark.skipif(not FACTS.exists(), reason="the fact tables are not here")
def test_every_code_matches_the_fact_table() -> None:
    """Codes, names and retriability are exactly Apache Kafka's."""
    facts = {row["code"]: (row["name"], row["retriable"]) for row in json.loads(FACTS.read_text())}
    assert {int(code): (code.name, code.retriable) for code in ErrorCode} == facts


def test_every_code_explains_itself_in_one_line() -> None:
    """The command line prints the explanation, so none may be empty or long."""
    for code in ErrorCode:
        assert 0 < len(code.explanation) <= 120
        assert "\n" not in code.explanation


def test_kafka_error_prefers_its_own_message() -> None:
    """A message given by the raiser is more precise than the general explanation."""
    assert str(KafkaError(ErrorCode.INVALID_CONFIG, "no such key")) == "INVALID_CONFIG: no such key"
    assert str(KafkaError(ErrorCode.NONE)) == "NONE: success"
    assert KafkaError(ErrorCode.INVALID_CONFIG).message is None


def test_storage_error_names_the_path() -> None:
    """Whoever reads the log must see which file and so which disk failed."""
    error = StorageError("logs/t-0/0.log", "no space left on device")
    assert error.path == "logs/t-0/0.log"
    assert str(error) == "logs/t-0/0.log: no space left on device"
