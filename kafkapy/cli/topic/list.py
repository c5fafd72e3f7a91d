"""`kafkapy topic list`."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from kafkapy.cli.framework import command
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.session import Session
from kafkapy.wire.json_form import uuid_text

if TYPE_CHECKING:
    from kafkapy.client.client import Client
    from kafkapy.wire.messages.metadata import MetadataResponseTopic

TOPICS = Shape(
    "The topics of the cluster",
    Column("topic", "its name"),
    Column("partitions", "how many it has", "integer"),
    Column("replicas", "copies of each partition", "integer"),
    Column("size", "bytes on all brokers; with --size", "bytes"),
    Column("rate", "records written per second; with --rate", "number"),
    Column("internal", "whether it belongs to the broker", "boolean", wide=True),
    Column("id", "its id", wide=True),
)


@command(
    "list",
    short_help="List topics.",
    examples="""
        kafkapy topic list
        kafkapy topic list 'ord.*' --size
        kafkapy topic list --internal --format json
        """,
)
@click.argument("patterns", metavar="[PATTERN]...", nargs=-1)
@click.option("-i", "--internal", is_flag=True, help="Show the broker's own topics, too.")
@click.option("--size", is_flag=True, help="Show how many bytes each topic takes on all brokers.")
@click.option(
    "--rate",
    metavar="[SECONDS]",
    type=click.FloatRange(0, min_open=True),
    is_flag=False,
    flag_value=1.0,
    help="Watch for so long how many records are written.  [default: 1]",
)
@output(TOPICS)
@click.pass_obj
def list_topics(
    session: Session, patterns: tuple[str, ...], internal: bool, size: bool, rate: float | None, out: Output
) -> None:
    """List topics.

    A PATTERN is a regular expression for whole names; without one all topics are listed.
    """
    from kafkapy.cli.topic.select import topic_names

    client = session.client
    topics = {topic.name: topic for topic in client.metadata().topics if topic.name}
    if patterns:
        names = topic_names(client, patterns, True, internal=internal)
    else:
        names = sorted(name for name, topic in topics.items() if internal or not topic.is_internal)
    chosen = [topics[name] for name in names if name in topics]
    rows = [_row(topic) for topic in chosen]
    if size:
        sizes = _sizes(client)
        for row in rows:
            row["size"] = sizes[row["topic"]]
    if rate is not None:
        rates = _rates(client, chosen, rate)
        for row in rows:
            row["rate"] = rates[row["topic"]]
    out.rows(rows)


def _row(topic: MetadataResponseTopic) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replicas": max((len(partition.replica_nodes) for partition in topic.partitions), default=0),
        "internal": topic.is_internal,
        "id": uuid_text(topic.topic_id),
    }


def _sizes(client: Client) -> Counter[str]:
    from kafkapy.client.admin import describe_cluster, describe_log_dirs

    sizes: Counter[str] = Counter()
    for broker in describe_cluster(client).brokers:
        if not broker.fenced:
            for log_dir in describe_log_dirs(client, broker.id):
                for partition, size in log_dir.sizes.items():
                    sizes[partition.topic] += size
    return sizes


def _rates(client: Client, topics: list[MetadataResponseTopic], seconds: float) -> dict[str, float]:
    """Records per second, from the ends of all partitions now and a while later."""
    from kafkapy.client.offsets import END, list_offsets
    from kafkapy.types import TopicPartition

    questions = {
        TopicPartition(topic.name or "", partition.partition_index): END
        for topic in topics
        for partition in topic.partitions
    }
    before, _ = list_offsets(client, questions)
    began = time.monotonic()
    time.sleep(seconds)
    after, _ = list_offsets(client, questions)
    passed = time.monotonic() - began
    written: Counter[str] = Counter()
    for partition, found in after.items():
        if partition in before:
            written[partition.topic] += found.offset - before[partition].offset
    return {topic.name or "": written[topic.name or ""] / passed for topic in topics}
