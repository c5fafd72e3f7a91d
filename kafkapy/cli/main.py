"""The command `kafkapy`. The table names every noun; each is a module that is imported when it is called, not before.

Standard output carries data, standard error everything else. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 some of it failed,
4 no broker answers, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import click

import kafkapy
from kafkapy.cli import failures
from kafkapy.cli.framework import WIDTH, Entry, Group
from kafkapy.cli.session import Session

PROGRAM = "kafkapy"
_COMPLETION_VARIABLE = "_KAFKAPY_COMPLETE"

COMMANDS = {
    "start": Entry("kafkapy.cli.start:start", "Run a broker, or a cluster of them."),
    "format": Entry("kafkapy.cli.format:format_", "Format the data folders of a node."),
    "topic": Entry("kafkapy.cli.topic:topic", "Create, inspect, configure and delete topics."),
    "produce": Entry("kafkapy.cli.produce:produce", "Write records to a topic."),
    "consume": Entry("kafkapy.cli.consume:consume", "Read records from topics."),
    "group": Entry("kafkapy.cli.group:group", "Look at consumer groups, move them, and delete them."),
    "txn": Entry("kafkapy.cli.txn:txn", "Look at transactions, and end those that hang."),
    "cluster": Entry("kafkapy.cli.cluster:cluster", "Look at the cluster and its brokers."),
    "partition": Entry("kafkapy.cli.partition:partition", "Look at replicas, move them, and elect leaders."),
    "archive": Entry("kafkapy.cli.spark:archive", "Copy topics to Parquet files by topic and date, exactly once."),
    "replay": Entry("kafkapy.cli.spark:replay", "Write an archived topic, or a part of it, into a topic."),
    "audit": Entry("kafkapy.cli.spark:audit", "Compare topics with their archive."),
    "transform": Entry(
        "kafkapy.cli.spark:transform", "Turn the events of one topic into those of another, as they come."
    ),
    "split": Entry("kafkapy.cli.spark:split", "Divide a topic into several."),
    "stats": Entry("kafkapy.cli.spark:stats", "Show what goes through topics, window by window."),
    "log": Entry("kafkapy.cli.log:log", "Read and verify a broker's files, without a broker."),
    "wire": Entry("kafkapy.cli.wire:wire", "Check and decode protocol messages."),
}

root = Group(
    PROGRAM,
    COMMANDS,
    help="A broker that speaks the Apache Kafka protocol, and tools for any broker that does.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH},
    examples="""
        kafkapy start
        kafkapy topic create orders -p 3
        echo hello | kafkapy produce orders
        kafkapy consume orders --exit
        """,
)
click.version_option(kafkapy.__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")(root)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    if _COMPLETION_VARIABLE in os.environ:
        root.main(prog_name=PROGRAM)
    session = Session()
    try:
        with root.make_context(PROGRAM, list(sys.argv[1:] if args is None else args), obj=session) as ctx:
            root.invoke(ctx)
        sys.stdout.flush()
        return failures.OK
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        return failures.usage(error)
    except (KeyboardInterrupt, click.Abort):
        return failures.INTERRUPTED
    except BrokenPipeError:
        return failures.close_quietly()
    except Exception as error:  # noqa: BLE001 -- told to the person at the keyboard, with its traceback if wanted
        if session.debug:
            traceback.print_exc()
        return failures.report(error)
    finally:
        session.close()
