"""`kafkapy partition elect`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from kafkapy.cli.failures import finish
from kafkapy.cli.framework import command
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.partition.select import Wanted, partitions_argument, selected
from kafkapy.cli.session import Session
from kafkapy.cli.terminal import confirm, note
from kafkapy.cli.topic.results import MESSAGE
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.types import TopicPartition

ELECTED = Shape(
    "What became of each partition",
    Column("topic", "the topic's name"),
    Column("partition", "the partition's number", "integer"),
    Column("leader", "the broker that leads it now; null without a leader", "integer"),
    Column("status", "elected, not needed, or the name of Kafka's error"),
    MESSAGE,
)


@command(
    "elect",
    short_help="Elect leaders.",
    examples="""
        kafkapy partition elect --preferred
        kafkapy partition elect orders:0 users --preferred
        kafkapy partition elect archive:2 --unclean --yes
        """,
)
@partitions_argument()
@click.option("--preferred", is_flag=True, help="The first replica of each partition, if it is in sync.")
@click.option(
    "--unclean", is_flag=True, help="Any replica that is there, of partitions that have no leader. Loses records."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output(ELECTED)
@click.pass_obj
def elect(session: Session, wanted: Sequence[Wanted], preferred: bool, unclean: bool, yes: bool, out: Output) -> None:
    """Elect leaders.

    --preferred gives leadership back to the first replica of each partition, without a word about all of them. --unclean is for a partition whose
    replicas in sync are lost for good: it goes on with what another replica has, and everything else is gone.
    """
    from kafkapy.client.replicas import PREFERRED, UNCLEAN, describe_replicas, elect_leaders

    if preferred == unclean:
        raise click.UsageError("say one of --preferred and --unclean")
    if unclean and not wanted:
        raise click.UsageError("name the partitions for --unclean: records may be lost in each of them")
    client = session.client
    asked = [one.partition for one in selected(client, wanted)] if wanted else None
    if unclean and asked is not None:
        names = ", ".join(map(str, asked[:5])) + (" ..." if len(asked) > 5 else "")
        confirm(f"Elect leaders of {names} from replicas that are not in sync? Records may be lost for good.", yes)
    results = elect_leaders(client, asked, UNCLEAN if unclean else PREFERRED)
    if not results:
        note("no election was needed")
    topics = sorted({partition.topic for partition in results})
    leaders = {one.partition: one.leader for one in describe_replicas(client, topics)}
    rows = []
    for partition in sorted(results):
        leader = leaders.get(partition, -1)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "leader": leader if leader >= 0 else None,
                **_outcome(results[partition]),
            }
        )
    out.rows(rows)
    finish(_failures(results))


def _outcome(error: KafkaError | None) -> dict[str, str | None]:
    if error is None:
        return {"status": "elected", "message": None}
    if error.code is ErrorCode.ELECTION_NOT_NEEDED:
        return {"status": "not needed", "message": None}
    return {"status": error.code.name, "message": error.message}


def _failures(results: dict[TopicPartition, KafkaError | None]) -> list[KafkaError | None]:
    return [None if error and error.code is ErrorCode.ELECTION_NOT_NEEDED else error for error in results.values()]
