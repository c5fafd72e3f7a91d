"""Runs each check of checks.js with the pinned @confluentinc/kafka-javascript."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests import tools
from compat_tests.target import CONSUMER_GROUP_HEARTBEAT, Target

SOURCE = Path(__file__).parent


@pytest.mark.parametrize("name", tools.checks(SOURCE / "checks.js", tools.JS_CHECK))
def test_check(target: Target, bootstrap: str, unique: Callable[[str], str], name: str) -> None:
    """One capability, in a process of its own."""
    node = tools.program("node", "https://nodejs.org")
    # Where nothing is installed but the library itself, librdkafka is built without what it does not need.
    folder = tools.node_modules(SOURCE, {"CKJS_LINKING": "dynamic"})
    if name.endswith("_consumer"):
        target.require(CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat")
    topic = unique("node")
    target.create_topic(topic, 2, {"retention.ms": "-1"})  # records of years ago would be deleted while they are read
    tools.run([node, folder / "checks.js", name, bootstrap, topic])
