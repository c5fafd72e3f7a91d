"""`kafkapy cluster`: who is there, and is all well."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from kafkapy.cli.framework import Entry, Group, command
from kafkapy.cli.offset_spec import parse_duration_ms
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkapy.client.admin import BrokerInfo, ClusterInfo
    from kafkapy.client.client import Client

WAIT_PAUSE_S = 0.5

cluster = Group(
    "cluster",
    {
        "info": Entry("kafkapy.cli.cluster:info", "Show the cluster and its brokers."),
        "health": Entry("kafkapy.cli.cluster:health", "Tell whether all brokers and partitions are well."),
    },
    help="Look at the cluster and its brokers.",
    examples="""
        kafkapy cluster info
        kafkapy cluster health --wait 30s
        """,
)

BROKER = Shape(
    "Its brokers",
    Column("id", "the node id", "integer"),
    Column("host", "where clients reach it"),
    Column("port", "and at which port", "integer"),
    Column("rack", "the rack it stands in"),
    Column("state", "ready, or fenced while it is not to be used"),
    Column("size", "bytes of all its replicas", "bytes"),
    Column("free", "bytes left where its data is", "bytes"),
    Column("log_dirs", "its data directories", "list", wide=True),
)
INFO = Shape(
    "A cluster",
    Column("cluster_id", "its id"),
    Column("controller", "the broker that requests for the controller go to", "integer"),
    Column("topics", "how many there are, internal ones included", "integer"),
    Column("partitions", "how many they have together", "integer"),
    brokers=BROKER,
)
PROBLEM = Shape(
    "What is wrong",
    Column("subject", "the broker, partition or directory"),
    Column("problem", "what is wrong with it"),
)
HEALTH = Shape(
    "The health of a cluster",
    Column("healthy", "whether nothing is wrong", "boolean"),
    Column("brokers", "how many there are", "integer"),
    Column("partitions", "how many there are", "integer"),
    problems=PROBLEM,
)


@command(
    "info",
    short_help="Show the cluster and its brokers.",
    examples="""
        kafkapy cluster info
        kafkapy cluster info --format json
        """,
)
@output(INFO)
@click.pass_obj
def info(session: Session, out: Output) -> None:
    """Show the cluster and its brokers."""
    from kafkapy.client.admin import describe_cluster

    client = session.client
    found = describe_cluster(client)
    topics = client.metadata().topics
    out.document(
        {
            "cluster_id": found.cluster_id,
            "controller": found.controller_id if found.controller_id >= 0 else None,
            "topics": len(topics),
            "partitions": sum(len(topic.partitions) for topic in topics),
            "brokers": [_broker_row(client, broker) for broker in found.brokers],
        }
    )


def _broker_row(client: Client, broker: BrokerInfo) -> dict[str, Any]:
    from kafkapy.client.admin import describe_log_dirs
    from kafkapy.client.connection import Unreachable

    row: dict[str, Any] = {"id": broker.id, "host": broker.host, "port": broker.port, "rack": broker.rack}
    if broker.fenced:
        return row | {"state": "fenced"}
    try:
        log_dirs = describe_log_dirs(client, broker.id)
    except Unreachable:
        return row | {"state": "unreachable"}
    sound = [log_dir for log_dir in log_dirs if log_dir.error is None]
    # Several directories on one volume have the same room, so the smallest number is the one to rely on.
    free = min((log_dir.usable_bytes for log_dir in sound if log_dir.usable_bytes >= 0), default=None)
    return row | {
        "state": "ready",
        "size": sum(sum(log_dir.sizes.values()) for log_dir in sound),
        "free": free,
        "log_dirs": [log_dir.path for log_dir in log_dirs],
    }


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

    The exit code is 0 if every broker answers, a controller is known, and every partition has a leader and all its replicas in
    sync; otherwise 1. With --wait a cluster that cannot be reached yet is waited for, too.
    """
    from kafkapy.client.connection import Unreachable

    session: Session = ctx.obj
    deadline = time.monotonic() + (wait_s or 0)
    while True:
        try:
            report = _examine(session.client)
        except Unreachable:
            if time.monotonic() >= deadline:
                raise
            report = None
        if report is not None and (report["healthy"] or time.monotonic() >= deadline):
            break
        time.sleep(max(min(WAIT_PAUSE_S, deadline - time.monotonic()), 0))
    out.document(report)
    ctx.exit(0 if report["healthy"] else 1)


def _examine(client: Client) -> dict[str, Any]:
    from kafkapy.client.admin import describe_cluster

    found = describe_cluster(client)
    partitions = client.metadata().topics
    problems = [*_broker_problems(client, found), *_partition_problems(partitions)]
    return {
        "healthy": not problems,
        "brokers": len(found.brokers),
        "partitions": sum(len(topic.partitions) for topic in partitions),
        "problems": [{"subject": subject, "problem": problem} for subject, problem in problems],
    }


def _broker_problems(client: Client, found: ClusterInfo) -> Iterator[tuple[str, str]]:
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


def _partition_problems(topics: list[Any]) -> Iterator[tuple[str, str]]:
    from kafkapy.cli.topic.describe import problem_of

    for topic in topics:
        for partition in topic.partitions:
            problem = problem_of(partition)
            if problem is not None:
                yield f"{topic.name}-{partition.partition_index}", problem
