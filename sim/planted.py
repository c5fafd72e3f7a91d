"""Bugs to plant: each takes one safeguard out of the real code. A simulation that doesn't find them proves nothing by finding nothing else.

    with plant("ack-before-isr"): Cluster(seed).run()        raises InvariantError within a few dozen seeds

`tests/sim/test_planted_bugs.py` holds that each is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from kafkapy.handlers import decisions, produce
from kafkapy.handlers.wait import Wait
from kafkapy.log.partition import Partition
from kafkapy.log.producer_state import ProducerTable
from kafkapy.raft import alter_partition, leadership, topics_delta
from kafkapy.raft.journal import Journal
from kafkapy.replication.isr import IsrTracker

Plant = Callable[[ExitStack], None]

CLUSTER, VOTERS = "cluster", "voters"


class Bug(NamedTuple):
    """A bug, and which simulation is to find it."""

    world: str
    explanation: str
    plant: Plant


def _replace(stack: ExitStack, target: Any, name: str, value: Any) -> None:
    stack.enter_context(patch.object(target, name, value))


# Acknowledgements.


def _ack_before_isr(stack: ExitStack) -> None:
    _replace(stack, produce.Pending, "is_done", lambda pending: True)


def _fenced_leader_acks(stack: ExitStack) -> None:
    def wait(context: Any, timeout_ms: int, pending: Any, response: Any) -> Wait:
        def again(expired: bool) -> Any:
            still = [one for one in pending if one.partition.is_leader and not one.is_done()]
            return None if still and not expired else response

        return Wait(tuple(one.partition for one in pending), context.now_ms + timeout_ms, again)

    _replace(stack, produce, "_wait", wait)


def _duplicates_accepted(stack: ExitStack) -> None:
    _replace(stack, ProducerTable, "check_produced", lambda table, *arguments: None)


def _uncommitted_read(stack: ExitStack) -> None:
    read = Partition.read

    def read_all(partition: Partition, *arguments: Any, **options: Any) -> Any:
        if options.get("replica_id", -1) < 0 and partition.is_leader:
            options["replica_id"] = 0
        return read(partition, *arguments, **options)

    _replace(stack, Partition, "read", read_all)


def _unknown_outcome_is_success(stack: ExitStack) -> None:
    _replace(stack, decisions, "ticket_error", lambda ticket, expired: None)


# The high watermark and the ISR.


def _high_watermark_of_leader_alone(stack: ExitStack) -> None:
    def raise_high_watermark(partition: Partition) -> bool:
        rose = partition.is_leader and partition._raise_to(partition.log.log_end_offset)
        for watcher in partition.watchers if rose else ():
            watcher.high_watermark_rose(partition)
        return rose

    _replace(stack, Partition, "raise_high_watermark", raise_high_watermark)


def _min_isr_ignored(stack: ExitStack) -> None:
    _replace(stack, Partition, "_under_min_isr", lambda partition, log: False)


def _shrink_not_awaited(stack: ExitStack) -> None:
    propose = IsrTracker._propose

    def propose_and_believe(tracker: IsrTracker, partition: Partition, isr: tuple[int, ...]) -> None:
        propose(tracker, partition, isr)
        if len(isr) < len(partition.isr):
            partition.isr = partition.proposed_isr = isr
            partition.raise_high_watermark()

    _replace(stack, IsrTracker, "_propose", propose_and_believe)


def _shrink_ignored(stack: ExitStack) -> None:
    """The controller leaves who is dead or behind in the ISR, and may elect it when it is back."""
    alter = alter_partition.alter_partition

    def ignore(image: Any, request: Any, config: Any) -> Any:
        decision = alter(image, request, config)
        records: list[Any] = list(decision.records)
        for record in records:
            known = image.topics.get_by_id(record.topic_id).partitions[record.partition_id]
            if record.isr is not None and len(record.isr) < len(known.isr):
                record.isr = list(known.isr)
                record.eligible_leader_replicas = None
        return decision

    from kafkapy.handlers import alter_partition as handler

    _replace(stack, handler, "alter_partition", ignore)


def _joins_isr_too_early(stack: ExitStack) -> None:
    def may_join(partition: Partition) -> list[int]:
        return [replica for replica in partition.followers if replica not in partition.isr]

    _replace(stack, Partition, "may_join_isr", may_join)


def _stale_broker_epoch(stack: ExitStack) -> None:
    from sim.replication import Replication

    def is_eligible(image: Any, member: Any) -> bool:
        broker = image.brokers.get(member.broker_id)
        return broker is not None and broker.is_active

    _replace(stack, alter_partition, "_is_eligible", is_eligible)
    _replace(stack, Replication, "_is_eligible", lambda replication, replica_id, broker_epoch: True)


# Leaders and histories.


def _leader_outside_isr(stack: ExitStack) -> None:
    def choose(partition: Any, target: Any, conditions: Any) -> tuple[int, bool]:
        for one in (partition.leader, *target.replicas):
            if one >= 0 and conditions.may_lead(one):
                return one, True
        return -1, True

    _replace(stack, leadership, "_choose", choose)


def _epoch_not_bumped(stack: ExitStack) -> None:
    changed = topics_delta.changed_partition

    def keep_epoch(partition: Any, record: Any) -> Any:
        return changed(partition, record)._replace(leader_epoch=partition.leader_epoch)

    _replace(stack, topics_delta, "changed_partition", keep_epoch)
    _replace(stack, alter_partition, "changed_partition", keep_epoch)


def _unclean_restart_kept(stack: ExitStack) -> None:
    leave = leadership.Leadership.leave_isrs

    def stay(self: Any, broker_id: int, lost_records: bool = False) -> Any:
        return [] if lost_records else leave(self, broker_id)

    _replace(stack, leadership.Leadership, "leave_isrs", stay)


def _unclean_restart_eligible(stack: ExitStack) -> None:
    leave = leadership.Leadership.leave_isrs
    _replace(
        stack, leadership.Leadership, "leave_isrs", lambda self, broker_id, lost_records=False: leave(self, broker_id)
    )


def _truncation_by_high_watermark(stack: ExitStack) -> None:
    make_follower = Partition.make_follower

    def cut(partition: Partition, leader_id: int, leader_epoch: int, *arguments: Any, **options: Any) -> None:
        is_new = leader_epoch != partition.leader_epoch
        make_follower(partition, leader_id, leader_epoch, *arguments, **options)
        if is_new and leader_id >= 0 and partition.log.log_end_offset > partition.high_watermark:
            partition.truncate_to(partition.high_watermark, 0)

    _replace(stack, Partition, "make_follower", cut)


def _divergence_not_told(stack: ExitStack) -> None:
    _replace(stack, Partition, "divergence", lambda *arguments: None)
    _replace(stack, Partition, "_divergence", lambda *arguments: None)


# The quorum.


def _vote_forgotten(stack: ExitStack) -> None:
    def keep_in_memory(journal: Journal, term: int, vote: str | None) -> None:
        journal.term, journal.vote = term, vote

    _replace(stack, Journal, "set_term_and_vote", keep_in_memory)


def _journal_not_synced(stack: ExitStack) -> None:
    def pretend(journal: Journal) -> None:
        journal._durable = journal.size

    _replace(stack, Journal, "sync", pretend)


BUGS: dict[str, Bug] = {
    "ack-before-isr": Bug(CLUSTER, "acks=all is answered as soon as the leader has the records", _ack_before_isr),
    "fenced-leader-acks": Bug(CLUSTER, "a leader that was deposed says yes to what still waits", _fenced_leader_acks),
    "duplicates-accepted": Bug(CLUSTER, "a batch that is sent again is appended again", _duplicates_accepted),
    "uncommitted-read": Bug(CLUSTER, "consumers read beyond the high watermark", _uncommitted_read),
    "unknown-outcome-is-success": Bug(
        CLUSTER, "a controller that lost its leadership says yes to what it had in flight", _unknown_outcome_is_success
    ),
    "high-watermark-of-leader-alone": Bug(
        CLUSTER, "the high watermark is the leader's end, whatever the followers have", _high_watermark_of_leader_alone
    ),
    "min-isr-ignored": Bug(CLUSTER, "the high watermark rises with fewer in sync than demanded", _min_isr_ignored),
    "shrink-not-awaited": Bug(CLUSTER, "a leader shrinks the ISR before the controller agrees", _shrink_not_awaited),
    "shrink-ignored": Bug(CLUSTER, "the controller says yes to a smaller ISR and keeps the old one", _shrink_ignored),
    "joins-isr-too-early": Bug(CLUSTER, "a replica joins the ISR that has not caught up", _joins_isr_too_early),
    "stale-broker-epoch": Bug(CLUSTER, "a restarted replica is taken for its former self", _stale_broker_epoch),
    "leader-outside-isr": Bug(CLUSTER, "any living replica may be elected", _leader_outside_isr),
    "epoch-not-bumped": Bug(CLUSTER, "another leader goes on in the same leader epoch", _epoch_not_bumped),
    "unclean-restart-kept": Bug(CLUSTER, "a replica stays in the ISR over an unclean restart", _unclean_restart_kept),
    "unclean-restart-eligible": Bug(
        CLUSTER, "a replica stays eligible over an unclean restart", _unclean_restart_eligible
    ),
    "truncation-by-high-watermark": Bug(
        CLUSTER, "a new follower cuts its log to its high watermark", _truncation_by_high_watermark
    ),
    "divergence-not-told": Bug(
        CLUSTER, "a follower appends behind records that the leader lacks", _divergence_not_told
    ),
    "vote-forgotten": Bug(VOTERS, "a voter keeps its term and its vote in memory only", _vote_forgotten),
    "journal-not-synced": Bug(VOTERS, "entries are acknowledged that are not on disk", _journal_not_synced),
}


@contextmanager
def plant(name: str | None) -> Iterator[None]:
    """Within it the real code has this bug; with None it is as it is."""
    with ExitStack() as stack:
        if name is not None:
            BUGS[name].plant(stack)
        yield
