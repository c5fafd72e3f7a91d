"""`kafkapy txn list`."""

from __future__ import annotations

import click

from kafkapy.cli.framework import command
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.session import Session
from kafkapy.cli.txn.common import duration_ms

LISTED = Shape(
    "A transactional id",
    Column("transactional_id", "the name that its producers have in common"),
    Column("coordinator", "the broker that decides about it", "integer"),
    Column("producer_id", "the producer id that it has now", "integer"),
    Column("state", "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit or CompleteAbort"),
)


@command(
    "list",
    short_help="List transactional ids and their states.",
    examples="""
        kafkapy txn list
        kafkapy txn list --state Ongoing --longer-than 5m
        kafkapy txn list --match 'pay.*' --format json
        """,
)
@click.option("-s", "--state", "states", metavar="STATE", multiple=True, help="Only in this state, or one of these.")
@click.option("--producer-id", "producer_ids", metavar="N", type=int, multiple=True, help="Only with this producer id.")
@click.option("--longer-than", metavar="DURATION", callback=duration_ms, help="Only what began longer ago: 90s, 15m.")
@click.option(
    "-m", "--match", "pattern", metavar="REGEX", help="Only ids that match as a whole; the broker's RE2 syntax."
)
@output(LISTED)
@click.pass_obj
def list_command(
    session: Session,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than: int | None,
    pattern: str | None,
    out: Output,
) -> None:
    """List transactional ids and their states.

    Every filter that is given must match. States are Kafka's names, such as Ongoing.
    """
    from kafkapy.client.transactions import list_transactions

    try:
        found = list_transactions(
            session.client,
            states=states,
            producer_ids=producer_ids,
            longer_than_ms=-1 if longer_than is None else longer_than,
            pattern=pattern,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    out.rows([one._asdict() for one in found])
