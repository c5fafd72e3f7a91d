"""`kafkapy topic`: one module per verb."""

from __future__ import annotations

from kafkapy.cli.framework import Entry, Group

topic = Group(
    "topic",
    {
        "create": Entry("kafkapy.cli.topic.create:create", "Create topics."),
        "list": Entry("kafkapy.cli.topic.list:list_topics", "List topics."),
        "describe": Entry("kafkapy.cli.topic.describe:describe", "Show topics with their partitions and settings."),
        "config": Entry("kafkapy.cli.topic.config:config", "Read and change the settings of topics."),
        "grow": Entry("kafkapy.cli.topic.grow:grow", "Give topics more partitions."),
        "delete": Entry("kafkapy.cli.topic.delete:delete", "Delete topics with everything in them."),
        "trim": Entry("kafkapy.cli.topic.trim:trim", "Delete the oldest records of a topic."),
    },
    help="Create, inspect, configure and delete topics.",
    examples="""
        kafkapy topic create orders -p 3 -c retention.ms=86400000
        kafkapy topic describe orders
        kafkapy topic config set orders cleanup.policy=compact
        """,
)
