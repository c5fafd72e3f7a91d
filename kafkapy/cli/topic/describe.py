"""`kafkapy topic describe`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkapy.cli.framework import command, topic_argument
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.session import Session
from kafkapy.cli.topic.select import regex_option, topic_names
from kafkapy.wire.json_form import uuid_text

if TYPE_CHECKING:
    from kafkapy.client.client import Client
    from kafkapy.wire.messages.metadata import MetadataResponsePartition

PARTITION = Shape(
    "Its partitions",
    Column("partition", "its number", "integer"),
    Column("leader", "the broker that leads it; null without a leader", "integer"),
    Column("epoch", "how often the leader has changed", "integer", wide=True),
    Column("replicas", "the brokers that keep it", "list"),
    Column("isr", "those of them that are in sync", "list"),
    Column("offline", "those of them that are not there", "list", wide=True),
    Column("start", "offset of the first record", "integer"),
    Column("end", "offset of the next record", "integer"),
    Column("problem", "what is wrong with it; null if nothing"),
)
CONFIG = Shape(
    "Its settings: those that differ from the default, or all",
    Column("key", "the name"),
    Column("value", "the value; null for a secret"),
    Column("source", "where the value comes from: topic, broker, cluster, file or default"),
)
DESCRIPTION = Shape(
    "A topic",
    Column("topic", "its name"),
    Column("id", "its id"),
    Column("partition_count", "how many partitions it has", "integer"),
    Column("replicas", "copies of each partition", "integer"),
    Column("internal", "whether it belongs to the broker", "boolean"),
    configs=CONFIG,
    partitions=PARTITION,
)


@command(
    "describe",
    short_help="Show topics with their partitions and settings.",
    examples="""
        kafkapy topic describe orders
        kafkapy topic describe orders --configs --all
        kafkapy topic describe '.*' --regex --unhealthy
        kafkapy topic describe orders --format json
        """,
)
@topic_argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@regex_option
@click.option("-s", "--summary", is_flag=True, help="Only the first lines.")
@click.option("-p", "--partitions", "only_partitions", is_flag=True, help="Only the partitions.")
@click.option("-c", "--configs", "only_configs", is_flag=True, help="Only the settings.")
@click.option("-a", "--all", "all_configs", is_flag=True, help="All settings, those at their default too.")
@click.option("--unhealthy", is_flag=True, help="Only partitions without a leader or with replicas missing.")
@output(DESCRIPTION)
@click.pass_obj
def describe(
    session: Session,
    topics: tuple[str, ...],
    regex: bool,
    summary: bool,
    only_partitions: bool,
    only_configs: bool,
    all_configs: bool,
    unhealthy: bool,
    out: Output,
) -> None:
    """Show topics with their partitions and settings."""
    client = session.client
    shown = {
        name
        for name, chosen in (
            ("summary", summary),
            ("partitions", only_partitions or unhealthy),
            ("configs", only_configs),
        )
        if chosen
    } or {"summary", "partitions", "configs"}
    rows = []
    for name in topic_names(client, topics, regex):
        row = _describe(client, name, shown, all_configs)
        if unhealthy:
            row["partitions"] = [partition for partition in row["partitions"] if partition["problem"]]
            if not row["partitions"] and regex:
                continue
        rows.append(row)
    out.documents(rows)


def _describe(client: Client, name: str, shown: set[str], all_configs: bool) -> dict[str, Any]:
    found = client.topic(name)
    row: dict[str, Any] = {"topic": name}
    if "summary" in shown:
        row |= {
            "id": uuid_text(found.topic_id),
            "partition_count": len(found.partitions),
            "replicas": max((len(partition.replica_nodes) for partition in found.partitions), default=0),
            "internal": found.is_internal,
        }
    if "configs" in shown:
        row["configs"] = _configs(client, name, all_configs)
    if "partitions" in shown:
        row["partitions"] = _partitions(client, name, found.partitions)
    return row


def _configs(client: Client, name: str, everything: bool) -> list[dict[str, Any]]:
    from kafkapy.client.admin import TOPIC, describe_configs

    return [
        {"key": entry.name, "value": entry.value, "source": entry.source}
        for entry in describe_configs(client, TOPIC, name)
        if everything or entry.source == "topic"
    ]


def _partitions(client: Client, name: str, partitions: list[MetadataResponsePartition]) -> list[dict[str, Any]]:
    from kafkapy.client.offsets import END, START, list_offsets
    from kafkapy.types import TopicPartition

    led = [TopicPartition(name, row.partition_index) for row in partitions if row.leader_id >= 0]
    starts, _ = list_offsets(client, dict.fromkeys(led, START))
    ends, _ = list_offsets(client, dict.fromkeys(led, END))
    rows = []
    for row in partitions:
        key = TopicPartition(name, row.partition_index)
        rows.append(
            {
                "partition": row.partition_index,
                "leader": row.leader_id if row.leader_id >= 0 else None,
                "epoch": row.leader_epoch,
                "replicas": row.replica_nodes,
                "isr": row.isr_nodes,
                "offline": row.offline_replicas,
                "start": starts[key].offset if key in starts else None,
                "end": ends[key].offset if key in ends else None,
                "problem": problem_of(row),
            }
        )
    return rows


def problem_of(partition: MetadataResponsePartition) -> str | None:
    """What is wrong with a partition, the worst first."""
    if partition.leader_id < 0:
        return "no leader"
    missing = len(partition.replica_nodes) - len(partition.isr_nodes)
    return f"{missing} of {len(partition.replica_nodes)} replicas not in sync" if missing > 0 else None
