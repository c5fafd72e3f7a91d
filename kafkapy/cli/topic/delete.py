"""`kafkapy topic delete`."""

from __future__ import annotations

import click

from kafkapy.cli.framework import command, topic_argument
from kafkapy.cli.output import Output, Shape, output
from kafkapy.cli.session import Session
from kafkapy.cli.terminal import confirm
from kafkapy.cli.topic.results import MESSAGE, STATUS, TOPIC, outcome, print_results
from kafkapy.cli.topic.select import regex_option, topic_names

DELETED = Shape("What became of each topic", TOPIC, STATUS, MESSAGE)

_NAMED_MAX = 10


@command(
    "delete",
    short_help="Delete topics with everything in them.",
    examples="""
        kafkapy topic delete orders --yes
        kafkapy topic delete 'ord.*' --regex --yes
        """,
)
@topic_argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@regex_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output(DELETED)
@click.pass_obj
def delete(session: Session, topics: tuple[str, ...], regex: bool, yes: bool, out: Output) -> None:
    """Delete topics with everything in them.

    Asks first at a terminal; elsewhere --yes must say so. A regular expression never means internal topics.
    """
    from kafkapy.client.admin import delete_topics

    names = topic_names(session.client, topics, regex)
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    confirm(f"Delete {', '.join(names[:_NAMED_MAX])}{more} with all records?", yes)
    results = delete_topics(session.client, names)
    rows = [{"topic": result.name, **outcome(result.error, "deleted")} for result in results]
    print_results(out, rows, [result.error for result in results])
