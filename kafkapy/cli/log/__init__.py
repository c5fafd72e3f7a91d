"""`kafkapy log`: one module per verb, and `files.py`, which knows the kinds of files."""

from __future__ import annotations

from kafkapy.cli.framework import Entry, Group

log = Group(
    "log",
    {
        "dump": Entry("kafkapy.cli.log.dump:dump", "Show what is in a broker's files."),
        "verify": Entry("kafkapy.cli.log.verify:verify", "Check a broker's files for damage."),
    },
    help="Read and verify a broker's files, without a broker.",
    examples="""
        kafkapy log dump kafkapy-data/orders-0
        kafkapy log verify kafkapy-data
        """,
)
