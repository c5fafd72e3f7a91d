"""Runs each check of checks.js with the pinned kafkajs."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests import tools

SOURCE = Path(__file__).parent


@pytest.mark.parametrize("name", tools.checks(SOURCE / "checks.js", tools.JS_CHECK))
def test_check(bootstrap: str, topic: str, name: str) -> None:
    """One capability, in a process of its own."""
    node = tools.program("node", "https://nodejs.org")
    folder = tools.node_modules(SOURCE)
    tools.run([node, folder / "checks.js", name, bootstrap, topic], env={"KAFKAJS_NO_PARTITIONER_WARNING": "1"})
