"""Runs each check of main.go with the pinned kafka-go."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests import tools

SOURCE = Path(__file__).parent


@pytest.mark.parametrize("name", tools.checks(SOURCE / "main.go", tools.GO_CHECK))
def test_check(bootstrap: str, topic: str, name: str) -> None:
    """One capability, in a process of its own."""
    tools.run([tools.go_program(SOURCE), name, bootstrap, topic])
