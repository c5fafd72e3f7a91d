"""A smoke test: one Spark driver writes and reads a topic, in batches and as a stream."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests import tools
from compat_tests.spark import VERSION

SCRIPT = Path(__file__).with_name("smoke.py")


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_batch_and_stream(bootstrap: str, topic: str, tmp_path: Path) -> None:
    """Batch write, batch read, a stream to its end, and the stream again from its checkpoint."""
    tools.program("java", "apt-get install openjdk-17-jre-headless")
    python = tools.python_with(f"pyspark=={VERSION}")
    tools.run([python, SCRIPT, bootstrap, topic, tmp_path], timeout_s=300, env={"PYSPARK_PYTHON": str(python)})
