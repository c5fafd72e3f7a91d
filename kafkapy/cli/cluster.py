"""`kafkapy cluster`, and `kafkapy cluster info`: who is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkapy.cli.framework import Entry, Group, command
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.session import Session

if TYPE_CHECKING:
    from kafkapy.client.admin import BrokerInfo
    from kafkapy.client.client import Client

cluster = Group(
    "cluster",
    {
        "info": Entry("kafkapy.cli.cluster:info", "Show the cluster and its brokers."),
        "health": Entry("kafkapy.cli.cluster_health:health", "Tell whether all brokers and partitions are well."),
        "quorum": Entry(
            "kafkapy.cli.cluster_quorum:quorum", "Show the metadata quorum: who leads, who follows how far."
        ),
    },
    help="Look at the cluster and its brokers.",
    examples="""
        kafkapy cluster info
        kafkapy cluster health --wait 30s
        kafkapy cluster quorum
        """,
)

BROKER = Shape(
    "Its brokers",
    Column("id", "the node id", "integer"),
    Column("host", "where clients reach it"),
    Column("port", "and at which port", "integer"),
    Column("rack", "the rack it stands in"),
    Column("state", "ready, or fenced while it is not to be used"),
    Column("size", "bytes of all its replicas", "bytes"),
    Column("free", "bytes left where its data is", "bytes"),
    Column("log_dirs", "its data directories", "list", wide=True),
)
INFO = Shape(
    "A cluster",
    Column("cluster_id", "its id"),
    Column("controller", "the broker that requests for the controller go to", "integer"),
    Column("topics", "how many there are, internal ones included", "integer"),
    Column("partitions", "how many they have together", "integer"),
    brokers=BROKER,
)


@command(
    "info",
    short_help="Show the cluster and its brokers.",
    examples="""
        kafkapy cluster info
        kafkapy cluster info --format json
        """,
)
@output(INFO)
@click.pass_obj
def info(session: Session, out: Output) -> None:
    """Show the cluster and its brokers."""
    from kafkapy.client.admin import describe_cluster

    client = session.client
    found = describe_cluster(client)
    topics = client.metadata().topics
    out.document(
        {
            "cluster_id": found.cluster_id,
            "controller": found.controller_id if found.controller_id >= 0 else None,
            "topics": len(topics),
            "partitions": sum(len(topic.partitions) for topic in topics),
            "brokers": [_broker_row(client, broker) for broker in found.brokers],
        }
    )


def _broker_row(client: Client, broker: BrokerInfo) -> dict[str, Any]:
    from kafkapy.client.admin import describe_log_dirs
    from kafkapy.client.connection import Unreachable

    row: dict[str, Any] = {"id": broker.id, "host": broker.host, "port": broker.port, "rack": broker.rack}
    if broker.fenced:
        return row | {"state": "fenced"}
    try:
        log_dirs = describe_log_dirs(client, broker.id)
    except Unreachable:
        return row | {"state": "unreachable"}
    sound = [log_dir for log_dir in log_dirs if log_dir.error is None]
    # Several directories on one volume have the same room, so the smallest number is the one to rely on.
    free = min((log_dir.usable_bytes for log_dir in sound if log_dir.usable_bytes >= 0), default=None)
    return row | {
        "state": "ready",
        "size": sum(sum(log_dir.sizes.values()) for log_dir in sound),
        "free": free,
        "log_dirs": [log_dir.path for log_dir in log_dirs],
    }
