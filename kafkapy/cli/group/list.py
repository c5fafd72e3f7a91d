"""`kafkapy group list`."""

from __future__ import annotations

import click

from kafkapy.cli.framework import command
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.session import Session

STATES = ("Empty", "Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead")
TYPES = ("classic", "consumer", "share", "streams")

LISTED = Shape(
    "A consumer group",
    Column("group", "its name"),
    Column("coordinator", "the broker that decides about it", "integer"),
    Column("state", "Empty, Stable, or what it is about to do"),
    Column("type", "classic, consumer (KIP-848), share or streams"),
    Column("protocol_type", "what its members agree on: consumer, connect ...", wide=True),
    Column("lag", "with --lag: records that it has still to read; null if it has committed nothing", "integer"),
)


@command(
    "list",
    short_help="List consumer groups.",
    examples="""
        kafkapy group list
        kafkapy group list --lag
        kafkapy group list --state Empty --type classic --format json
        """,
)
@click.option("--lag", "with_lag", is_flag=True, help="Also count the records that each group has still to read.")
@click.option(
    "-s",
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    help="Only in this state, or one of these.",
)
@click.option(
    "--type",
    "types",
    type=click.Choice(TYPES, case_sensitive=False),
    multiple=True,
    help="Only of this type, or one of these.",
)
@output(LISTED)
@click.pass_obj
def list_command(
    session: Session, with_lag: bool, states: tuple[str, ...], types: tuple[str, ...], out: Output
) -> None:
    """List consumer groups.

    Every broker is asked for those that it coordinates.
    """
    from kafkapy.cli.group.common import end_offsets, lag_of
    from kafkapy.client.groups import committed_offsets, list_groups

    groups = list_groups(session.client, states=states, types=types)
    rows = [one._asdict() for one in groups]
    if with_lag:
        committed = [committed_offsets(session.client, one.group) for one in groups]
        ends = end_offsets(session.client, {partition for places in committed for partition in places})
        for row, places in zip(rows, committed, strict=True):
            row["lag"] = lag_of(places, ends)
    out.rows(rows)
