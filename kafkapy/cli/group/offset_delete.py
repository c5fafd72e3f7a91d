"""`kafkapy group offset-delete`."""

from __future__ import annotations

import click

from kafkapy.cli.framework import command
from kafkapy.cli.group.common import topic_option
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.session import Session
from kafkapy.cli.terminal import confirm
from kafkapy.cli.topic.results import MESSAGE, STATUS, TOPIC, outcome, print_results
from kafkapy.cli.txn.common import PARTITION_OPTION

DELETED = Shape(
    "What became of each offset",
    TOPIC,
    Column("partition", "the partition's number", "integer"),
    Column("committed", "the offset that it had", "integer"),
    STATUS,
    MESSAGE,
)


@command(
    "offset-delete",
    short_help="Forget a group's offsets in topics.",
    examples="""
        kafkapy group offset-delete billing -t orders --yes
        kafkapy group offset-delete billing -t orders -p 0 --yes
        """,
)
@click.argument("group")
@topic_option(required=True, help="The topic; may be given again.")
@PARTITION_OPTION
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output(DELETED)
@click.pass_obj
def offset_delete(
    session: Session, group: str, topics: tuple[str, ...], chosen: tuple[int, ...], yes: bool, out: Output
) -> None:
    """Forget a group's offsets in topics.

    The group begins there anew, as auto.offset.reset says. No member may read the topic; others may go on.
    """
    from kafkapy.cli.failures import Failure
    from kafkapy.client.groups import committed_offsets, delete_offsets, describe_group

    describe_group(session.client, group)  # an unknown group is a mistake, not one without offsets
    committed = committed_offsets(session.client, group)
    found = [item for item in sorted(committed) if item.topic in topics and (not chosen or item.partition in chosen)]
    if not found:
        raise Failure(
            f"group {group} has no such offsets", hint=f"`kafkapy group describe {group}` shows those that it has"
        )
    confirm(f"Forget {len(found)} offsets of {group}?", yes)
    results = delete_offsets(session.client, group, found)
    rows = [
        {
            "topic": item.topic,
            "partition": item.partition,
            "committed": committed[item].offset,
            **outcome(results[item], "deleted"),
        }
        for item in found
    ]
    print_results(out, rows, [results[item] for item in found])
