"""Who leads: every rule by which a partition gets its leader, its ISR and its eligible replicas, as Apache Kafka 4.3.1 was seen to do it."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.raft.image import DIRECTORY_LOST, NO_LEADER, PartitionImage
from kafkapy.raft.leadership import (
    RECOVERED,
    RECOVERING,
    Conditions,
    Election,
    Leadership,
    Wanted,
    change_partition,
    has_online_directory,
    in_decisions,
)
from kafkapy.raft.topics_delta import changed_partition
from kafkapy.wire.metadata_records import FeatureLevelRecord, NoOpRecord
from tests.raft.clusters import broker, cluster, directory, partitions_of
from tests.raft.worlds import CONFIG, replay

# In sync are 1 and 2; 3 is behind. With 5 as the leader epoch.
P = PartitionImage((1, 2, 3), (1, 2), 1, 5, 7)
RECOVERING_P = P._replace(isr=(1,), leader_recovery_state=RECOVERING)
EMPTY = P._replace(isr=(), leader=NO_LEADER)


class Expected(NamedTuple):
    """What is to become of it."""

    leader: int
    epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    recovery: int = RECOVERED


ONLINE, PREFERRED, UNCLEAN = Election.ONLINE, Election.PREFERRED, Election.UNCLEAN

CASES = {
    # name: partition, wanted, alive, election, min.insync.replicas, expected; None for no change at all
    "nothing to do": (P, Wanted(), (1, 2, 3), ONLINE, 1, None),
    "leader leaves": (P, Wanted(isr=(2,)), (2, 3), ONLINE, 1, Expected(2, 6, (2,))),
    "leader leaves, too few stay": (P, Wanted(isr=(2,)), (2, 3), ONLINE, 2, Expected(2, 6, (2,), (1,))),
    "follower leaves": (P, Wanted(isr=(1,)), (1, 2, 3), ONLINE, 1, Expected(1, 5, (1,))),
    "follower leaves, too few stay": (P, Wanted(isr=(1,)), (1, 2, 3), ONLINE, 2, Expected(1, 5, (1,), (2,))),
    "first in replica order": (P._replace(replicas=(3, 2, 1)), Wanted(isr=(2,)), (2, 3), ONLINE, 1, Expected(2, 6, (2,))),
    "the last one leaves": (P._replace(isr=(1,)), Wanted(isr=()), (2, 3), ONLINE, 1, Expected(-1, 6, (), (1,), (1,))),
    "nobody in sync is alive": (P, Wanted(), (3,), ONLINE, 1, Expected(-1, 6, (1, 2), (), (1,))),
    "back in sync": (
        P._replace(isr=(1,), eligible_leader_replicas=(2,)), Wanted(isr=(1, 2)), (1, 2), ONLINE, 2, Expected(1, 5, (1, 2))
    ),
    "eligible leads": (
        EMPTY._replace(eligible_leader_replicas=(2, 3)), Wanted(), (3,), ONLINE, 2, Expected(3, 6, (3,), (2,))
    ),
    "eligible in replica order": (
        EMPTY._replace(eligible_leader_replicas=(2, 3)), Wanted(), (2, 3), ONLINE, 2, Expected(2, 6, (2,), (3,))
    ),
    "one is enough by now": (
        EMPTY._replace(eligible_leader_replicas=(2, 3), last_known_elr=(2,)), Wanted(), (2, 3), ONLINE, 1,
        Expected(2, 6, (2,)),
    ),
    "fewer replicas than needed": (
        EMPTY._replace(replicas=(2,), eligible_leader_replicas=(2, 3)), Wanted(), (2, 3), ONLINE, 2, Expected(2, 6, (2,))
    ),
    "a removed replica isn't eligible": (
        P._replace(isr=(1,), eligible_leader_replicas=(2,)), Wanted(replicas=(1, 3)), (1, 2, 3), ONLINE, 2,
        Expected(1, 6, (1,)),
    ),
    "not eligible while others are in sync": (
        P._replace(isr=(1,), leader=NO_LEADER, eligible_leader_replicas=(2,)), Wanted(), (2,), ONLINE, 2, None
    ),
    "back from a crash, not the last": (
        P._replace(isr=(), leader=NO_LEADER, eligible_leader_replicas=(1, 2)),
        Wanted(isr=(), lost_records=(1,)), (), ONLINE, 2, Expected(-1, 5, (), (2,)),
    ),
    "the last leader": (EMPTY._replace(last_known_elr=(2,)), Wanted(), (1, 2), ONLINE, 1, Expected(2, 6, (2,), recovery=1)),
    "the last leader is not back": (EMPTY._replace(last_known_elr=(2,)), Wanted(), (1, 3), ONLINE, 1, None),
    "two that may have been last": (EMPTY._replace(last_known_elr=(1, 2)), Wanted(), (1, 2), ONLINE, 1, None),
    "unclean": (P, Wanted(), (3,), UNCLEAN, 1, Expected(3, 6, (3,), recovery=RECOVERING)),
    "unclean, but not needed": (P, Wanted(isr=(2,)), (2, 3), UNCLEAN, 1, Expected(2, 6, (2,))),
    "unclean, but eligible": (
        EMPTY._replace(eligible_leader_replicas=(2,)), Wanted(), (1, 2), UNCLEAN, 1, Expected(2, 6, (2,))
    ),
    "unclean, eligible are dead": (
        EMPTY._replace(eligible_leader_replicas=(2,)), Wanted(), (1,), UNCLEAN, 1, Expected(1, 6, (1,), recovery=1)
    ),
    "nobody at all": (P, Wanted(), (), UNCLEAN, 1, Expected(-1, 6, (1, 2), (), (1,))),
    "preferred": (P._replace(leader=2), Wanted(), (1, 2), PREFERRED, 1, Expected(1, 6, (1, 2))),
    "preferred is dead": (P._replace(leader=2), Wanted(), (2,), PREFERRED, 1, None),
    "preferred is behind": (P._replace(leader=2, isr=(2,)), Wanted(), (1, 2), PREFERRED, 1, None),
    "online keeps the leader": (P._replace(leader=2), Wanted(), (1, 2), ONLINE, 1, None),
    "recovered": (RECOVERING_P, Wanted(leader_recovery_state=0), (1,), ONLINE, 1, Expected(1, 5, (1,))),
    "unclean while recovering": (RECOVERING_P, Wanted(), (3,), UNCLEAN, 1, Expected(3, 6, (3,), recovery=RECOVERING)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_rules(name: str) -> None:
    """One rule each."""
    before, wanted, alive, election, min_insync_replicas, expected = CASES[name]
    conditions = Conditions(alive.__contains__, election, min_insync_replicas)
    record = change_partition(before, wanted, conditions)
    if expected is None:
        assert record is None
        return
    assert record is not None
    after = changed_partition(before, record)
    assert expected == Expected(
        after.leader,
        after.leader_epoch,
        after.isr,
        after.eligible_leader_replicas,
        after.last_known_elr,
        after.leader_recovery_state,
    )
    assert after.partition_epoch == before.partition_epoch + 1


def test_without_eligible_replicas() -> None:
    """The older rules: the last one stays in the ISR, and only it may lead again."""
    conditions = Conditions((2, 3).__contains__, elr_enabled=False, min_insync_replicas=2)
    record = change_partition(P._replace(isr=(1,)), Wanted(isr=()), conditions)
    assert record is not None
    assert (record.leader, record.isr, record.eligible_leader_replicas, record.last_known_elr) == (-1, None, None, None)
    left_over = P._replace(isr=(1,), eligible_leader_replicas=(2,))
    record = change_partition(left_over, Wanted(), conditions._replace(may_lead=(1,).__contains__))
    assert record is not None and record.eligible_leader_replicas == []


def test_a_smaller_isr_opens_an_epoch_in_old_clusters_only() -> None:
    """Up to metadata.version 3.5."""
    for level, epoch in ((11, 6), (12, 5)):
        image = replay(cluster(P, elr=False), [FeatureLevelRecord(name="metadata.version", feature_level=level)])
        record = Leadership(image, CONFIG).change(image.topics.by_name["t"], 0, Wanted(isr=(1,)))
        assert record is not None
        assert changed_partition(P, record).leader_epoch == epoch


def test_who_may_lead() -> None:
    """Who is unfenced and not shutting down, as far as the decision doesn't change it, with its directory online."""
    places = (directory(1), DIRECTORY_LOST, directory(3))
    image = cluster(P._replace(directories=places), fenced=(3,))
    (partition,) = partitions_of(image)
    assert [Leadership(image, CONFIG).may_lead(partition, one) for one in (1, 2, 3, 9)] == [True, False, False, False]
    assert Leadership(image, CONFIG, returning=(3,)).may_lead(partition, 3)
    assert not Leadership(image, CONFIG, gone=(1,)).may_lead(partition, 1)
    two = broker(1, directories=2)
    assert has_online_directory(two, directory(1, 1)) and not has_online_directory(two, directory(2))


def test_configuration_of_the_topic_the_cluster_the_broker() -> None:
    """In this order."""
    image = cluster(P, min_insync_replicas=2, settings={"unclean.leader.election.enable": "true"})
    leadership = Leadership(image, CONFIG)
    assert (leadership.min_insync_replicas("t"), leadership.allows_unclean("t")) == (2, True)
    assert not leadership.allows_unclean("other")
    other = Leadership(image, BrokerConfig({"unclean.leader.election.enable": "true", "min.insync.replicas": "3"}))
    assert other.allows_unclean("other")
    assert other.min_insync_replicas("other") == 3


def test_an_unclean_election_is_told() -> None:
    """Whoever may have lost records is named; a clean election is silent, and so is one where nobody else could have led."""
    allowed = {"unclean.leader.election.enable": "true"}
    for partition, notes in (
        (P._replace(leader=-1, isr=(2,)), 1),
        (EMPTY._replace(last_known_elr=(1,)), 1),
        (EMPTY._replace(eligible_leader_replicas=(1,)), 0),
        (PartitionImage((1,), (), -1, 5, 5, last_known_elr=(1,)), 0),
    ):
        image = cluster(partition, fenced=(2,), settings=allowed)
        leadership = Leadership(image, CONFIG)
        record = leadership.change(image.topics.by_name["t"], 0)
        assert record is not None and record.leader == 1
        assert len(leadership.notes) == notes
        assert all("UNCLEAN LEADER ELECTION: broker 1" in note and "t-0" in note for note in leadership.notes)


def test_many_notes_are_counted() -> None:
    """A few are told in full."""
    image = cluster(*[EMPTY._replace(last_known_elr=(1,))] * 25)
    leadership = Leadership(image, CONFIG)
    records = leadership.elect_leaderless()
    *told, last = leadership.decisions(records)[-1].notes
    assert (len(records), len(told), last) == (25, 20, "and the same for 5 more partitions")


def test_many_records_make_several_decisions() -> None:
    """None is larger than one step of the controller may be; the answer goes with the last one."""
    decisions = in_decisions([NoOpRecord()] * 25_000, "answer", ["note"])
    assert [(len(one.records), one.response, one.notes) for one in decisions] == [
        (10_000, None, ()),
        (10_000, None, ()),
        (5_000, "answer", ("note",)),
    ]
    assert in_decisions([], "answer")[0].records == []
