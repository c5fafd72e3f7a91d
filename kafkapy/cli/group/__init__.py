"""`kafkapy group`: one module per verb."""

from __future__ import annotations

from kafkapy.cli.framework import Entry, Group

group = Group(
    "group",
    {
        "list": Entry("kafkapy.cli.group.list:list_command", "List consumer groups."),
        "describe": Entry("kafkapy.cli.group.describe:describe", "Show groups with their members and their lag."),
        "seek": Entry("kafkapy.cli.group.seek:seek", "Set where a group goes on reading."),
        "delete": Entry("kafkapy.cli.group.delete:delete", "Delete groups that have no members."),
        "offset-delete": Entry("kafkapy.cli.group.offset_delete:offset_delete", "Forget a group's offsets in topics."),
    },
    help="Look at consumer groups, move them, and delete them.",
    examples="""
        kafkapy group list --lag
        kafkapy group describe billing
        kafkapy group seek billing --to @1h --dry-run
        """,
)
