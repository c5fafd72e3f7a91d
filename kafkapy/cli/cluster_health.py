"""`kafkapy cluster health`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from kafkapy.cli.framework import command
from kafkapy.cli.offset_spec import parse_duration_ms
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.partition.status import problem_of
from kafkapy.cli.session import Session
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.client.admin import ClusterInfo
    from kafkapy.client.client import Client
    from kafkapy.client.replicas import Move, Quorum, Replicas

WAIT_PAUSE_S = 0.5

# A voter that has not asked for this long is not there, as far as elections go.
SILENT_VOTER_MS = 5_000

PROBLEM = Shape(
    "What is wrong",
    Column("subject", "the broker, partition, directory or voter"),
    Column("problem", "what is wrong with it"),
)
HEALTH = Shape(
    "The health of a cluster",
    Column("healthy", "whether nothing is wrong", "boolean"),
    Column("controller", "the node that leads the metadata quorum; null if nobody does", "integer"),
    Column("brokers", "how many there are, fenced and missing ones included", "integer"),
    Column("missing", "brokers that are fenced, or keep replicas but are not known", "list"),
    Column("partitions", "how many there are", "integer"),
    Column("offline", "partitions without a leader", "integer"),
    Column("under_min_isr", "partitions with fewer replicas in sync than min.insync.replicas", "integer"),
    Column("under_replicated", "partitions with replicas that are not in sync", "integer"),
    Column("moving", "partitions that are moving to other brokers, which is no problem", "integer"),
    problems=PROBLEM,
)


def _duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    duration_ms = parse_duration_ms(value)
    if duration_ms is None:
        raise click.BadParameter(f"{value!r}: write a number with ms, s, m, h or d, such as 30s")
    return duration_ms / 1000


@command(
    "health",
    short_help="Tell whether all brokers and partitions are well.",
    examples="""
        kafkapy cluster health
        kafkapy cluster health --wait 30s
        kafkapy cluster health --format json
        """,
)
@click.option(
    "--wait", "wait_s", metavar="DURATION", callback=_duration, help="Wait so long for the cluster to be well."
)
@output(HEALTH)
@click.pass_context
def health(ctx: click.Context, wait_s: float | None, out: Output) -> None:
    """Tell whether all brokers and partitions are well.

    The exit code is 0 if every broker answers, the metadata quorum has a leader that hears all voters, and every partition has a leader and all
    its replicas in sync; otherwise 1. With --wait a cluster that cannot be reached yet is waited for, too.
    """
    from kafkapy.client.connection import Unreachable

    session: Session = ctx.obj
    deadline = time.monotonic() + (wait_s or 0)
    while True:
        try:
            report = examine(session.client)
        except (Unreachable, KafkaError) as error:
            if time.monotonic() >= deadline or (isinstance(error, KafkaError) and not error.code.retriable):
                raise
            report = None
        if report is not None and (report["healthy"] or time.monotonic() >= deadline):
            break
        time.sleep(max(min(WAIT_PAUSE_S, deadline - time.monotonic()), 0))
    out.document(report)
    ctx.exit(0 if report["healthy"] else 1)


def examine(client: Client) -> dict[str, Any]:
    """Everything that can be asked, and what is wrong with it."""
    from kafkapy.client.admin import describe_cluster
    from kafkapy.client.replicas import describe_replicas, list_moves

    found = describe_cluster(client)
    rows = describe_replicas(client)
    quorum, trouble = _quorum(client)
    # Without a leader of the quorum nobody knows of moves, and asking would only wait.
    moves = {} if trouble else list_moves(client)
    known = {broker.id for broker in found.brokers}
    unknown = sorted({replica for row in rows for replica in row.replicas} - known)
    low = _under_min_isr(client, rows)
    problems = [
        *trouble,
        *([] if quorum is None else quorum_problems(quorum)),
        *broker_problems(client, found),
        *((f"broker {broker}", "keeps replicas, but is not registered") for broker in unknown),
        *partition_problems(rows, moves, low),
    ]
    return {
        "healthy": not problems,
        "controller": quorum.leader if quorum is not None else None,
        "brokers": len(known) + len(unknown),
        "missing": sorted({*(broker.id for broker in found.brokers if broker.fenced), *unknown}),
        "partitions": len(rows),
        "offline": sum(row.leader < 0 for row in rows),
        "under_min_isr": len(low),
        "under_replicated": sum(problem_of(row, moves.get(row.partition)) is not None for row in rows),
        "moving": len(moves),
        "problems": [{"subject": subject, "problem": problem} for subject, problem in problems],
    }


def _quorum(client: Client) -> tuple[Quorum | None, list[tuple[str, str]]]:
    """The quorum, or why there is none."""
    from kafkapy.client.replicas import describe_quorum

    try:
        return describe_quorum(client, patient=False), []
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            return None, []
        return None, [("quorum", f"no leader is known: {error.code.name}")]


def quorum_problems(quorum: Quorum) -> Iterator[tuple[str, str]]:
    """No leader, or voters that the leader has not heard for long. Times are compared as the leader tells them, with its own."""
    if quorum.leader < 0:
        yield "quorum", "no leader is known"
    now_ms = max((replica.last_fetch_ms for replica in quorum.voters), default=-1)
    for replica in quorum.voters:
        if replica.node == quorum.leader:
            continue
        if replica.last_fetch_ms < 0:
            yield f"voter {replica.node}", "has not been heard of by the leader of the quorum"
        elif now_ms - replica.last_fetch_ms > SILENT_VOTER_MS:
            seconds = (now_ms - replica.last_fetch_ms) / 1000
            yield f"voter {replica.node}", f"was last heard of {seconds:.0f} s ago"


def broker_problems(client: Client, found: ClusterInfo) -> Iterator[tuple[str, str]]:
    """Brokers that are fenced, do not answer, or have lost a directory."""
    from kafkapy.client.admin import describe_log_dirs
    from kafkapy.client.connection import Unreachable

    if found.controller_id < 0:
        yield "cluster", "no controller is known"
    for broker in found.brokers:
        if broker.fenced:
            yield f"broker {broker.id}", "fenced"
            continue
        try:
            for log_dir in describe_log_dirs(client, broker.id):
                if log_dir.error is not None:
                    yield f"{log_dir.path} of broker {broker.id}", log_dir.error.code.name
        except Unreachable as error:
            yield f"broker {broker.id}", f"{error.address} does not answer: {error.reason}"


def partition_problems(
    rows: Iterable[Replicas], moves: Mapping[TopicPartition, Move], low: Mapping[TopicPartition, int]
) -> Iterator[tuple[str, str]]:
    """One line for each partition that is not well; `low` are those that refuse writes, with how many replicas they want in sync."""
    for row in rows:
        problem = problem_of(row, moves.get(row.partition))
        if problem is None:
            continue
        if row.partition in low and row.leader >= 0:
            problem += f"; {len(row.isr)} in sync, so writes with acks=all are refused: {low[row.partition]} are wanted"
        yield str(row.partition), problem


def _under_min_isr(client: Client, rows: Sequence[Replicas]) -> dict[TopicPartition, int]:
    from kafkapy.client.replicas import min_in_sync

    wanted = min_in_sync(client, sorted({row.partition.topic for row in rows}))
    return {
        row.partition: wanted[row.partition.topic]
        for row in rows
        if len(row.isr) < min(wanted.get(row.partition.topic, 1), len(row.replicas))
    }
