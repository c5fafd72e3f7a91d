"""`kafkapy group describe`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkapy.cli.failures import finish
from kafkapy.cli.framework import command
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.session import Session
from kafkapy.errors import KafkaError

if TYPE_CHECKING:
    from kafkapy.client.client import Client
    from kafkapy.client.groups import Described, Member
    from kafkapy.types import TopicPartition

PARTITION = Shape(
    "The partitions that it has read or that a member has been given",
    Column("topic", "the topic's name"),
    Column("partition", "the partition's number", "integer"),
    Column("committed", "the next offset to read; null if nothing is committed", "integer"),
    Column(
        "end", "the offset that the next record will get; null if the partition is gone or has no leader", "integer"
    ),
    Column("lag", "records between the two", "integer"),
    Column("member_id", "who reads it; null if nobody does"),
    Column("client_id", "that member's own name"),
    Column("metadata", "what was committed along with the offset", wide=True),
)
MEMBER = Shape(
    "Its members",
    Column("member_id", "the member's id"),
    Column("instance_id", "the name that a static member keeps; null for others"),
    Column("client_id", "the name that its client gives itself"),
    Column("host", "where it is"),
    Column("epoch", "its epoch in a consumer group (KIP-848)", "integer", wide=True),
    Column("assignment", "the partitions that it has been given, as topic:partition", "list"),
)
DESCRIBED = Shape(
    "A consumer group",
    Column("group", "its name"),
    Column("coordinator", "the broker that decides about it", "integer"),
    Column("state", "Empty, Stable, or what it is about to do"),
    Column("type", "classic, or consumer (KIP-848)"),
    Column("assignor", "how partitions are given to members"),
    Column("epoch", "its epoch in a consumer group (KIP-848)", "integer"),
    Column("member_count", "how many members it has", "integer"),
    Column("lag", "records that it has still to read; null if it has committed nothing", "integer"),
    partitions=PARTITION,
    members=MEMBER,
)


@command(
    "describe",
    short_help="Show groups with their members and their lag.",
    examples="""
        kafkapy group describe billing
        kafkapy group describe billing audit --format json
        """,
)
@click.argument("groups", metavar="GROUP...", nargs=-1, required=True)
@output(DESCRIBED)
@click.pass_obj
def describe(session: Session, groups: tuple[str, ...], out: Output) -> None:
    """Show groups with their members and their lag.

    Lag counts offsets, so it includes what compaction has removed and the markers of transactions.
    """
    from kafkapy.client.groups import describe_group

    found: list[Described] = []
    errors: list[KafkaError | None] = []
    for name in dict.fromkeys(groups):
        try:
            found.append(describe_group(session.client, name))
            errors.append(None)
        except KafkaError as error:
            errors.append(error)
    out.documents([_row(session.client, one) for one in found])
    finish(errors)


def _row(client: Client, one: Described) -> dict[str, Any]:
    from kafkapy.cli.group.common import end_offsets, lag_of
    from kafkapy.client.groups import committed_offsets

    committed = committed_offsets(client, one.group)
    readers: dict[TopicPartition, Member] = {item: member for member in one.members for item in member.partitions}
    ends = end_offsets(client, {*committed, *readers})
    partitions = []
    for item in sorted({*committed, *readers}):
        place, end, reader = committed.get(item), ends.get(item), readers.get(item)
        partitions.append(
            {
                "topic": item.topic,
                "partition": item.partition,
                "committed": place and place.offset,
                "end": end,
                "lag": None if place is None or end is None else max(end - place.offset, 0),
                "member_id": reader and reader.member_id,
                "client_id": reader and reader.client_id,
                "metadata": place and place.metadata,
            }
        )
    return {
        "group": one.group,
        "coordinator": one.coordinator,
        "state": one.state,
        "type": one.type,
        "assignor": one.assignor or None,
        "epoch": one.epoch if one.epoch >= 0 else None,
        "member_count": len(one.members),
        "lag": lag_of(committed, ends),
        "partitions": partitions,
        "members": [_member_row(member) for member in sorted(one.members, key=lambda one: one.member_id)],
    }


def _member_row(member: Member) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "epoch": member.epoch if member.epoch >= 0 else None,
        "assignment": [f"{item.topic}:{item.partition}" for item in sorted(member.partitions)],
    }
