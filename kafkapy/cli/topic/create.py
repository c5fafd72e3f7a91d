"""`kafkapy topic create`."""

from __future__ import annotations

import click

from kafkapy.cli.framework import command
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.session import Session
from kafkapy.cli.topic.results import MESSAGE, STATUS, TOPIC, outcome, print_results
from kafkapy.errors import ErrorCode

CREATED = Shape(
    "What became of each topic",
    TOPIC,
    Column("partitions", "how many it has", "integer"),
    Column("replicas", "copies of each partition", "integer"),
    STATUS,
    MESSAGE,
)


def assignments(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """KEY=VALUE words as a mapping; used by every command that sets configuration."""
    found: dict[str, str] = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r}: write KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


@command(
    "create",
    short_help="Create topics.",
    examples="""
        kafkapy topic create payments
        kafkapy topic create clicks views -p 6
        kafkapy topic create profiles -p 3 -c cleanup.policy=compact -c min.cleanable.dirty.ratio=0.1
        kafkapy topic create orders --if-not-exists
        kafkapy topic create payments -p 3 --dry-run --format json
        """,
)
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option("-p", "--partitions", metavar="N", type=click.IntRange(1), help="How many.  [default: the broker's]")
@click.option("-r", "--replicas", metavar="N", type=click.IntRange(1), help="Copies.  [default: the broker's]")
@click.option(
    "-c",
    "--config",
    "configs",
    metavar="KEY=VALUE",
    multiple=True,
    callback=assignments,
    help="A setting of the topics.",
)
@click.option("--if-not-exists", is_flag=True, help="Leave a topic that exists as it is; that is no error.")
@click.option("--dry-run", is_flag=True, help="Only ask whether it would work.")
@output(CREATED)
@click.pass_obj
def create(
    session: Session,
    topics: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    configs: dict[str, str],
    if_not_exists: bool,
    dry_run: bool,
    out: Output,
) -> None:
    """Create topics.

    A topic is ready for use when the command returns. If only some topics could be created, the exit code is 3.
    """
    from kafkapy.client.admin import NewTopic, create_topics

    wanted = [NewTopic(name, partitions or -1, replicas or -1, configs) for name in dict.fromkeys(topics)]
    rows, errors = [], []
    for result in create_topics(session.client, wanted, validate_only=dry_run):
        error, done = result.error, "would be created" if dry_run else "ok"
        if error is not None and error.code is ErrorCode.TOPIC_ALREADY_EXISTS and if_not_exists:
            error, done = None, "exists"
        errors.append(error)
        rows.append(
            {
                "topic": result.name,
                "partitions": result.partitions if result.partitions >= 0 else None,
                "replicas": result.replicas if result.replicas >= 0 else None,
                **outcome(error, done),
            }
        )
    print_results(out, rows, errors)
