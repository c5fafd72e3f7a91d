"""Runs each check of script.py with the pinned old confluent-kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests import tools
from compat_tests.confluent_old import VERSION

SCRIPT = Path(__file__).with_name("script.py")


@pytest.mark.parametrize("name", tools.checks(SCRIPT))
def test_check(bootstrap: str, topic: str, name: str) -> None:
    """One capability, in a process of its own."""
    tools.run([tools.python_with(f"confluent-kafka=={VERSION}"), SCRIPT, name, bootstrap, topic])
