"""`kafkapy topic grow`."""

from __future__ import annotations

import click

from kafkapy.cli.framework import command, topic_argument
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.session import Session
from kafkapy.cli.topic.results import MESSAGE, STATUS, TOPIC, outcome, print_results

GROWN = Shape(
    "What became of each topic", TOPIC, Column("partitions", "how many it was to have", "integer"), STATUS, MESSAGE
)


@command(
    "grow",
    short_help="Give topics more partitions.",
    examples="""
        kafkapy topic grow orders --to 12
        kafkapy topic grow orders users --to 6 --dry-run
        """,
)
@topic_argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "--to", "total", metavar="N", type=click.IntRange(1), required=True, help="How many it shall have in all."
)
@click.option("--dry-run", is_flag=True, help="Only ask whether it would work.")
@output(GROWN)
@click.pass_obj
def grow(session: Session, topics: tuple[str, ...], total: int, dry_run: bool, out: Output) -> None:
    """Give topics more partitions.

    Records with a key go to other partitions from then on; those that are there stay where they are. Partitions cannot be
    taken away.
    """
    from kafkapy.client.admin import create_partitions

    results = create_partitions(session.client, dict.fromkeys(topics, total), validate_only=dry_run)
    done = "would grow" if dry_run else "ok"
    rows = [
        {"topic": result.name, "partitions": result.partitions, **outcome(result.error, done)} for result in results
    ]
    print_results(out, rows, [result.error for result in results])
