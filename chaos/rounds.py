"""The run: a cluster, clients that never stop, and one round after another: break something, mend it, wait until all is in sync, check
everything."""

from __future__ import annotations

import random
import shutil
import statistics
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from chaos import check, network
from chaos.disk import Disks
from chaos.ledger import Ledger
from chaos.nemesis import Nemesis
from chaos.network import Network
from chaos.transactions import Copier, TransactionalWriter
from chaos.workload import Committer, NumberedProducer, Worker
from kafkapy.config.local_cluster import Address
from kafkapy.testing import Cluster
from kafkapy.types import TopicPartition

NUMBERED, COPY, WHOLE = "numbered", "copy", "whole"
PARTITIONS = {NUMBERED: 4, COPY: 4, WHOLE: 3}

PRODUCERS = 2
RECORDS_A_SECOND = 60.0  # of each producer
READERS, COPIERS = "chaos-reader", "chaos-copier"

BROKER_PORT, CONTROLLER_PORT = 9092, 9093
DISK_MB = 512

# How long replicas may take to be in sync again, and transactions to end, after everything is mended.
RECOVERY_S = 60.0
STABLE_S = 60.0
# A client that hangs is replaced within this time, too.
PROGRESS_S = 120.0
CALM_S = 1.0

# Everything is read again from the beginning after so many rounds, and at the end.
REREAD_EVERY = 25


class Options(NamedTuple):
    """What was asked for."""

    minutes: float
    rounds: int | None
    seed: int
    brokers: int
    faults: tuple[str, ...]
    folder: Path | None
    isolated: bool


class Round(NamedTuple):
    """What one round was like."""

    fault: str
    gap_s: float
    recovery_s: float


class Run:
    """One run. `go` raises Wrong, or whatever else goes wrong; the folder stays then."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._rng = random.Random(options.seed)
        self._folder = options.folder or Path(tempfile.mkdtemp(prefix="kafkapy-chaos-"))
        self._ledger = Ledger()
        self._rounds: list[Round] = []
        self._seen: check.Seen = {}
        self._seen_committed: check.Seen = {}
        self._positions: dict[TopicPartition, int] = {}
        self._positions_committed: dict[TopicPartition, int] = {}
        self._verified: dict[TopicPartition, int] = {}
        self._ends: Counter[str] = Counter()
        self._copied = 0
        self._replica_bytes = 0

    def go(self) -> None:
        """Run until the time is over; prints what happens."""
        with ExitStack() as stack:
            self._build(stack)
            try:
                self._cluster.start_all()
                self._create_topics()
                self._start_clients()
                self._run_rounds()
                self._finish()
            except BaseException:
                self._keep()
                raise
        shutil.rmtree(self._folder, ignore_errors=True)

    # ---- surroundings

    def _build(self, stack: ExitStack) -> None:
        options = self._options
        nodes = range(1, options.brokers + 1)
        net: Network | None = None
        addresses: dict[int, Address] | None = None
        reason = network.why_not() if options.isolated else "not wanted"
        if reason is None:
            net = stack.enter_context(Network(options.brokers))
            addresses = {node: Address(net.address(node), BROKER_PORT, CONTROLLER_PORT) for node in nodes}
        else:
            print(f"no faults of the network: {reason}", flush=True)
        copies = 5 if options.brokers >= 5 else 3
        in_sync = copies // 2 + 1
        self._cluster = Cluster(
            options.brokers,
            data_dir=self._folder,
            config=_config(copies, in_sync),
            addresses=addresses,
            prefix=net.prefix if net is not None else lambda node: (),
        )
        self._copies = copies
        disks = stack.enter_context(Disks([self._cluster.data(node) for node in nodes], DISK_MB))
        if disks.reason is not None:
            print(f"no full disks: {disks.reason}", flush=True)
        self._disks = disks
        stack.callback(self._cluster.kill_all)
        self._nemesis = Nemesis(
            self._cluster,
            self._rng,
            NUMBERED,
            PARTITIONS[NUMBERED],
            net,
            disks if disks.reason is None else None,
        )
        unknown = set(options.faults) - self._nemesis.faults.keys()
        if unknown:
            raise SystemExit(f"no fault {', '.join(sorted(unknown))}; there are: {', '.join(self._nemesis.faults)}")
        self._faults = list(options.faults or self._nemesis.faults)

    def _create_topics(self) -> None:
        for topic, partitions in PARTITIONS.items():
            self._cluster.create_topic(topic, partitions, self._copies)

    def _start_clients(self) -> None:
        bootstrap = self._cluster.bootstrap
        self._producers = [
            NumberedProducer(
                f"p{number}", bootstrap, NUMBERED, PARTITIONS[NUMBERED], self._ledger, rate=RECORDS_A_SECOND
            )
            for number in range(PRODUCERS)
        ]
        self._writer = TransactionalWriter("w", bootstrap, WHOLE, PARTITIONS[WHOLE])
        self._copier = Copier(COPIERS, bootstrap, NUMBERED, COPY)
        self._reader = Committer(READERS, bootstrap, NUMBERED)
        self._clients: list[Worker] = [*self._producers, self._writer, self._copier, self._reader]
        for client in self._clients:
            client.start()
        deadline = time.monotonic() + 30
        while self._ledger.acked_count < 50:
            if time.monotonic() > deadline:
                raise check.Wrong("no records are acknowledged, although nothing was broken yet")
            time.sleep(0.05)

    # ---- rounds

    def _run_rounds(self) -> None:
        options = self._options
        deadline = time.monotonic() + options.minutes * 60
        number = 0
        order: list[str] = []
        while number < options.rounds if options.rounds is not None else time.monotonic() < deadline:
            # Each fault comes once before any comes twice.
            if not order:
                order = self._rng.sample(self._faults, len(self._faults))
            number += 1
            self._one_round(number, order.pop())

    def _one_round(self, number: int, fault: str) -> None:
        acked = self._ledger.acked_count
        self._ledger.take_longest_gaps()
        began = time.monotonic()
        what = self._nemesis.faults[fault]()
        mended = time.monotonic()
        print(f"{number:4}  {what}, mended after {mended - began:.1f} s", flush=True)
        dead = self._nemesis.unexpectedly_dead()
        if dead:
            raise check.Wrong("\n".join(dead))
        self._cluster.wait_in_sync(RECOVERY_S)
        recovery_s = time.monotonic() - mended
        time.sleep(CALM_S)
        gap_s = max(self._ledger.take_longest_gaps().values())
        self._check(reread=number % REREAD_EVERY == 0)
        new = self._ledger.acked_count - acked
        self._rounds.append(Round(fault, gap_s, recovery_s))
        print(
            f"      longest without an ack {gap_s:.2f} s, in sync {recovery_s:.1f} s later, "
            f"{new} records acked and {self._ledger.acked_count} checked",
            flush=True,
        )
        if not new:
            raise check.Wrong("nothing was acknowledged in this round")

    def _check(self, *, reread: bool) -> None:
        """Everything that has been promised until now."""
        for client in self._clients:
            if client.failure is not None:
                raise client.failure
        cluster = self._cluster
        acked = {key: list(acks) for key, acks in self._ledger.acked.copy().items()}
        done = self._writer.done
        promised = self._reader.committed
        copied_up_to = check.committed_offsets(cluster, COPIERS)
        plain = [TopicPartition(NUMBERED, index) for index in range(PARTITIONS[NUMBERED])]
        transactional = [TopicPartition(name, index) for name in (WHOLE, COPY) for index in range(PARTITIONS[name])]
        ends = check.ends_of(cluster, [*plain, *transactional], committed=False)
        stable = check.wait_stable(cluster, {key: ends[key] for key in transactional}, STABLE_S)
        plain_ends = {key: ends[key] for key in plain}
        for group in (COPIERS, READERS):
            check.wait_committed(cluster, group, {key.partition: end for key, end in plain_ends.items()}, PROGRESS_S)
        if reread:
            self._positions.clear()
            self._positions_committed.clear()
        check.read_more(cluster.bootstrap, self._seen, plain_ends, committed=False, positions=self._positions)
        check.read_more(
            cluster.bootstrap, self._seen_committed, stable, committed=True, positions=self._positions_committed
        )
        check.check_acked(acked, self._seen)
        check.check_once_in_order(self._seen)
        self._ends = check.check_transactions(done, self._seen_committed)
        self._copied = check.check_copy(self._seen, self._seen_committed, NUMBERED, COPY, copied_up_to)
        check.check_commits(promised, check.committed_offsets(cluster, READERS), READERS)
        if self._reader.went_back:
            raise check.Wrong("\n".join(self._reader.went_back))
        self._replica_bytes += check.check_replicas(cluster, ends, self._verified)

    def _finish(self) -> None:
        """Stop the clients, check everything once more from the beginning, and sum up."""
        for client in self._clients:
            client.finish()
        self._verified.clear()
        self._check(reread=True)
        self._cluster.stop_all()
        ledger = self._ledger
        print(f"\n{len(self._rounds)} rounds, seed {self._options.seed}, {self._options.brokers} brokers")
        print(
            f"records: {ledger.sent} sent, {ledger.acked_count} acked, 0 lost, 0 twice, {len(ledger.refused)} given up"
        )
        print(f"transactions: {', '.join(f'{count} {end}' for end, count in sorted(self._ends.items()))}; all whole")
        print(f"copied exactly once: {self._copied}; offsets kept; {self._replica_bytes} bytes of replicas compared")
        fatal = [text for client in self._clients for text in client.fatal]
        # A leader that was stopped cleanly remembers only the last batch of each producer, so what was on its way before may look strange to it.
        strange = sum("desynchronization" in text for text in fatal)
        print(
            f"fatal errors of clients: {len(fatal)}, of sequences {strange}; "
            f"restarts of the copier: {self._copier.restarts}, hangs of its client: {self._copier.hangs}\n"
        )
        by_fault: dict[str, list[Round]] = {}
        for one in self._rounds:
            by_fault.setdefault(one.fault, []).append(one)
        print(f"{'fault':18} {'rounds':>6} {'median gap':>11} {'longest gap':>12} {'longest to sync':>16}")
        for fault, found in sorted(by_fault.items()):
            gaps = [one.gap_s for one in found]
            recovery_s = max(one.recovery_s for one in found)
            print(
                f"{fault:18} {len(found):6} {statistics.median(gaps):9.2f} s {max(gaps):10.2f} s {recovery_s:14.1f} s"
            )

    def _keep(self) -> None:
        """Leave what one needs to find out why."""
        for node in self._cluster.nodes:
            lines = self._cluster.log_lines(node)
            (self._folder / f"broker{node}.log").write_text("\n".join(lines) + "\n")
        self._disks.keep(self._folder / "disks")
        with (self._folder / "ledger.txt").open("w") as file:
            for (topic, partition), acks in self._ledger.acked.items():
                file.writelines(f"{topic} {partition} {ack.offset} {ack.value}\n" for ack in acks)
        print(f"\ndata, logs and the ledger are in {self._folder}", flush=True)


def _config(copies: int, in_sync: int) -> dict[str, str]:
    """Copies as the run wants them, and few partitions of internal topics, so that a machine with two cores has time for faults."""
    return {
        "default.replication.factor": str(copies),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(copies),
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.min.isr": str(in_sync),
        "log.segment.bytes": str(4 << 20),
    }
