"""`kafkapy txn` against a broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from kafkapy.testing.broker import Broker
from tests.cli.runner import Result, run
from tests.support.transactions import UNANNOUNCED, open_transaction

Kafkapy = Callable[..., Result]

HOUR_MS = 3_600_000


@pytest.fixture
def producer_id(broker: Broker) -> Iterator[int]:
    """An open transaction of the id `pay-1` in t-1."""
    broker.create_topic("t", 2)
    with open_transaction(broker.port, "t", 1, "pay-1") as opened:
        yield opened


def test_lists_are_filtered_by_the_broker(kafkapy: Kafkapy, producer_id: int) -> None:
    """By state, producer id, age and name; a state that does not exist is a mistake of the command line."""
    (row,) = kafkapy("txn", "list", "--match", "pay-1", "--format", "json").json
    assert row == {"transactional_id": "pay-1", "coordinator": 1, "producer_id": producer_id, "state": "Ongoing"}
    line = f"pay-1\t1\t{producer_id}\tOngoing\n"
    assert line in kafkapy("txn", "list", "-s", "Ongoing", "-s", "Empty").out
    assert kafkapy("txn", "list", "--producer-id", str(producer_id)).out == line
    assert line not in kafkapy("txn", "list", "--longer-than", "1h").out
    assert line not in kafkapy("txn", "list", "-s", "Empty").out
    wrong = kafkapy("txn", "list", "-s", "Open")
    assert wrong.code == 2 and "no such state: Open" in wrong.err
    assert kafkapy("txn", "list", "--longer-than", "soon").code == 2
    assert "INVALID_REGULAR_EXPRESSION" in kafkapy("txn", "list", "--match", "(").err


def test_a_transaction_is_shown_with_its_partitions(kafkapy: Kafkapy, producer_id: int) -> None:
    """And how long it has been open; an unknown id is an error, beside others that are known."""
    (document,) = kafkapy("txn", "describe", "pay-1", "--format", "json").json
    assert document["state"] == "Ongoing" and document["timeout_ms"] == 600_000 and document["open_ms"] >= 0
    assert document["partitions"] == [{"topic": "t", "partition": 1}]
    assert document["started"].endswith("Z")
    result = kafkapy("txn", "describe", "pay-1", "nobody")
    assert result.code == 3 and "TRANSACTIONAL_ID_NOT_FOUND: transactional id 'nobody'" in result.err
    assert kafkapy("txn", "describe", "nobody").code == 1


def test_partitions_tell_their_producers(kafkapy: Kafkapy, producer_id: int) -> None:
    """Those with an open transaction, or all."""
    kafkapy("produce", "t", "-p", "0", stdin="x\n")
    (row,) = kafkapy("txn", "producers", "t", "--open", "--format", "json").json
    assert (row["partition"], row["producer_id"], row["last_sequence"], row["start_offset"]) == (1, producer_id, 0, 0)
    assert kafkapy("txn", "producers", "t", "-p", "1").out.count("\n") == 1
    assert "no partition 7" in kafkapy("txn", "producers", "t", "-p", "7").err


def test_an_abort_ends_the_transaction_in_its_partition(kafkapy: Kafkapy, producer_id: int) -> None:
    """After a dry run; and only with consent."""
    where = ("t", "-p", "1", "--start-offset", "0")
    assert kafkapy("txn", "abort", *where).code == 2
    assert "would be aborted" in kafkapy("txn", "abort", *where, "--dry-run").out
    assert kafkapy("txn", "producers", "t", "--open").out != ""
    assert kafkapy("txn", "abort", *where, "--yes").out.endswith("\taborted\n")
    assert kafkapy("txn", "producers", "t", "--open").out == ""
    again = kafkapy("txn", "abort", *where, "--yes")
    assert again.code == 1 and "no transaction begins at offset 0 of t-1" in again.err


def test_a_transaction_at_work_does_not_hang(kafkapy: Kafkapy, producer_id: int) -> None:
    """Its coordinator will end it, however old it is."""
    assert kafkapy("txn", "hanging", "--older-than", "0s").out == ""


@pytest.fixture
def careless_broker() -> Iterator[Broker]:
    """A broker that appends to transactions that its coordinator does not know of."""
    with Broker(topics={"t": 2, "u": 1}, config={"transaction.partition.verification.enable": "false"}) as broker:
        yield broker


@pytest.mark.slow
def test_hanging_transactions_are_found_and_ended(careless_broker: Broker) -> None:
    """A producer wrote without telling the coordinator; that is told, with the command that helps."""

    def kafkapy(*args: str) -> Result:
        return run(*args, env={"KAFKAPY_BOOTSTRAP": careless_broker.bootstrap})

    long_ago_ms = time.time_ns() // 1_000_000 - HOUR_MS
    port = careless_broker.port
    with (
        open_transaction(port, "t", 0, "old", produce_version=UNANNOUNCED, timestamp_ms=long_ago_ms),
        open_transaction(port, "t", 1, "new", produce_version=UNANNOUNCED),
        open_transaction(port, "u", 0, "known", timestamp_ms=long_ago_ms),
    ):
        result = kafkapy("txn", "hanging", "--format", "json")
        assert [(row["topic"], row["partition"], row["start_offset"]) for row in result.json] == [("t", 0, 0)]
        assert result.err == "kafkapy txn abort t -p 0 --start-offset 0\n"
        assert len(kafkapy("txn", "hanging", "t", "--older-than", "0s").out.splitlines()) == 2
        assert kafkapy("txn", "hanging", "u").out == ""
        assert kafkapy(*result.err.split()[1:], "--yes").code == 0
        assert kafkapy("txn", "hanging").out == ""
