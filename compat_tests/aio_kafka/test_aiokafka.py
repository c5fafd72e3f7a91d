"""Runs each check of script.py with the pinned aiokafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests import tools
from compat_tests.aio_kafka import VERSION

SCRIPT = Path(__file__).with_name("script.py")


@pytest.mark.parametrize("name", tools.checks(SCRIPT))
def test_check(bootstrap: str, topic: str, name: str) -> None:
    """One capability, in a process of its own."""
    python = tools.python_with(f"aiokafka[lz4,snappy,zstd]=={VERSION}")
    tools.run([python, SCRIPT, name, bootstrap, topic])
