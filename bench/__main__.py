"""Run the benchmarks and print one table: kafkapy beside Apache Kafka 4.3.1, with the goals.

    make bench                                 everything, both brokers; half an hour
    python -m bench --quick                    everything, small: does it work, and what is the trend
    python -m bench --only kafkapy bulk sync   figures alone, of two benchmarks

Only figures of one run compare with each other. Nothing passes or fails here; a goal that is missed is printed as missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench import coordination, scale, workloads
from bench.peers import KAFKA, KAFKA_VERSION, KAFKAPY, KINDS, TITLES, Peer, PeerError, missing
from bench.raw import BenchError, start_and_wait
from bench.sizes import FULL, QUICK, Sizes
from bench.table import render

Measure = Callable[[Peer, Sizes], dict[str, float]]


class Benchmark(NamedTuple):
    """One benchmark. Those that start the broker themselves get a new one, the others share one."""

    name: str
    measure: Measure
    starts_broker: bool = False
    only_kafkapy: bool = False


BENCHMARKS = (
    Benchmark("start", scale.idle, starts_broker=True),
    Benchmark("bulk", workloads.bulk),
    Benchmark("small", workloads.small),
    Benchmark("sync", workloads.sync),
    Benchmark("fan-in", workloads.fan),
    Benchmark("e2e", workloads.end_to_end),
    Benchmark("partitions", workloads.partitions),
    Benchmark("transactions", workloads.transactions),
    Benchmark("idempotent", workloads.idempotent, only_kafkapy=True),
    Benchmark("group", coordination.one_group),
    Benchmark("heartbeats", coordination.heartbeats),
    Benchmark("commits", coordination.commits_beside_bulk),
    Benchmark("connections", scale.connections),
    Benchmark("million-offsets", coordination.million_offsets, starts_broker=True),
    Benchmark("many-partitions", scale.many_partitions, starts_broker=True),
)
# Programs of their own, which measure parts of kafkapy without a broker around them and print their own lines.
PROGRAMS = ("wire", "compaction")


class Run:
    """What was asked for, and what came out."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.sizes = QUICK if arguments.quick else FULL
        self.folder: str | None = arguments.folder
        self.names: list[str] = arguments.names or [one.name for one in BENCHMARKS] + list(PROGRAMS)
        self.remarks: list[str] = []
        self.kinds = [kind for kind in KINDS if arguments.only in (None, kind)]
        self.measured: dict[str, dict[str, list[float]]] = {kind: {} for kind in KINDS}

    def without_missing_peers(self) -> None:
        """Leave out the brokers that cannot run here, and say so."""
        for kind in list(self.kinds):
            reason = missing(kind)
            if reason is not None:
                self.kinds.remove(kind)
                self.remark(f"{TITLES[kind]} {KAFKA_VERSION} is left out: {reason}")

    def remark(self, text: str) -> None:
        """Say something now, and again under the table."""
        print(text, file=sys.stderr, flush=True)
        self.remarks.append(text)

    def round(self, kind: str) -> None:
        """Every benchmark once on this kind of broker."""
        wanted = [one for one in BENCHMARKS if one.name in self.names and (kind == KAFKAPY or not one.only_kafkapy)]
        for one in wanted:
            if one.starts_broker:
                with Peer(kind, self.folder) as peer:
                    self._measure(one, peer)
        shared = [one for one in wanted if not one.starts_broker]
        if not shared:
            return
        with Peer(kind, self.folder) as peer:
            try:
                start_and_wait(peer)
            except PeerError as error:
                self.remark(f"{TITLES[kind]}: {error}")
                return
            for one in shared:
                self._measure(one, peer)

    def _measure(self, one: Benchmark, peer: Peer) -> None:
        print(f"{peer.title}: {one.name}", file=sys.stderr, flush=True)
        try:
            figures = one.measure(peer, self.sizes)
        except Exception as error:  # noqa: BLE001 - whatever went wrong with one benchmark, the others are still worth having
            self.remark(f"{peer.title}: {one.name} failed: {type(error).__name__}: {error}")
            return
        for name, value in figures.items():
            self.measured[peer.kind].setdefault(name, []).append(value)

    def medians(self) -> dict[str, dict[str, float]]:
        """Each figure's median over the rounds."""
        return {
            kind: {name: statistics.median(values) for name, values in figures.items()}
            for kind, figures in self.measured.items()
        }


def run_programs(run: Run) -> None:
    """Those that print their own lines."""
    for name in PROGRAMS:
        if name in run.names and KAFKAPY in run.kinds:
            extra = ["--megabytes", str(run.sizes.compaction_mb)] if name == "compaction" else []
            if name == "compaction" and run.folder:
                extra += ["--folder", run.folder]
            print(f"\n{name}", flush=True)
            subprocess.run([sys.executable, "-m", f"bench.{name}", *extra], check=False)


def arguments_of(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    names = [one.name for one in BENCHMARKS] + list(PROGRAMS)
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all of them by default: {', '.join(names)}")
    parser.add_argument("--only", choices=KINDS, help="run one of the two brokers")
    parser.add_argument("--quick", action="store_true", help="small amounts; figures then say little")
    parser.add_argument("--rounds", type=int, default=1, help="how often, in turns; the table shows medians")
    parser.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    parser.add_argument("--json", metavar="FILE", help="write every value of every round to this file")
    parser.add_argument("--folder", help="where the brokers keep their data; a temporary folder by default")
    arguments = parser.parse_args(argv)
    unknown = [name for name in arguments.names if name not in names]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(names)}")
    return arguments


def main(argv: list[str]) -> int:
    """Measure, print."""
    arguments = arguments_of(argv)
    run = Run(arguments)
    run.without_missing_peers()
    if arguments.quick:
        run.remark("quick: amounts are much smaller than the titles say, so these figures are no result")
    if "connections" in run.names:
        try:
            scale.allow_files(run.sizes.idle_connections)
        except BenchError as error:
            run.remark(str(error))
    for number in range(arguments.rounds):
        for kind in run.kinds if number % 2 else reversed(run.kinds):
            run.round(kind)
    results = run.medians()
    if results[KAFKAPY] or results[KAFKA]:
        print(render(results, markdown=arguments.markdown))
    for remark in run.remarks:
        print(remark)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(run.measured, indent=1))
    run_programs(run)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
