"""Runs each check of src/main.rs with the pinned rskafka."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests import tools
from compat_tests.target import Target

SOURCE = Path(__file__).parent
CHECK = r'^        "(\w+)" => '  # an arm of main.rs's match of checks


@pytest.mark.parametrize("name", tools.checks(SOURCE / "src" / "main.rs", CHECK))
def test_check(target: Target, bootstrap: str, unique: Callable[[str], str], name: str) -> None:
    """One capability, in a process of its own."""
    topic = unique("rust")
    target.create_topic(topic, 2, {"retention.ms": "-1"})  # records of years ago would be deleted while they are read
    tools.run([tools.cargo_program(SOURCE, "rust_rskafka"), name, bootstrap, topic])
