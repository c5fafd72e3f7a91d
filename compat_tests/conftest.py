"""Runs the same tests against kafkapy or Apache Kafka, and keeps the matrix of client x capability x result.

    pytest compat_tests                      # against a kafkapy that the suite starts
    pytest compat_tests --target=kafka       # against Apache Kafka 4.3.1, which the suite starts
    pytest compat_tests --target=HOST:PORT   # against anything that runs already (MATRIX.md is left alone)

A client is a folder: its `__init__.py` names it (`CLIENT`) and says its version (`version()`). A capability is a test's name.
A skip is a missing tool, or an API that the target does not serve; its reason stands in the matrix.
"""

from __future__ import annotations

import contextlib
import importlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.matrix import Matrix, Result
from compat_tests.target import Target, running
from kafkapy.errors import StartError

MATRIX_FILE = Path(__file__).with_name("MATRIX.md")
_RESULTS = pytest.StashKey[dict[str, Result]]()
_SEEN = pytest.StashKey[set[tuple[str, str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--target", default="kafkapy", help="kafkapy (started here), kafka (Apache Kafka, started here) or HOST:PORT"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "spark: starts a Spark driver, which takes its time and memory")
    config.stash[_RESULTS] = {}
    config.stash[_SEEN] = set()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[_SEEN].update(row for item in items if (row := _row(item.nodeid)) is not None)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    config = _plugin_config
    if config is None or (report.when != "call" and report.passed) or _row(report.nodeid) is None:
        return
    config.stash[_RESULTS][report.nodeid] = Result.from_report(report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    target = config.getoption("--target")
    matrix = Matrix.load(MATRIX_FILE)
    for nodeid, result in config.stash[_RESULTS].items():
        row = _row(nodeid)
        assert row is not None
        matrix.put(row, target, result, _version(nodeid))
    if any(Path(argument).resolve() == MATRIX_FILE.parent for argument in config.args):  # all of it was collected
        matrix.prune(config.stash[_SEEN])
    if not config.stash[_RESULTS]:
        return
    if target in ("kafkapy", "kafka"):
        matrix.save(MATRIX_FILE)
    terminalreporter.section(f"compatibility of {target}")
    for line in matrix.summary(target):
        terminalreporter.write_line(line)


_plugin_config: pytest.Config | None = None


def pytest_sessionstart(session: pytest.Session) -> None:
    global _plugin_config  # a report does not carry its session, and there is one session per process
    _plugin_config = session.config


def _row(nodeid: str) -> tuple[str, str] | None:
    """(client, capability) of a test, or None where the test is not a client's."""
    path, _, name = nodeid.partition("::")
    parts = Path(path).parts
    if len(parts) < 3 or not name.startswith("test_"):
        return None
    client = getattr(importlib.import_module(".".join(parts[-3:-1])), "CLIENT", None)
    capability = name.removeprefix("test_").replace("check[", "[")
    if capability.startswith("["):
        capability = capability[1:-1]
    return (client, capability.replace("_", " ").replace("[", ": ").replace("]", "")) if client else None


def _version(nodeid: str) -> str:
    parts = Path(nodeid.partition("::")[0]).parts
    return str(importlib.import_module(".".join(parts[-3:-1])).version())


@pytest.fixture(scope="session")
def target(pytestconfig: pytest.Config) -> Iterator[Target]:
    """The broker under test, one for the whole session."""
    with contextlib.ExitStack() as stack:
        try:
            found = stack.enter_context(running(pytestconfig.getoption("--target")))
        except (RuntimeError, OSError, StartError) as failure:  # no client is to blame for a broker that does not start
            pytest.exit(f"the target did not start: {failure}", returncode=3)
        yield found


@pytest.fixture
def bootstrap(target: Target) -> str:
    """What clients call bootstrap.servers."""
    return target.bootstrap


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Makes a name that no other test uses."""
    return lambda prefix: f"{prefix}-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def topic(target: Target, unique: Callable[[str], str]) -> str:
    """A new topic with two partitions."""
    name = unique("topic")
    target.create_topic(name, 2)
    return name
