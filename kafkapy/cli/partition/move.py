"""`kafkapy partition move`."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from kafkapy.cli.failures import Failure, finish
from kafkapy.cli.framework import command
from kafkapy.cli.output import Column, Output, Shape, output
from kafkapy.cli.partition.plan import Change, ImpossiblePlan, Placed, away_from, spread, to_brokers
from kafkapy.cli.partition.select import Wanted, broker_list, partitions_argument, selected
from kafkapy.cli.progress import progress
from kafkapy.cli.session import Session
from kafkapy.cli.terminal import note
from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.cli.progress import Advance
    from kafkapy.client.client import Client
    from kafkapy.client.replicas import Move, Replicas

POLL_PAUSE_S = 0.25

MOVED = Shape(
    "Partitions and where they go",
    Column("topic", "the topic's name"),
    Column("partition", "the partition's number", "integer"),
    Column("from", "the brokers that kept it, the preferred leader first", "list"),
    Column("to", "the brokers that keep it from now on, the preferred leader first", "list"),
    Column("copy", "bytes that have to be copied", "bytes"),
    Column("status", "planned, moving, done, called off, or the name of Kafka's error"),
)

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)i?b?(?:/s)?", re.IGNORECASE)


def _rate(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Bytes a second: a number, with k, M or G for powers of 1024."""
    if value is None:
        return None
    match = _RATE.fullmatch(value.strip())
    rate = int(float(match[1]) * 1024 ** " kmg".index(match[2].lower() or " ")) if match else 0
    if rate < 1:
        raise click.BadParameter(f"{value!r}: write bytes a second, such as 500k, 50M or 1G")
    return rate


@command(
    "move",
    short_help="Move replicas to other brokers.",
    examples="""
        kafkapy partition move orders:0 --to 1 --dry-run
        kafkapy partition move orders users --to 1
        kafkapy partition move --away-from 4 --dry-run
        kafkapy partition move orders --spread --throttle 50M
        kafkapy partition move --cancel
        """,
)
@partitions_argument()
@click.option(
    "--to", "to", metavar="BROKER,...", callback=broker_list, help="Exactly these brokers keep the partitions."
)
@click.option(
    "--away-from", "leaving", metavar="BROKER,...", callback=broker_list, help="These brokers keep nothing of them."
)
@click.option("--spread", "evenly", is_flag=True, help="Each broker keeps as many replicas, and leads as many.")
@click.option("--cancel", is_flag=True, help="Call off moves that are under way.")
@click.option(
    "--throttle",
    "rate",
    metavar="RATE",
    callback=_rate,
    help="Copy at most so many bytes a second per broker: 500k, 50M.",
)
@click.option("--dry-run", is_flag=True, help="Only show the plan.")
@click.option("--no-wait", is_flag=True, help="Begin, and do not wait for the end.")
@output(MOVED)
@click.pass_obj
def move(
    session: Session,
    wanted: Sequence[Wanted],
    to: tuple[int, ...] | None,
    leaving: tuple[int, ...] | None,
    evenly: bool,
    cancel: bool,
    rate: int | None,
    dry_run: bool,
    no_wait: bool,
    out: Output,
) -> None:
    """Move replicas to other brokers.

    Without a topic --away-from, --spread and --cancel mean all of the cluster. Records stay readable and writable all the time; a replica goes
    only when the new ones are in sync. Interrupted, the move goes on, and the same command follows it again. A throttle is taken away at the end.
    """
    if sum((to is not None, leaving is not None, evenly, cancel)) != 1:
        raise click.UsageError("say one of --to, --away-from, --spread and --cancel")
    if to is not None and not wanted:
        raise click.UsageError("name the partitions for --to: TOPIC or TOPIC:PARTITIONS")
    if rate is not None and (no_wait or cancel):
        raise click.UsageError("--throttle is taken away at the end of the move, so it needs one to wait for")
    client = session.client
    rows = selected(client, wanted)
    moves = _moves(client)
    if cancel:
        _cancel(client, rows, moves, dry_run, out)
        return
    changes = _plan(client, rows, moves, to, leaving, evenly)
    followed = {one.partition for one in rows if one.partition in moves} | {change.partition for change in changes}
    if not followed:
        note("everything is there already")
        out.rows([])
        return
    work = Work(client, rows, moves, changes, followed)
    if dry_run:
        note("nothing was changed")
        out.rows(work.table(dict.fromkeys(followed, "planned")))
        return
    work.run(rate, no_wait, out)


def _moves(client: Client) -> dict[TopicPartition, Move]:
    from kafkapy.client.replicas import list_moves

    return list_moves(client)


def _plan(
    client: Client,
    rows: Sequence[Replicas],
    moves: Mapping[TopicPartition, Move],
    to: tuple[int, ...] | None,
    leaving: tuple[int, ...] | None,
    evenly: bool,
) -> list[Change]:
    from kafkapy.client.admin import describe_cluster
    from kafkapy.client.replicas import describe_replicas

    racks = {broker.id: broker.rack for broker in describe_cluster(client).brokers if not broker.fenced}
    placed = _placed(rows, moves)
    if to is not None:
        missing = [broker for broker in to if broker not in racks]
        if missing:
            raise Failure(
                f"there is no broker {', '.join(map(str, missing))}",
                hint="`kafkapy cluster info` shows which there are",
            )
        return to_brokers(placed, to)
    if evenly:
        return spread(placed, racks)
    try:
        return away_from(placed, _placed(describe_replicas(client), moves), racks, leaving or ())
    except ImpossiblePlan as error:
        raise Failure(str(error), hint="`kafkapy cluster info` shows how many brokers there are") from None


def _placed(rows: Sequence[Replicas], moves: Mapping[TopicPartition, Move]) -> list[Placed]:
    """What is moving already counts where it will be."""
    return [
        Placed(one.partition, moves[one.partition].target if one.partition in moves else one.replicas) for one in rows
    ]


def _cancel(
    client: Client, rows: Sequence[Replicas], moves: Mapping[TopicPartition, Move], dry_run: bool, out: Output
) -> None:
    from kafkapy.cli.partition.throttle import clear
    from kafkapy.client.replicas import move_replicas

    chosen = [one.partition for one in rows if one.partition in moves]
    results = {} if dry_run or not chosen else move_replicas(client, dict.fromkeys(chosen))
    table = []
    for partition in chosen:
        error = results.get(partition)
        done = "would be called off" if dry_run else "called off"
        kept = [broker for broker in moves[partition].replicas if broker not in moves[partition].adding]
        table.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "from": moves[partition].target,
                "to": kept,
                "copy": None,
                "status": error.code.name if error else done,
            }
        )
    if not chosen:
        note("nothing is moving")
    if not dry_run:
        clear(client, sorted({one.partition.topic for one in rows}))
    out.rows(table)
    finish(results.values())


class Work:
    """A move: begun, followed, and told about."""

    def __init__(
        self,
        client: Client,
        rows: Sequence[Replicas],
        moves: Mapping[TopicPartition, Move],
        changes: Sequence[Change],
        followed: set[TopicPartition],
    ) -> None:
        self._client = client
        self._rows = {one.partition: one for one in rows}
        self._changes = {change.partition: change for change in changes}
        for partition in followed - self._changes.keys():
            kept = [broker for broker in moves[partition].replicas if broker not in moves[partition].adding]
            self._changes[partition] = Change(partition, tuple(kept), moves[partition].target)
        self._new = [change.partition for change in changes]
        self._sizes = self._bytes_to_copy()

    def table(self, status: Mapping[TopicPartition, str]) -> list[dict[str, Any]]:
        """The rows to print."""
        return [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "from": change.before,
                "to": change.after,
                "copy": sum(self._sizes.get((partition, broker), 0) for broker in change.adding),
                "status": status[partition],
            }
            for partition, change in sorted(self._changes.items())
        ]

    def run(self, rate: int | None, no_wait: bool, out: Output) -> None:
        """Do it, and print what became of it."""
        from kafkapy.cli.partition.throttle import clear, limit
        from kafkapy.client.replicas import move_replicas

        if rate is not None:
            limit(self._client, list(self._changes.values()), rate)
        failed = self._leaderless()
        targets = {partition: self._changes[partition].after for partition in self._new if partition not in failed}
        results = move_replicas(self._client, targets) if targets else {}
        failed |= {partition: error for partition, error in results.items() if error is not None}
        begun = [partition for partition in self._changes if partition not in failed]
        if not no_wait:
            try:
                self._follow(begun)
            except KeyboardInterrupt:
                note("the move goes on; the same command follows it again, and --cancel calls it off")
                raise
        if rate is not None:
            clear(self._client, sorted({partition.topic for partition in self._changes}))
        status = dict.fromkeys(begun, "moving" if no_wait else "done")
        out.rows(self.table(status | {partition: error.code.name for partition, error in failed.items()}))
        finish([failed.get(partition) for partition in self._changes])

    def _leaderless(self) -> dict[TopicPartition, KafkaError]:
        """Nobody can copy from a partition without a leader, so its move would never end."""
        return {
            partition: KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader to copy from")
            for partition in self._changes
            if self._rows[partition].leader < 0
        }

    def _bytes_to_copy(self) -> dict[tuple[TopicPartition, int], int]:
        """What each new replica will hold: as much as the leader does now."""
        leaders = {self._rows[partition].leader for partition in self._changes} - {-1}
        sizes = _sizes(self._client, leaders)
        return {
            (partition, broker): sizes.get((partition, self._rows[partition].leader), 0)
            for partition, change in self._changes.items()
            for broker in change.adding
        }

    def _follow(self, partitions: Sequence[TopicPartition]) -> None:
        """Until none of them moves any more, with a bar of the bytes that have arrived."""
        total = sum(self._sizes.get((one, broker), 0) for one in partitions for broker in self._changes[one].adding)
        seen = 0
        with progress("moving", total, unit="bytes") as advance:
            while pending := [partition for partition in partitions if partition in self._still_moving(partitions)]:
                seen = self._show(partitions, pending, seen, advance)
                time.sleep(POLL_PAUSE_S)
            advance(total - seen)

    def _still_moving(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Move]:
        """A broker may die meanwhile: the move outlives it, and so does this command."""
        from kafkapy.client.connection import Unreachable
        from kafkapy.client.replicas import list_moves

        for is_last in self._client.attempts():
            try:
                return list_moves(self._client, partitions)
            except Unreachable:
                if is_last:
                    raise
                self._client.metadata([])
        raise AssertionError("the last attempt returns or raises")

    def _show(
        self,
        partitions: Sequence[TopicPartition],
        pending: Sequence[TopicPartition],
        seen: int,
        advance: Advance,
    ) -> int:
        """Advance the bar by what has arrived since; returns how much that is in all."""
        adding = {broker for partition in pending for broker in self._changes[partition].adding}
        sizes = _sizes(self._client, adding)
        arrived = 0
        for partition in partitions:
            for broker in self._changes[partition].adding:
                whole = self._sizes.get((partition, broker), 0)
                arrived += min(whole, sizes.get((partition, broker), 0)) if partition in pending else whole
        if arrived > seen:
            advance(arrived - seen)
        return max(arrived, seen)


def _sizes(client: Client, brokers: set[int]) -> dict[tuple[TopicPartition, int], int]:
    """The bytes of each replica of these brokers; nothing of one that does not answer."""
    from kafkapy.client.admin import describe_log_dirs
    from kafkapy.client.connection import Unreachable

    found = {}
    for broker in sorted(brokers):
        try:
            log_dirs = describe_log_dirs(client, broker)
        except (Unreachable, KafkaError) as error:
            note(f"broker {broker} does not tell its sizes: {error}")
            continue
        for log_dir in log_dirs:
            for partition, size in log_dir.sizes.items():
                found[partition, broker] = size
    return found
