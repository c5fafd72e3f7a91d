"""`kafkapy txn abort`."""

from __future__ import annotations

import click

from kafkapy.cli.failures import Failure
from kafkapy.cli.framework import command
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.session import Session
from kafkapy.cli.terminal import confirm
from kafkapy.cli.txn.common import partitions_of, row_of
from kafkapy.cli.txn.producers import PRODUCER

ABORTED = Shape(
    "The transaction",
    *PRODUCER.columns,
    Column("status", "aborted, or what would be done"),
)


@command(
    "abort",
    short_help="Abort a transaction in one partition.",
    examples="""
        kafkapy txn abort pictures -p 0 --start-offset 0 --dry-run
        kafkapy txn abort pictures -p 0 --start-offset 0 --yes
        """,
)
@click.argument("topic")
@click.option("-p", "--partition", metavar="N", type=click.IntRange(0), required=True, help="The partition.")
@click.option(
    "--start-offset", metavar="OFFSET", type=click.IntRange(0), required=True, help="Where the transaction begins."
)
@click.option("--dry-run", is_flag=True, help="Only tell what would be aborted.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output(ABORTED)
@click.pass_obj
def abort(
    session: Session, topic: str, partition: int, start_offset: int, dry_run: bool, yes: bool, out: Output
) -> None:
    """Abort a transaction in one partition.

    `kafkapy txn hanging` and `kafkapy txn producers --open` tell where transactions begin. Nobody asks the producer or the coordinator: if they
    are alive, only a part of the transaction is aborted. So this is for transactions that hang.
    """
    from kafkapy.client.transactions import abort_transaction, open_transactions

    partitions = partitions_of(session.client, [topic], [partition])
    found = [one for one in open_transactions(session.client, partitions) if one.producer.start_offset == start_offset]
    if not found:
        raise Failure(
            f"no transaction begins at offset {start_offset} of {topic}-{partition}",
            hint=f"`kafkapy txn producers {topic} -p {partition} --open` shows where transactions begin",
        )
    (one,) = found
    if not dry_run:
        confirm(f"Abort the transaction of producer {one.producer.producer_id} in {topic}-{partition}?", yes)
        abort_transaction(session.client, one)
    out.rows([{**row_of(*one), "status": "would be aborted" if dry_run else "aborted"}])
