"""Spark's kafka source and sink, and the jobs of spark_jobs/: one Spark session for the checks of a file, one test for each check."""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests import tools
from compat_tests.spark import VERSION
from compat_tests.target import Target

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# pyspark and what its Python data sources need; then what kafkapy's codecs and commands need.
REQUIREMENTS = (
    f"pyspark=={VERSION}",
    "pandas",
    "pyarrow",
    "confluent-kafka",
    "crc32c",
    "lz4",
    "zstandard",
    "python-snappy",
    "click",
)
START_TIMEOUT_S = 120
CHECK_TIMEOUT_S = 450


class Driver:
    """The process with the Spark session."""

    def __init__(self, target: Target, folder: Path) -> None:
        tools.program("java", "apt-get install openjdk-17-jre-headless")
        python = tools.python_with(*REQUIREMENTS)
        command = [str(python), "-m", "compat_tests.spark.driver", target.bootstrap, str(folder)]
        command += [str(target.data_dir)] if target.data_dir else []
        self.log = open(folder / "driver.log", "w+")  # noqa: SIM115 -- closed with the process
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, cwd=ROOT, env=env
        )
        self._timeout_s = START_TIMEOUT_S + CHECK_TIMEOUT_S

    def run(self, check: str) -> None:
        """Run a check; its failure is the test's."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(check + "\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], self._timeout_s)
        self._timeout_s = CHECK_TIMEOUT_S
        line = self._process.stdout.readline() if ready else ""
        if not line:
            self.close()
            self.log.seek(0)
            pytest.fail(f"no answer to {check}:\n{self.log.read()[-4000:]}", pytrace=False)
        answer = json.loads(line)
        if "error" in answer:
            pytest.fail(answer["error"], pytrace=False)

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None and self._process.poll() is None:
            self._process.stdin.close()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


@pytest.fixture(scope="module")
def driver(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """One session for all checks."""
    running = Driver(target, tmp_path_factory.mktemp("spark"))
    yield running
    running.close()
    running.log.close()


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", tools.checks(HERE / "builtin_checks.py", r"^def check_(\w+)"))
def test_check(driver: Driver, name: str) -> None:
    """Spark's own source and sink."""
    driver.run(name)


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", tools.checks(HERE / "pipeline_checks.py", r"^def check_(\w+)"))
def test_pipeline(driver: Driver, name: str) -> None:
    """The data source and the jobs of this project."""
    driver.run(name)
