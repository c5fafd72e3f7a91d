"""`kafkapy partition status`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kafkapy.cli.framework import command
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.partition.select import Wanted, partitions_argument, selected
from kafkapy.cli.session import Session

if TYPE_CHECKING:
    from kafkapy.client.replicas import Move, Replicas

STATUS = Shape(
    "Partitions and their replicas",
    Column("topic", "the topic's name"),
    Column("partition", "the partition's number", "integer"),
    Column("leader", "the broker that leads it; null without a leader", "integer"),
    Column("epoch", "how often the leader has changed", "integer", wide=True),
    Column("replicas", "the brokers that keep it, the preferred leader first", "list"),
    Column("isr", "those of them that are in sync", "list"),
    Column("elr", "those that are not in sync but have everything that was acknowledged, so may lead", "list"),
    Column("last_known_elr", "who could lead at the last time that anybody could", "list", wide=True),
    Column("offline", "those that are not there", "list", wide=True),
    Column("adding", "brokers that it is moving to", "list"),
    Column("removing", "brokers that it is moving away from", "list"),
    Column("problem", "what is wrong with it; null if nothing"),
)


@command(
    "status",
    short_help="Show where replicas are, and which of them move.",
    examples="""
        kafkapy partition status
        kafkapy partition status orders:0,2 users
        kafkapy partition status --moving
        kafkapy partition status --unhealthy --format json
        """,
)
@partitions_argument()
@click.option("--moving", is_flag=True, help="Only partitions that are moving.")
@click.option(
    "--unhealthy", is_flag=True, help="Only partitions without a leader or with replicas that are not in sync."
)
@output(STATUS)
@click.pass_obj
def status(session: Session, wanted: Sequence[Wanted], moving: bool, unhealthy: bool, out: Output) -> None:
    """Show where replicas are, and which of them move.

    Without a topic all partitions are shown, those of internal topics too. PARTITIONS are numbers and ranges: orders:0,2 or orders:0-3.
    """
    from kafkapy.client.replicas import list_moves

    found = selected(session.client, wanted)
    moves = list_moves(session.client)
    rows = [_row(one, moves.get(one.partition)) for one in found]
    if moving:
        rows = [row for row in rows if row["adding"] or row["removing"]]
    if unhealthy:
        rows = [row for row in rows if row["problem"]]
    out.rows(rows)


def _row(one: Replicas, move: Move | None) -> dict[str, Any]:
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "leader": one.leader if one.leader >= 0 else None,
        "epoch": one.epoch,
        "replicas": one.replicas,
        "isr": one.isr,
        "elr": one.elr or (),
        "last_known_elr": one.last_known_elr or (),
        "offline": one.offline,
        "adding": move.adding if move else (),
        "removing": move.removing if move else (),
        "problem": problem_of(one, move),
    }


def problem_of(one: Replicas, move: Move | None = None) -> str | None:
    """What is wrong with a partition, the worst first. A replica that is still being copied is no problem."""
    if one.leader < 0:
        waiting = [replica for replica in one.elr or one.last_known_elr or one.isr if replica in one.replicas]
        return f"no leader; waits for broker {' or '.join(map(str, waiting))}" if waiting else "no leader"
    expected = [replica for replica in one.replicas if move is None or replica not in move.adding]
    missing = [replica for replica in expected if replica not in one.isr]
    return f"{len(missing)} of {len(expected)} replicas not in sync" if missing else None
