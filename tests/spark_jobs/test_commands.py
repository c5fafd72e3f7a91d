"""The jobs as commands of kafkapy: they answer without Spark, and say what is missing."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.runner import run

ROOT = Path(__file__).resolve().parents[2]
JOBS = ("archive", "replay", "audit", "transform", "split", "stats")


@pytest.mark.parametrize("job", JOBS)
def test_help_loads_no_spark(job: str) -> None:
    """As a command of kafkapy, and as a file of its own."""
    result = run(job, "--help")
    assert result.code == 0 and f"kafkapy {job}" in result.out
    assert not [name for name in sys.modules if name.startswith(f"spark_jobs.{job}.")]


def test_a_job_is_a_file_that_runs() -> None:
    """spark-submit gets a path, not a module."""
    script = str(ROOT / "spark_jobs/archive.py")
    code = f"""
import runpy, sys
sys.path.insert(0, {str(ROOT)!r})
sys.argv = ["archive.py", "--help"]
try:
    runpy.run_path({script!r}, run_name="__main__")
finally:
    assert "pyspark" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "--to URI" in done.stdout


def test_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """No traceback for somebody who has no Spark."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = run("archive", "orders", "--to", "/nowhere")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("error: this needs Apache Spark: pip install 'kafkapy[spark]'")
    assert result.err.count("\n") == 1


def test_wrong_options_are_usage_errors() -> None:
    """Exit code 2, before Spark is looked for."""
    assert run("archive", "orders").code == 2
    assert run("split", "orders", "--checkpoint", "/nowhere").code == 2
    assert run("stats", "orders", "--archive", "a", "--segments", "b").code == 2
    assert run("archive", "orders", "--to", "/nowhere", "-X", "novalue").code == 2
