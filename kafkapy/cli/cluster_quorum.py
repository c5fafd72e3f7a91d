"""`kafkapy cluster quorum`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkapy.cli.framework import command
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.session import Session
from kafkapy.wire.json_form import uuid_text

if TYPE_CHECKING:
    from kafkapy.client.replicas import Quorum, QuorumReplica

NODE = Shape(
    "The nodes that have the metadata log",
    Column("node", "the node id", "integer"),
    Column("role", "leader, voter, or observer: a broker that reads the log and has no vote"),
    Column("log_end", "the offset after its last record", "integer"),
    Column("lag", "how many records the leader has more; null if it has not been heard of", "integer"),
    Column("fetched_ms_ago", "how long before the leader's own time it asked last", "integer"),
    Column("caught_up_ms_ago", "how long before the leader's own time it had everything", "integer"),
    Column("directory_id", "the id of the directory with its metadata log", wide=True),
)
QUORUM = Shape(
    "The metadata quorum",
    Column("leader", "the node that decides", "integer"),
    Column("epoch", "how often a leader was elected, or tried", "integer"),
    Column("high_watermark", "the offset up to which a majority has the log", "integer"),
    Column("voters", "the nodes that vote", "list"),
    Column("observers", "brokers that have no vote", "list"),
    nodes=NODE,
)


@command(
    "quorum",
    short_help="Show the metadata quorum: who leads, who follows how far.",
    examples="""
        kafkapy cluster quorum
        kafkapy cluster quorum --format json
        """,
)
@output(QUORUM)
@click.pass_obj
def quorum(session: Session, out: Output) -> None:
    """Show the metadata quorum: who leads, who follows how far.

    The exit code is 1 if no leader is known within the time that -X request.timeout.ms allows.
    """
    from kafkapy.client.replicas import describe_quorum

    found = describe_quorum(session.client)
    out.document(
        {
            "leader": found.leader if found.leader >= 0 else None,
            "epoch": found.epoch,
            "high_watermark": found.high_watermark,
            "voters": [replica.node for replica in found.voters],
            "observers": [replica.node for replica in found.observers],
            "nodes": [
                *(_row(found, replica, "voter") for replica in found.voters),
                *(_row(found, replica, "observer") for replica in found.observers),
            ],
        }
    )


def _row(found: Quorum, replica: QuorumReplica, role: str) -> dict[str, Any]:
    everybody = [*found.voters, *found.observers]
    log_end = max((other.log_end for other in everybody if other.node == found.leader), default=found.high_watermark)
    # The leader's own row carries the time of the answer, and the clock of this machine may be another one.
    now_ms = max((other.last_fetch_ms for other in everybody), default=-1)
    is_known = replica.log_end >= 0
    return {
        "node": replica.node,
        "role": "leader" if replica.node == found.leader else role,
        "log_end": replica.log_end if is_known else None,
        "lag": max(log_end - replica.log_end, 0) if is_known else None,
        "fetched_ms_ago": now_ms - replica.last_fetch_ms if replica.last_fetch_ms >= 0 else None,
        "caught_up_ms_ago": now_ms - replica.last_caught_up_ms if replica.last_caught_up_ms >= 0 else None,
        "directory_id": uuid_text(replica.directory_id),
    }
