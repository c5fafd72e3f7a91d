"""`kafkapy txn`: one module per verb."""

from __future__ import annotations

from kafkapy.cli.framework import Entry, Group

txn = Group(
    "txn",
    {
        "list": Entry("kafkapy.cli.txn.list:list_command", "List transactional ids and their states."),
        "describe": Entry("kafkapy.cli.txn.describe:describe", "Show transactional ids with their transactions."),
        "producers": Entry("kafkapy.cli.txn.producers:producers", "Show the producers that partitions remember."),
        "hanging": Entry("kafkapy.cli.txn.hanging:hanging", "Find open transactions that nobody will end."),
        "abort": Entry("kafkapy.cli.txn.abort:abort", "Abort a transaction in one partition."),
    },
    help="Look at transactions, and end those that hang.",
    examples="""
        kafkapy txn list --state Ongoing
        kafkapy txn describe payments
        kafkapy txn hanging
        """,
)
