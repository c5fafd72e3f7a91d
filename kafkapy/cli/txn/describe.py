"""`kafkapy txn describe`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from kafkapy.cli.failures import finish
from kafkapy.cli.framework import command
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.session import Session
from kafkapy.cli.txn.common import moment
from kafkapy.errors import KafkaError

if TYPE_CHECKING:
    from kafkapy.client.transactions import Described

PARTITION = Shape(
    "The partitions of its open transaction",
    Column("topic", "the topic's name"),
    Column("partition", "the partition's number", "integer"),
)
DESCRIBED = Shape(
    "A transactional id",
    Column("transactional_id", "the name that its producers have in common"),
    Column("coordinator", "the broker that decides about it", "integer"),
    Column("producer_id", "the producer id that it has now", "integer"),
    Column("epoch", "the epoch that its producer has now", "integer"),
    Column("state", "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit or CompleteAbort"),
    Column("timeout_ms", "how long a transaction may stay open", "integer"),
    Column("started", "when the open or last transaction began; null if none did"),
    Column("open_ms", "how long the transaction has been open; null without one", "integer"),
    partitions=PARTITION,
)


@command(
    "describe",
    short_help="Show transactional ids with their transactions.",
    examples="""
        kafkapy txn describe payments
        kafkapy txn describe payments --format json
        """,
)
@click.argument("transactional_ids", metavar="TRANSACTIONAL-ID...", nargs=-1, required=True)
@output(DESCRIBED)
@click.pass_obj
def describe(session: Session, transactional_ids: tuple[str, ...], out: Output) -> None:
    """Show transactional ids with their transactions."""
    from kafkapy.client.transactions import describe_transactions

    results = describe_transactions(session.client, list(dict.fromkeys(transactional_ids))).values()
    now_ms = time.time_ns() // 1_000_000
    out.documents([_row(one, now_ms) for one in results if not isinstance(one, KafkaError)])
    finish(one if isinstance(one, KafkaError) else None for one in results)


def _row(one: Described, now_ms: int) -> dict[str, Any]:
    is_open = bool(one.partitions)
    return {
        "transactional_id": one.transactional_id,
        "coordinator": one.coordinator,
        "producer_id": one.producer_id,
        "epoch": one.producer_epoch,
        "state": one.state,
        "timeout_ms": one.timeout_ms,
        "started": moment(one.start_ms),
        "open_ms": max(now_ms - one.start_ms, 0) if is_open else None,
        "partitions": [{"topic": item.topic, "partition": item.partition} for item in one.partitions],
    }
