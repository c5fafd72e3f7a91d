"""`kafkapy txn producers`."""

from __future__ import annotations

import click

from kafkapy.cli.failures import finish
from kafkapy.cli.framework import command
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.session import Session
from kafkapy.cli.txn.common import PARTITION_OPTION, partitions_of, row_of

PRODUCER = Shape(
    "A producer in a partition",
    Column("topic", "the topic's name"),
    Column("partition", "the partition's number", "integer"),
    Column("producer_id", "its producer id", "integer"),
    Column("epoch", "its epoch", "integer"),
    Column("last_sequence", "the sequence of its last record; null after a marker", "integer"),
    Column("last_write", "the time of its last batch"),
    Column("coordinator_epoch", "of the coordinator that marked last; -1 if none has", "integer", wide=True),
    Column("start_offset", "where its open transaction begins; null without one", "integer"),
)


@command(
    "producers",
    short_help="Show the producers that partitions remember.",
    examples="""
        kafkapy txn producers pictures
        kafkapy txn producers pictures orders --open
        kafkapy txn producers orders -p 0 --format json
        """,
)
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@PARTITION_OPTION
@click.option("--open", "only_open", is_flag=True, help="Only producers with an open transaction.")
@output(PRODUCER)
@click.pass_obj
def producers(session: Session, topics: tuple[str, ...], chosen: tuple[int, ...], only_open: bool, out: Output) -> None:
    """Show the producers that partitions remember.

    Idempotent producers are among them, with or without transactions.
    """
    from kafkapy.client.transactions import describe_producers

    partitions = partitions_of(session.client, topics, chosen)
    found, failed = describe_producers(session.client, partitions)
    out.rows(
        [
            row_of(partition, producer)
            for partition in sorted(found)
            for producer in sorted(found[partition])
            if producer.start_offset >= 0 or not only_open
        ]
    )
    finish(failed.get(partition) for partition in partitions)
