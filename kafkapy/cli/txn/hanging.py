"""`kafkapy txn hanging`."""

from __future__ import annotations

import time

import click

from kafkapy.cli.framework import command
from kafkapy.cli.output import Output, Shape, output
from kafkapy.cli.session import Session
from kafkapy.cli.terminal import note
from kafkapy.cli.txn.common import OLDER_THAN_DEFAULT, PARTITION_OPTION, duration_ms, partitions_of, row_of
from kafkapy.cli.txn.producers import PRODUCER

HANGING = Shape("A transaction that nobody will end", *PRODUCER.columns)


@command(
    "hanging",
    short_help="Find open transactions that nobody will end.",
    examples="""
        kafkapy txn hanging
        kafkapy txn hanging orders --older-than 1h
        """,
)
@click.argument("topics", metavar="[TOPIC...]", nargs=-1)
@PARTITION_OPTION
@click.option(
    "--older-than",
    metavar="DURATION",
    default=OLDER_THAN_DEFAULT,
    show_default=True,
    callback=duration_ms,
    help="Only where the producer was silent for longer; less than a transaction may last finds some at work.",
)
@output(HANGING)
@click.pass_obj
def hanging(session: Session, topics: tuple[str, ...], chosen: tuple[int, ...], older_than: int, out: Output) -> None:
    """Find open transactions that nobody will end.

    They hold back everybody who reads committed records. `kafkapy txn abort` ends them. Without TOPIC all topics are searched.
    """
    from kafkapy.client.transactions import hanging_transactions

    now_ms = time.time_ns() // 1_000_000
    partitions = partitions_of(session.client, topics, chosen)
    found = hanging_transactions(session.client, partitions, now_ms - older_than)
    out.rows([row_of(*one) for one in found])
    for partition, producer in found:
        note(f"kafkapy txn abort {partition.topic} -p {partition.partition} --start-offset {producer.start_offset}")
