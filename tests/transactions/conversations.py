"""Conversations with a broker about transactions. What it answers can be compared with another's.

    python -m tests.transactions.conversations HOST:PORT      print the answers as JSON

`kafka_answers.json` has what Apache Kafka 4.3.1 says; `talk.py` has what can be asked.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from kafkapy.wire.messages.describe_transactions import DescribeTransactionsRequest
from tests.support.wire_client import WireClient
from tests.transactions.talk import Talk

CONVERSATIONS: dict[str, Callable[[Talk], None]] = {}


def conversation(run: Callable[[Talk], None]) -> Callable[[Talk], None]:
    """Register one."""
    CONVERSATIONS[run.__name__] = run
    return run


@conversation
def v2_life(talk: Talk) -> None:
    """Transactions V2 from the first to the last."""
    talk.describe()
    talk.init()
    talk.describe()
    talk.produce(12)
    talk.produce(12, sequence=1)
    talk.describe()
    talk.read()
    talk.end()
    talk.end(epoch=talk.epoch - 1)
    talk.end(epoch=talk.epoch - 1, commit=False)
    talk.describe()
    talk.read()
    talk.end()
    talk.end(commit=False)
    talk.produce(12)
    talk.produce(12, index=1)
    talk.describe()
    talk.end(commit=False)
    talk.end(epoch=talk.epoch - 1, commit=False)
    talk.end(epoch=talk.epoch - 1)
    talk.end(epoch=talk.epoch - 2)
    talk.read()
    talk.read(1)


@conversation
def v1_life(talk: Talk) -> None:
    """Transactions V1."""
    talk.init(4)
    talk.end(4)
    talk.end(4, commit=False)
    talk.produce(11)
    talk.produce(10)
    talk.add(3, 0)
    talk.describe()
    talk.add(3, 0, 1)
    talk.produce(11)
    talk.produce(10, index=1)
    talk.end(4)
    talk.end(4)
    talk.end(4, commit=False)
    talk.produce(11, sequence=1)
    talk.produce(9, sequence=1)
    talk.add(0, 1)
    talk.produce(7, sequence=1, index=1)
    talk.end(1, commit=False)
    talk.end(0, commit=False)
    talk.end(1)
    talk.read()
    talk.read(1)


@conversation
def fencing(talk: Talk) -> None:
    """A second producer takes over while the first has a transaction open."""
    pid, epoch = talk.init()
    talk.produce(12)
    talk.init()
    talk.describe()
    for version in (12, 11):
        talk.produce(version, sequence=1, pid=pid, epoch=epoch)
        talk.produce(version, index=1, pid=pid, epoch=epoch)
    for version in (0, 1, 2, 3):
        talk.add(version, 0, pid=pid, epoch=epoch)
    talk.add(4, 0, pid=pid, epoch=epoch)
    talk.add(5, 0, pid=pid, epoch=epoch, verify=True)
    for version in (0, 1, 2, 4):
        talk.end(version, pid=pid, epoch=epoch)
    talk.end(5, pid=pid, epoch=epoch)
    talk.end(5, pid=pid, epoch=epoch, commit=False)
    for version in (0, 1, 2, 4):
        talk.offsets_join(version, epoch=epoch)
    for version in (0, 2, 3, 4, 5):
        talk.commit_offset(version, 5, epoch=epoch)
    for version in (3, 4, 5):
        talk.init(version, pid=pid, epoch=epoch)
    talk.read()


@conversation
def unknown_ids(talk: Talk) -> None:
    """Nobody of that name."""
    talk.describe("nobody")
    talk.describe("")
    talk.end(5, named="nobody", pid=1, epoch=0)
    talk.end(1, named="nobody", pid=1, epoch=0)
    talk.end(5, named="", pid=1, epoch=0)
    talk.end(1, named="", pid=1, epoch=0)
    talk.add(3, 0, named="nobody", pid=1, epoch=0)
    talk.add(3, 0, named="", pid=1, epoch=0)
    talk.add(4, 0, named="nobody", pid=1, epoch=0, verify=True)
    talk.init(named="")
    talk.init(timeout_ms=0)
    talk.init(timeout_ms=900_001)
    talk.init(pid=5)
    talk.init(epoch=5)
    talk.init()
    talk.end(5, pid=talk.pid + 1000)
    talk.end(4, pid=talk.pid + 1000)
    talk.add(3, 0, pid=talk.pid + 1000)
    talk.add(3, 7)
    talk.add(3, 0, 7)
    talk.add(3, 0, topic="no-such-topic")
    talk.add(4, 0, 7)
    talk.produce(12, pid=talk.pid + 1000)
    talk.produce(11, pid=talk.pid + 1000)
    talk.produce(10, pid=talk.pid + 1000)
    talk.produce(12, named="nobody")
    talk.produce(11, named="nobody")
    talk.produce(12, named="")
    talk.describe()


@conversation
def going_on(talk: Talk) -> None:
    """KIP-360: a producer asks for its next epoch."""
    pid, epoch = talk.init()
    talk.init(pid=pid, epoch=epoch)
    talk.init(pid=pid, epoch=epoch)
    talk.init(3, pid=pid, epoch=epoch + 1)
    talk.init(3, pid=pid, epoch=epoch)
    talk.init(4, pid=pid, epoch=epoch)
    talk.init(4, pid=pid, epoch=epoch + 7)
    talk.init(5, pid=pid + 1000, epoch=0)
    talk.produce(12)
    talk.init(5, pid=talk.pid, epoch=talk.epoch)
    talk.describe()
    talk.end(commit=False)
    talk.init(5, pid=talk.pid, epoch=talk.epoch - 1)
    talk.init(5, pid=talk.pid, epoch=talk.epoch)


@conversation
def verification(talk: Talk) -> None:
    """What another broker asks."""
    talk.init()
    talk.add(4, 0, verify=True)
    talk.add(5, 0, verify=True)
    talk.add(4, 0)
    talk.add(4, 0, 1, verify=True)
    talk.add(5, 1)
    talk.add(5, 0, 1, verify=True)
    talk.describe()
    talk.end()
    talk.add(5, 0, verify=True)
    talk.add(5, 0, verify=True, epoch=talk.epoch - 1)


@conversation
def offsets(talk: Talk) -> None:
    """Offsets in transactions of both versions."""
    talk.init()
    talk.commit_offset(4, 5)
    talk.commit_offset(3, 5)
    talk.commit_offset(2, 5)
    talk.offsets_join(3)
    talk.commit_offset(3, 11)
    talk.fetch_offset()
    talk.fetch_offset(stable=True, settle=False)
    talk.end(4)
    talk.fetch_offset(stable=True)
    talk.commit_offset(5, 12)
    talk.describe()
    talk.end(commit=False)
    talk.fetch_offset(stable=True)
    talk.commit_offset(5, 13)
    talk.end()
    talk.fetch_offset(stable=True)
    talk.commit_offset(5, 14, topic="no-such-topic")
    talk.commit_offset(5, 14, generation=3)
    talk.commit_offset(5, 15, epoch=talk.epoch - 1)
    talk.end(commit=False)


@conversation
def time_out(talk: Talk) -> None:
    """A transaction that its producer leaves open. The brokers here look every second."""
    talk.init(timeout_ms=100)
    talk.produce(12)
    for _ in range(200):
        time.sleep(0.05)
        answer = talk.wire.request(DescribeTransactionsRequest(transactional_ids=[talk.id]), 0)
        if answer.transaction_states[0].transaction_state == "CompleteAbort":
            break
    talk.describe()
    talk.read()
    talk.produce(12, sequence=1)
    talk.end(commit=False)
    talk.produce(12)
    talk.end()


@conversation
def listing(talk: Talk) -> None:
    """Filters of ListTransactions."""
    talk.init()
    talk.list()
    talk.list(0, state_filters=["Empty"])
    talk.list(0, state_filters=["Ongoing"])
    talk.list(0, state_filters=["Ongoing", "Nonsense", "empty"])
    talk.list(0, state_filters=["Dead"])
    talk.list(0, producer_id_filters=[talk.pid])
    talk.list(0, producer_id_filters=[talk.pid + 1000])
    talk.list(1, duration_filter=0)
    talk.list(1, duration_filter=100_000)
    talk.produce(12)
    talk.list(0, state_filters=["Ongoing"])
    talk.list(1, duration_filter=100_000)
    talk.list(2, transactional_id_pattern="id-.*")
    talk.list(2, transactional_id_pattern="id")
    talk.list(2, transactional_id_pattern="")
    talk.list(2, transactional_id_pattern="id-(")
    talk.end()


@conversation
def markers(talk: Talk) -> None:
    """WriteTxnMarkers by hand."""
    talk.init()
    talk.produce(12)
    talk.mark(1, epoch=talk.epoch, coordinator_epoch=-1)
    talk.read()
    talk.mark(1, epoch=talk.epoch, coordinator_epoch=-1, index=7)
    talk.end(commit=False)
    talk.read()
    talk.produce(12)
    talk.mark(2, epoch=talk.epoch, coordinator_epoch=100, txn_version=2)
    talk.mark(2, epoch=talk.epoch - 1, coordinator_epoch=100, txn_version=2)
    talk.read()
    talk.end()
    talk.read()


@conversation
def mixed_writes(talk: Talk) -> None:
    """Batches inside and outside of transactions under one producer id."""
    talk.init()
    talk.produce(12)
    talk.produce(12, sequence=1, transactional=False)
    talk.end()
    talk.read()
    talk.produce(12, transactional=False)
    talk.read()


def converse(host: str, port: int) -> dict[str, list[str]]:
    """All conversations; each has a topic and ids of its own."""
    said = {}
    for name, run in CONVERSATIONS.items():
        with WireClient(host, port) as wire:
            talk = Talk(wire, name)
            run(talk)
            said[name] = talk.said
    return said


if __name__ == "__main__":
    host, _, port = sys.argv[1].rpartition(":")
    print(json.dumps(converse(host, int(port)), indent=1))
