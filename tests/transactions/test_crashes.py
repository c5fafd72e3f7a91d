"""A broker that is killed at each step of a transaction: afterwards the transaction is wholly visible, or not at all."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkapy.errors import ErrorCode
from kafkapy.testing import Broker
from kafkapy.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.wire.record_batch import iterate_batches
from tests.support.wire_client import Closed, WireClient
from tests.transactions.crashing_broker import SETTINGS
from tests.transactions.talk import Talk

# What the broker appends in a transaction over two partitions and one group, in order.
STEPS = [
    "begin: the producer id",
    "add: the first partition",
    "produce: the first record",
    "add: the second partition",
    "produce: the second record",
    "add: the partition of the group",
    "offset commit",
    "prepare",
    "the first marker",
    "the second marker",
    "the third marker",
    "complete",
]
PREPARE = STEPS.index("prepare")
OFFSET = 7


class Seen(NamedTuple):
    """What a reader of committed data sees: records of both partitions, and the group's offset."""

    records: tuple[int, int]
    offset: int


ALL = Seen((1, 1), OFFSET)
NOTHING = Seen((0, 0), -1)


REQUESTS: list[Callable[[Talk], object]] = [
    lambda talk: talk.init(timeout_ms=talk.timeout_ms),
    lambda talk: talk.produce(12),
    lambda talk: talk.produce(12, index=1),
    lambda talk: talk.commit_offset(5, OFFSET),
    lambda talk: talk.end(),
]


def run_until_crash(folder: Path, step: int, timeout_ms: int) -> tuple[Talk, int]:
    """A producer that works until its broker is killed after this step; and which of its requests was not answered."""
    command = [sys.executable, "-m", "tests.transactions.crashing_broker", str(folder), str(step + 1)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with WireClient("127.0.0.1", port) as wire:
            talk = Talk(wire, "crash", timeout_ms=timeout_ms)
            for number, request in enumerate(REQUESTS):
                try:
                    request(talk)
                except (Closed, ConnectionError):
                    assert process.wait() == -signal.SIGKILL
                    return talk, number
    raise AssertionError(f"the broker was not killed: {talk.said}")


def committed_records(talk: Talk, index: int) -> int:
    """Data batches of the partition that are not aborted."""
    request = FetchRequest(
        max_wait_ms=0,
        isolation_level=1,
        topics=[
            FetchTopic(topic=talk.topic, partitions=[FetchPartition(partition=index, partition_max_bytes=1 << 20)])
        ],
    )
    one = talk.wire.request(request, 12).responses[0].partitions[0]
    assert one.last_stable_offset == one.high_watermark, "something is still open"
    aborted = {entry.producer_id for entry in one.aborted_transactions or ()}
    batches = [header for _, header in iterate_batches(bytes(one.records or b""))]
    return sum(header.record_count for header in batches if not header.is_control and header.producer_id not in aborted)


def seen(talk: Talk) -> Seen:
    """What is visible once nothing is open any more."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        state = talk.describe_quietly()
        if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND or state.transaction_state != "Ongoing":
            break
        time.sleep(0.02)
    talk.said.clear()
    talk.fetch_offset(stable=True)
    offset = int(talk.said[0].split()[-1])
    return Seen((committed_records(talk, 0), committed_records(talk, 1)), offset)


@pytest.mark.parametrize("step", range(len(STEPS)), ids=STEPS)
@pytest.mark.slow
def test_without_its_producer_a_transaction_is_whole(tmp_path: Path, step: int) -> None:
    """Decided before the crash: committed. Not decided: aborted, once its time is up."""
    talk, _ = run_until_crash(tmp_path, step, timeout_ms=200)
    with Broker(data_dir=tmp_path, config=SETTINGS) as broker, WireClient("127.0.0.1", broker.port) as talk.wire:
        assert seen(talk) == (ALL if step >= PREPARE else NOTHING)


@pytest.mark.parametrize("step", [3, 6, 9], ids=lambda step: STEPS[step])
@pytest.mark.slow
def test_a_producer_that_tries_again_loses_nothing(tmp_path: Path, step: int) -> None:
    """It repeats the request that was not answered, goes on, and everything is there once."""
    talk, unanswered = run_until_crash(tmp_path, step, timeout_ms=60_000)
    with Broker(data_dir=tmp_path, config=SETTINGS) as broker, WireClient("127.0.0.1", broker.port) as talk.wire:
        talk.said.clear()
        for request in REQUESTS[unanswered:]:
            request(talk)
        assert all(" NONE" in said for said in talk.said), talk.said
        assert seen(talk) == ALL
