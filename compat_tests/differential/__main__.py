"""Runs the comparison and prints what differs."""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import logging
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compat_tests import kafka_broker
from compat_tests.differential.allowed import ALLOWED
from compat_tests.differential.cases import Case, load
from compat_tests.differential.comparison import Difference, compare
from compat_tests.differential.probe import Probe
from kafkapy.handlers import SERVED
from kafkapy.testing import Broker
from kafkapy.wire.apis import API_BY_KEY

CONFIG = {
    "node.id": "1",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "2",
}
WIDTH_MAX = 70


def main(arguments: Sequence[str] | None = None) -> int:
    """0: no difference that is not allowed."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.differential", description=__doc__)
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a fresh Apache Kafka that runs already")
    parser.add_argument(
        "--target", metavar="HOST:PORT", help="a fresh broker to compare with it, instead of starting kafkapy"
    )
    parser.add_argument("--case", default="*", metavar="PATTERN", help="which cases, as a shell pattern")
    parser.add_argument("--all", action="store_true", help="also print what is allowed to differ")
    parser.add_argument(
        "--table", type=Path, metavar="FILE", help="write the codes of the cases of wrong input as Markdown"
    )
    args = parser.parse_args(arguments)
    logging.getLogger("kafkapy").setLevel(logging.ERROR)  # Warnings of bad requests are the purpose here.
    cases = {name: case for name, case in load().items() if fnmatch.fnmatch(name, args.case)}
    with contextlib.ExitStack() as stack:
        kafka = args.kafka
        if kafka is None:
            lacking = kafka_broker.missing()
            if lacking is not None:
                print(f"Apache Kafka cannot be started: {lacking}", file=sys.stderr)
                return 2
            kafka = stack.enter_context(kafka_broker.KafkaBroker(CONFIG)).bootstrap
        target = args.target or stack.enter_context(Broker(config=CONFIG)).bootstrap
        theirs, ours = run(cases, kafka, set()), run(cases, target, asked := set())
        if args.table:
            args.table.write_text(table(theirs, ours))
        status = report(cases, theirs, ours, args.all)
        forgotten = never_asked(asked) if args.case == "*" else []
        for line in forgotten:
            print(line)
        return status or bool(forgotten)


Notes = dict[str, list[tuple[str, Any]]]


def never_asked(asked: set[tuple[int, int]]) -> list[str]:
    """What kafkapy serves and no case has asked for."""
    lines = []
    for key in sorted(SERVED):
        api = API_BY_KEY[key]
        missing = [v for v in range(api.versions.first, api.advertised.last + 1) if (key, v) not in asked]
        if missing:
            lines.append(f"no case asks {api.name} in version {', '.join(map(str, missing))}")
    return lines


def run(cases: dict[str, Case], bootstrap: str, asked: set[tuple[int, int]]) -> Notes:
    """Every case's notes of one broker. A case that breaks notes that, and the rest goes on."""
    notes: Notes = {}
    begun = time.monotonic()
    for name, case in cases.items():
        probe = Probe(bootstrap)
        try:
            case(probe)
        except Exception as error:  # noqa: BLE001 -- one broken case must not hide the others' differences
            traceback.print_exc()
            probe.note("the case broke", f"{type(error).__name__}: {error}")
        finally:
            probe.close()
        notes[name] = probe.notes
        asked |= probe.asked
    print(f"{bootstrap}: {sum(map(len, notes.values()))} answers in {time.monotonic() - begun:.1f} s")
    return notes


def report(cases: dict[str, Case], kafka: Notes, kafkapy: Notes, show_allowed: bool) -> int:
    """Print the table; the exit status."""
    found = [one for name in cases for one in compare(name, kafka[name], kafkapy[name], ALLOWED)]
    unexpected = [one for one in found if one.allowed is None]
    for one in found if show_allowed else unexpected:
        _print(one)
    answers = sum(map(len, kafka.values()))
    print(
        f"{len(cases)} cases, {answers} answers: {len(unexpected)} differences, and {len(found) - len(unexpected)} that are allowed"
    )
    return 1 if unexpected else 0


def table(kafka: Notes, kafkapy: Notes) -> str:
    """What the cases of wrong input were answered, side by side."""
    lines = [
        "# Wrong input in groups and transactions",
        "",
        "What Apache Kafka 4.3.1 and kafkapy answer to one mistake at a time. Written by",
        "`python -m compat_tests.differential --case 'wrong_*' --table docs/error-codes.md`.",
    ]
    for name in (name for name in kafka if name.startswith("wrong_")):
        ours = dict(kafkapy[name])
        lines += ["", f"## {name.replace('_', ' ').capitalize()}", ""]
        lines += ["| Request and mistake | Apache Kafka | kafkapy |", "|---|---|---|"]
        lines += [f"| {label} | {code} | {ours.get(label, 'not asked')} |" for label, code in kafka[name]]
    return "\n".join(lines) + "\n"


def _print(one: Difference) -> None:
    mark = f"   allowed: {one.allowed.reason}" if one.allowed else ""
    print(f"{one.case} | {one.label} | {one.path or '.'}{mark}")
    print(f"      Kafka {_short(one.kafka)}    kafkapy {_short(one.kafkapy)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= WIDTH_MAX else text[: WIDTH_MAX - 3] + "..."


if __name__ == "__main__":
    sys.exit(main())
