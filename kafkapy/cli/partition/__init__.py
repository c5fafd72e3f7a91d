"""`kafkapy partition`: one module per verb."""

from __future__ import annotations

from kafkapy.cli.framework import Entry, Group

partition = Group(
    "partition",
    {
        "status": Entry("kafkapy.cli.partition.status:status", "Show where replicas are, and which of them move."),
        "move": Entry("kafkapy.cli.partition.move:move", "Move replicas to other brokers."),
        "elect": Entry("kafkapy.cli.partition.elect:elect", "Elect leaders."),
    },
    help="Look at replicas, move them, and elect leaders.",
    examples="""
        kafkapy partition status orders
        kafkapy partition move orders --spread --dry-run
        kafkapy partition elect orders --preferred
        """,
)
