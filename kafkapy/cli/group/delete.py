"""`kafkapy group delete`."""

from __future__ import annotations

import click

from kafkapy.cli.framework import command
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.session import Session
from kafkapy.cli.terminal import confirm
from kafkapy.cli.topic.results import MESSAGE, STATUS, outcome, print_results

DELETED = Shape("What became of each group", Column("group", "its name"), STATUS, MESSAGE)


@command(
    "delete",
    short_help="Delete groups that have no members.",
    examples="""
        kafkapy group delete billing --yes
        kafkapy group delete billing audit --yes
        """,
)
@click.argument("groups", metavar="GROUP...", nargs=-1, required=True)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output(DELETED)
@click.pass_obj
def delete(session: Session, groups: tuple[str, ...], yes: bool, out: Output) -> None:
    """Delete groups that have no members.

    Their offsets go with them: whoever takes the name again begins as auto.offset.reset says.
    """
    from kafkapy.client.groups import delete_group

    names = list(dict.fromkeys(groups))
    confirm(f"Delete {', '.join(names)} with all offsets?", yes)
    results = {name: delete_group(session.client, name) for name in names}
    rows = [{"group": name, **outcome(error, "deleted")} for name, error in results.items()]
    print_results(out, rows, results.values())
