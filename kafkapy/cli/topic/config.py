"""`kafkapy topic config`: get, set, unset."""

from __future__ import annotations

from collections.abc import Mapping

import click

from kafkapy.cli.framework import Entry, Group, command, topic_argument
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.session import Session
from kafkapy.cli.topic.create import assignments
from kafkapy.cli.topic.results import MESSAGE, STATUS, TOPIC, outcome, print_results

SETTINGS = Shape(
    "The settings of a topic",
    Column("key", "the name"),
    Column("value", "the value; null for a secret"),
    Column("source", "where the value comes from: topic, broker, cluster, file or default"),
    Column("type", "the type of the value", wide=True),
    Column("help", "what it does", wide=True),
)
CHANGED = Shape("What became of each topic", TOPIC, STATUS, MESSAGE)


class _ConfigGroup(Group):
    """Takes the topic before the verb, too: `topic config orders get`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if len(args) > 1 and args[0] not in self.table and args[1] in self.table:
            args = [args[1], args[0], *args[2:]]
        return super().parse_args(ctx, args)


config = _ConfigGroup(
    "config",
    {
        "get": Entry("kafkapy.cli.topic.config:get", "Show the settings of a topic."),
        "set": Entry("kafkapy.cli.topic.config:set_", "Change settings of topics."),
        "unset": Entry("kafkapy.cli.topic.config:unset", "Take settings of topics back to their default."),
    },
    help="Read and change the settings of topics.",
    examples="""
        kafkapy topic config get orders
        kafkapy topic config set orders retention.ms=3600000
        """,
)


@command(
    "get",
    short_help="Show the settings of a topic.",
    examples="""
        kafkapy topic config get orders
        kafkapy topic config get orders retention.ms cleanup.policy
        kafkapy topic config get orders --all --format wide
        """,
)
@topic_argument("topic")
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@click.option("-a", "--all", "everything", is_flag=True, help="Settings at their default, too.")
@output(SETTINGS)
@click.pass_obj
def get(session: Session, topic: str, keys: tuple[str, ...], everything: bool, out: Output) -> None:
    """Show the settings of a topic.

    Without a KEY those that have been set for the topic. The wide format explains each.
    """
    from kafkapy.client.admin import TOPIC as TOPIC_RESOURCE
    from kafkapy.client.admin import describe_configs

    entries = describe_configs(session.client, TOPIC_RESOURCE, topic, documentation=True)
    unknown = sorted(set(keys) - {entry.name for entry in entries})
    if unknown:
        raise click.UsageError(f"topics have no setting {', '.join(unknown)}; `--all` shows those that there are")
    out.rows(
        [
            {
                "key": entry.name,
                "value": entry.value,
                "source": entry.source,
                "type": entry.type,
                "help": entry.documentation,
            }
            for entry in entries
            if (entry.name in keys if keys else everything or entry.source == "topic")
        ]
    )


@command(
    "set",
    short_help="Change settings of topics.",
    examples="""
        kafkapy topic config set orders retention.ms=3600000 segment.bytes=1048576
        kafkapy topic config set orders cleanup.policy=compact,delete
        """,
)
@topic_argument("topic")
@click.argument("changes", metavar="KEY=VALUE...", nargs=-1, required=True, callback=assignments)
@click.option("--dry-run", is_flag=True, help="Only ask whether it would work.")
@output(CHANGED)
@click.pass_obj
def set_(session: Session, topic: str, changes: dict[str, str], dry_run: bool, out: Output) -> None:
    """Change settings of topics.

    They take effect at once. TOPIC may be several, separated by commas.
    """
    _alter(session, topic, changes, dry_run, out)


@command(
    "unset",
    short_help="Take settings of topics back to their default.",
    examples="""
        kafkapy topic config unset orders retention.ms
        """,
)
@topic_argument("topic")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Only ask whether it would work.")
@output(CHANGED)
@click.pass_obj
def unset(session: Session, topic: str, keys: tuple[str, ...], dry_run: bool, out: Output) -> None:
    """Take settings of topics back to their default.

    TOPIC may be several, separated by commas.
    """
    _alter(session, topic, dict.fromkeys(keys), dry_run, out)


def _alter(session: Session, topics: str, changes: Mapping[str, str | None], dry_run: bool, out: Output) -> None:
    from kafkapy.client.admin import TOPIC as TOPIC_RESOURCE
    from kafkapy.client.admin import alter_configs

    names = [name for name in topics.split(",") if name]
    results = alter_configs(session.client, TOPIC_RESOURCE, names, changes, validate_only=dry_run)
    done = "would be changed" if dry_run else "ok"
    rows = [{"topic": result.name, **outcome(result.error, done)} for result in results]
    print_results(out, rows, [result.error for result in results])
