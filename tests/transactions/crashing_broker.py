"""A broker that kills its own process, as `kill -9` does, right after the N-th append that matters to a transaction.

    python -m tests.transactions.crashing_broker DATA_FOLDER N

It prints its port when it is ready. Appends to `__transaction_state`, `__consumer_offsets` and the topics of clients count, by coordinators and
by clients alike, from the start of the process.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import trio

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.log.partition import Partition
from kafkapy.server.broker import Broker

# A transaction that nobody ends is aborted at once after its timeout.
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "20",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


def crash_after(count: int) -> None:
    """Count appends from now on, and end with the last of them."""
    append = Partition.append_as_leader
    appended = 0

    def append_and_count(self: Partition, *args: Any, **options: Any) -> Any:
        nonlocal appended
        info = append(self, *args, **options)
        appended += 1
        if appended == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return info

    Partition.append_as_leader = append_and_count  # type: ignore[method-assign]


def main() -> None:
    """Serve until the crash."""
    folder, count = sys.argv[1], int(sys.argv[2])
    crash_after(count)
    broker = Broker(BrokerConfig({**SETTINGS, "log.dirs": folder, "listeners": "PLAINTEXT://127.0.0.1:0"}))
    trio.run(broker.serve, lambda: print(broker.port, flush=True))


if __name__ == "__main__":
    main()
