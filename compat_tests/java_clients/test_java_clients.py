"""Each check of java/Clients.java with each version of kafka-clients; one JVM per version, because starting them is most of the time."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests import tools
from compat_tests.java_clients import VERSIONS
from compat_tests.target import Target

SOURCE = Path(__file__).with_name("java")
JVM = ("-Xmx200m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
CHECK_TIMEOUT_S = 90.0
Check = Callable[[str, str, str], None]


class Jvm:
    """Clients.java in a process of its own: it is given checks line by line, and says of each how it went."""

    def __init__(self, classpath: str, bootstrap: str) -> None:
        java = tools.program("java", "a JRE, version 17 or later")
        self._process = subprocess.Popen(
            [java, *JVM, "-cp", classpath, "Clients", bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def check(self, *words: str) -> None:
        """Fail with what the program said, where it does not say `ok`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        deadline = threading.Timer(CHECK_TIMEOUT_S, self._process.kill)
        deadline.start()
        try:
            self._process.stdin.write(" ".join(words) + "\n")
            self._process.stdin.flush()
            said: list[str] = []
            for line in self._process.stdout:
                if line == "ok\n":
                    return
                if line == "failed\n":
                    break
                said.append(line)
        finally:
            deadline.cancel()
        pytest.fail("".join(said)[-4000:] or "it ended without a word", pytrace=False)

    def alive(self) -> bool:
        """Whether it takes another check."""
        return self._process.poll() is None

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module", params=VERSIONS)
def check(request: pytest.FixtureRequest, target: Target) -> Iterator[Check]:
    """Runs one check with this version; a JVM that had to be killed is followed by a new one."""
    classpath = tools.java_program(SOURCE, request.param)
    jvms = [Jvm(classpath, target.bootstrap)]

    def run(*words: str) -> None:
        if not jvms[-1].alive():
            jvms.append(Jvm(classpath, target.bootstrap))
        jvms[-1].check(*words)

    yield run
    for jvm in jvms:
        jvm.close()


@pytest.mark.parametrize("name", tools.checks(SOURCE / "Clients.java", r"static void check_(\w+)"))
def test_check(target: Target, check: Check, unique: Callable[[str], str], name: str) -> None:
    """The program throws where something is not as it must be."""
    topic = unique("clients")
    target.create_topic(topic, 2, {"retention.ms": "-1"})  # records of years ago would be deleted while they are read
    check(name, topic, unique("group"))
