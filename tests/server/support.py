"""What the tests of the shell share: connections to listeners that are not the usual one, and brokers run as a command."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from kafkapy.wire.messages.api_versions import ApiVersionsRequest
from tests.support.wire_client import WireClient

PATIENCE_S = 10.0


def is_served(wire: WireClient) -> bool:
    """Whether the broker answers an ordinary request on this connection."""
    return bool(wire.request(ApiVersionsRequest(), 0).api_keys)


def wait_until(condition: Callable[[], bool]) -> None:
    """Let another thread get there."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


def start_command(data_dir: Path, listen: str, *settings: str) -> subprocess.CompletedProcess[str]:
    """Run `kafkapy start` in the expectation that it ends by itself."""
    command = [sys.executable, "-m", "kafkapy", "start", "--data-dir", str(data_dir), "--listen", listen]
    for setting in settings:
        command += ["--set", setting]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)
