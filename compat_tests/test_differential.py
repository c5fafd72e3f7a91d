"""Kafkapy's answers are Apache Kafka's, field by field."""

from __future__ import annotations

import pytest

from compat_tests import kafka_broker
from compat_tests.differential.__main__ import main


def test_answers_are_kafkas(request: pytest.FixtureRequest) -> None:
    """A few thousand raw requests, good and bad, have the same answers from both, but for what is allowed to differ."""
    if request.config.getoption("--target") != "kafkapy":
        pytest.skip("compares kafkapy with Apache Kafka")
    lacking = kafka_broker.missing()
    if lacking is not None:
        pytest.skip(lacking)
    assert main([]) == 0
