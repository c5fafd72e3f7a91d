"""A taste of `make fuzz`: the same targets for a fixed number of rounds."""

from __future__ import annotations

import collections
import random

import pytest

from tests.fuzz.__main__ import fuzz_batch, fuzz_message, run
from tests.wire.catalog import declared_classes


@pytest.mark.slow
def test_messages() -> None:
    """Damaged messages of every declaration's latest version."""
    rng = random.Random(1)
    classes = [(cls, cls.SCHEMA.versions.last) for cls in declared_classes()]
    counts: collections.Counter[str] = collections.Counter()
    for _ in range(500):
        fuzz_message(rng, counts, classes)
    assert counts["messages refused"] > 100
    assert counts["messages read"] > 50


@pytest.mark.slow
def test_record_sets() -> None:
    """Damaged record sets."""
    rng = random.Random(1)
    counts: collections.Counter[str] = collections.Counter()
    for _ in range(300):
        fuzz_batch(rng, counts)
    assert counts["record sets refused"] > 50
    assert counts["records read"] > 50


def test_a_run_ends_with_its_numbers() -> None:
    """The last line has the seed, with which a run can be repeated."""
    lines: list[object] = []
    assert run(0.05, 7, lines.append) == 0
    assert str(lines[-1]).startswith("seed 7: ")
