"""Starting and stopping: one clear line for what keeps a broker from starting, and nothing lost when it stops."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkapy.errors import ErrorCode, StartError
from kafkapy.testing import Broker
from tests.server.support import is_served, start_command, wait_until
from tests.support.records import fetched
from tests.support.requests import batch, fetch, fetch_partition, produce
from tests.support.wire_client import WireClient, connected

CLEAN_MARKER = ".kafka_cleanshutdown"


def test_a_clean_stop_answers_what_is_open(tmp_path: Path) -> None:
    """SIGTERM: polls are answered, connections closed, the data marked as clean, and the command ends well."""
    with Broker(topics={"t": 1}, process=True, data_dir=tmp_path) as broker:
        with connected(broker.bootstrap) as wire:
            wire.request(produce("t", batch(b"kept")), 9)
            wire.send(fetch("t", fetch_partition(offset=1), max_wait_ms=60_000), 12)
            assert wire.is_silent(0.05)
            broker.stop()
            assert wire.receive().responses[0].partitions[0].error_code == 0
            assert wire.is_closed()
        assert (tmp_path / CLEAN_MARKER).exists()
        broker.start()
        assert not (tmp_path / CLEAN_MARKER).exists()
        with connected(broker.bootstrap) as wire:
            assert fetched(wire, "t") == [(0, b"kept")]


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    """Whoever does not want to wait for slow readers sends the signal again."""
    with Broker(topics={"t": 1}, process=True, data_dir=tmp_path) as broker:
        process = broker._runner._process  # type: ignore[union-attr]
        with connected(broker.bootstrap, receive_buffer=4096) as slow:
            for _ in range(10):
                slow.request(produce("t", batch(os.urandom(900_000))), 9)
            slow.send(fetch("t", fetch_partition(max_bytes=1 << 30), max_bytes=1 << 30), 12)
            assert not slow.is_silent()
            os.kill(broker.pid, signal.SIGTERM)
            wait_until(lambda: any("stopping" in line for line in broker.log_lines))
            os.kill(broker.pid, signal.SIGTERM)
            assert process is not None and process.wait(2) == 128 + signal.SIGTERM
        assert not (tmp_path / CLEAN_MARKER).exists()
        broker.kill()


def test_stopping_takes_no_new_connections() -> None:
    """After a stop nobody listens, and a start on the same port works at once."""
    with Broker(topics={"t": 1}) as broker:
        with connected(broker.bootstrap) as wire:
            assert is_served(wire)
            broker.stop()
            with pytest.raises(ConnectionRefusedError):
                WireClient("127.0.0.1", broker.port)
            broker.start()
        with connected(broker.bootstrap) as wire:
            assert is_served(wire)


def test_a_port_in_use(tmp_path: Path) -> None:
    """One line that names the address and says what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = start_command(tmp_path, f"127.0.0.1:{port}")
    (line,) = one_error(result)
    assert f"127.0.0.1:{port}" in line and "in use" in line and "--listen" in line


def test_a_folder_in_use(tmp_path: Path) -> None:
    """A second broker on the same data is refused, and the first goes on."""
    with Broker(data_dir=tmp_path) as broker:
        (line,) = one_error(start_command(tmp_path, "127.0.0.1:0"))
        assert str(tmp_path) in line and "in use" in line
        with pytest.raises(StartError, match="in use"), Broker(data_dir=tmp_path):
            pass
        with connected(broker.bootstrap) as wire:
            assert is_served(wire)


def test_a_folder_of_another_node(tmp_path: Path) -> None:
    """Data belongs to one node of one cluster; starting as another is refused."""
    with Broker(data_dir=tmp_path):
        pass
    (line,) = one_error(start_command(tmp_path, "127.0.0.1:0", "node.id=7"))
    assert "7" in line and "node.id" in line


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    """A file where the folder should be is named."""
    path = tmp_path / "file"
    path.touch()
    (line,) = one_error(start_command(path, "127.0.0.1:0"))
    assert str(path) in line


def one_error(result: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines of the message of a command that failed."""
    assert result.returncode not in (0, None), result.stderr
    assert "Traceback" not in result.stderr
    return [line for line in result.stderr.splitlines() if line.strip() and "active controller" not in line]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 8 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]).returncode:
        pytest.skip("a small disk can only be mounted as root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_loses_nothing_that_was_acknowledged(small_disk: Path) -> None:
    """Producing into a full disk is refused with a code, in one line of the log, and with room again all acknowledged records are there."""
    with Broker(topics={"t": 1}, process=True, data_dir=small_disk) as broker:
        acknowledged: list[tuple[int, bytes | None]] = []
        with connected(broker.bootstrap) as wire:
            for number in range(100):
                value = number.to_bytes(4) + os.urandom(200_000)
                answer = wire.request(produce("t", batch(value)), 9).responses[0].partition_responses[0]
                if answer.error_code:
                    break
                acknowledged.append((answer.base_offset, value))
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert 10 < len(acknowledged) < 60
        wait_until(lambda: any("No space left" in line or "full" in line for line in broker.log_lines))
        broker.kill()
        subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
        broker.start()
        with connected(broker.bootstrap) as wire:
            assert fetched(wire, "t") == acknowledged
            assert wire.request(produce("t", batch(b"more")), 9).responses[0].partition_responses[0].error_code == 0
