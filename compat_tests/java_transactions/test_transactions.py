"""Each check of java/Transactions.java, in a JVM of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests import tools
from compat_tests.target import CONSUMER_GROUP_HEARTBEAT, Target

SOURCE = Path(__file__).with_name("java")
JVM = ("-Xmx300m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")


@pytest.mark.parametrize("name", tools.checks(SOURCE / "Transactions.java", r"static void check_(\w+)"))
def test_check(target: Target, bootstrap: str, unique, name: str) -> None:
    """The program ends with an exception where something is not as it must be."""
    java = tools.program("java", "a JRE, version 17 or later")
    classpath = tools.java_program(SOURCE)
    if name.endswith("_consumer"):
        target.require(CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat")
    topics = [unique("source"), unique("sink")]
    for topic in topics:
        target.create_topic(topic, 2)
    command = [java, *JVM, "-cp", classpath, "Transactions", name, bootstrap, unique("id"), *topics]
    tools.run(command, timeout_s=90)
