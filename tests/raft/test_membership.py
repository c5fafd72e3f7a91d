"""Brokers come and go: heartbeats, fencing and controlled shutdown, with what they do to the partitions."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.raft.broker_sessions import BrokerSessions
from kafkapy.raft.decision import DECISION_RECORDS_MAX, Decision
from kafkapy.raft.image import NO_LEADER, MetadataImage, PartitionImage
from kafkapy.raft.leadership import RECOVERING
from kafkapy.raft.membership import after, elect_leaderless, fence_broker, heartbeat, leads_any, unfence_broker
from kafkapy.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kafkapy.wire.metadata_records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from tests.raft.clusters import cluster, directory, partitions_of
from tests.raft.worlds import CONFIG, replay

P = PartitionImage((1, 2, 3), (1, 2, 3), 1, 5, 7)
ALONE = PartitionImage((1,), (1,), 1, 5, 7)


def beat(
    image: MetadataImage, broker_id: int, sessions: BrokerSessions | None = None, **fields: Any
) -> tuple[MetadataImage, BrokerHeartbeatResponse]:
    """A heartbeat, the image afterwards and the answer."""
    wanted = {"broker_epoch": 10 * broker_id, "current_metadata_offset": 1_000, **fields}
    decisions = heartbeat(
        image, BrokerHeartbeatRequest(broker_id=broker_id, **wanted), CONFIG, sessions or BrokerSessions(), 0
    )
    return after(image, decisions), decisions[-1].response


def state(partition: PartitionImage) -> tuple[Any, ...]:
    """What matters most."""
    return partition.leader, partition.leader_epoch, partition.isr, partition.eligible_leader_replicas


def test_a_dead_broker_is_in_sync_nowhere() -> None:
    """What it led is led by the next in sync; where it was alone nobody leads, and it stays eligible."""
    image = cluster(P, P._replace(leader=2), ALONE, P._replace(isr=(2, 3), leader=3), min_insync_replicas=2)
    image = after(image, fence_broker(image, 1, CONFIG))
    assert image.brokers[1].fenced
    assert [state(one) for one in partitions_of(image)] == [
        (2, 6, (2, 3), ()),
        (2, 5, (2, 3), ()),
        (NO_LEADER, 6, (), (1,)),
        (3, 5, (2, 3), ()),
    ]


def test_a_returning_broker_leads_what_waited_for_it() -> None:
    """As one in sync, as an eligible one, or as the last that led; nothing that has a leader."""
    waiting = P._replace(leader=NO_LEADER)
    image = cluster(
        waiting._replace(isr=(1,)),
        waiting._replace(isr=(), eligible_leader_replicas=(1, 2)),
        waiting._replace(isr=(), last_known_elr=(1,)),
        waiting._replace(isr=(), eligible_leader_replicas=(2,)),
        P._replace(leader=3, isr=(3,)),
        fenced=(1, 2),
        min_insync_replicas=2,
    )
    decisions = unfence_broker(image, 1, CONFIG)
    image = after(image, decisions)
    assert not image.brokers[1].fenced
    found = partitions_of(image)
    assert [state(one) for one in found] == [
        (1, 6, (1,), ()),
        (1, 6, (1,), (2,)),
        (1, 6, (1,), ()),
        (NO_LEADER, 5, (), (2,)),
        (3, 5, (3,), ()),
    ]
    assert [one.leader_recovery_state for one in found] == [0, 0, RECOVERING, 0, 0]
    assert "t-2" in decisions[-1].notes[0] and len(decisions[-1].notes) == 1


def test_nobody_leads_uncleanly_unless_asked() -> None:
    """The last one in sync dies: others wait for it, or take over where the topic says so, and it is told."""
    lagging = P._replace(isr=(1,))
    image = cluster(lagging)
    image = after(image, fence_broker(image, 1, CONFIG))
    assert state(partitions_of(image)[0]) == (NO_LEADER, 6, (), (1,))
    image = cluster(lagging, settings={"unclean.leader.election.enable": "true"})
    decisions = fence_broker(image, 1, CONFIG)
    assert len(decisions[-1].notes) == 1
    (partition,) = partitions_of(after(image, decisions))
    assert state(partition) == (2, 6, (2,), ())
    assert partition.leader_recovery_state == RECOVERING


def test_a_broker_is_unfenced_when_it_has_read_its_registration() -> None:
    """Not a record earlier, and not if it doesn't want to be."""
    image = cluster(P, fenced=(2,))
    for offset, want_fence, fenced in ((19, False, True), (20, True, True), (20, False, False)):
        later, answer = beat(image, 2, current_metadata_offset=offset, want_fence=want_fence)
        assert (answer.is_fenced, answer.is_caught_up) == (fenced, offset >= 20)
        assert later.brokers[2].fenced == fenced


def test_a_broker_is_fenced_on_demand() -> None:
    """Until it asks otherwise; together with the wish to stop it may stop at once."""
    image, answer = beat(cluster(P), 1, want_fence=True)
    assert (answer.is_fenced, answer.should_shut_down) == (True, False)
    assert state(partitions_of(image)[0]) == (2, 6, (2, 3), ())
    _, answer = beat(cluster(P), 1, want_fence=True, want_shut_down=True)
    assert (answer.is_fenced, answer.should_shut_down) == (True, True)


def test_a_controlled_shutdown() -> None:
    """The leaderships move first; the broker may stop when all others know, and is fenced then."""
    sessions = BrokerSessions()
    image = cluster(P, P._replace(leader=2))
    end = image.offset
    for broker_id in (2, 3, 4):
        sessions.contact(broker_id, 10 * broker_id, 0, end)
    image, answer = beat(image, 1, sessions, want_shut_down=True)
    assert (answer.is_fenced, answer.should_shut_down) == (False, False)
    assert image.brokers[1].in_controlled_shutdown and not leads_any(image, 1)
    assert [state(one) for one in partitions_of(image)] == [(2, 6, (2, 3), ()), (2, 5, (2, 3), ())]
    image, answer = beat(image, 1, sessions, want_shut_down=True)
    assert not answer.should_shut_down, "nobody has read yet who leads now"
    for broker_id in (2, 3, 4):
        sessions.contact(broker_id, 10 * broker_id, 1, image.offset)
    image, answer = beat(image, 1, sessions, want_shut_down=True)
    assert (answer.is_fenced, answer.should_shut_down, image.brokers[1].fenced) == (True, True, True)


def test_a_shutdown_waits_until_it_is_known_who_lives() -> None:
    """A new controller has heard of nobody yet: the one in sync besides may have died with its predecessor."""
    sessions = BrokerSessions()
    image = cluster(P._replace(isr=(1, 2)), fenced=(3, 4))
    sessions.reset(image, 0)
    later, answer = beat(image, 1, sessions, want_shut_down=True)
    assert later is image and not answer.should_shut_down
    assert sessions.unheard() == [2]
    sessions.broken(2)
    assert sessions.expired(0, 1_000) == [2]
    image = after(image, fence_broker(image, 2, CONFIG))
    image, _ = beat(image, 1, sessions, want_shut_down=True)
    assert state(partitions_of(image)[0]) == (NO_LEADER, 6, (), (1,))


def test_a_shutdown_that_another_controller_began() -> None:
    """It died before all leaderships were moved; the next heartbeat moves the rest."""
    begun = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, in_controlled_shutdown=1)
    image, answer = beat(replay(cluster(P), [begun]), 1, want_shut_down=True)
    assert not answer.should_shut_down and not leads_any(image, 1)
    image, answer = beat(image, 1, want_shut_down=True)
    assert answer.should_shut_down


def test_who_has_shut_down_is_not_taken_back() -> None:
    """A heartbeat from before its wish to stop may come late."""
    image = cluster(P)
    image, _ = beat(image, 1, want_shut_down=True)
    image, answer = beat(image, 1, want_shut_down=True)
    assert answer.should_shut_down
    later, answer = beat(image, 1)
    assert answer.is_fenced and later is image


def test_who_leads_nothing_may_stop_at_once() -> None:
    """Whether fenced or not; and one without another replica leaves its partitions without a leader."""
    for fenced in ((), (3,)):
        image, answer = beat(cluster(P, fenced=fenced), 3, want_shut_down=True)
        assert answer.should_shut_down and image.brokers[3].fenced
    image, answer = beat(cluster(ALONE), 1, want_shut_down=True)
    assert not answer.should_shut_down
    image, answer = beat(image, 1, want_shut_down=True)
    assert answer.should_shut_down
    assert state(partitions_of(image)[0]) == (NO_LEADER, 6, (), (1,))


def test_a_failed_directory_takes_only_its_partitions() -> None:
    """The rest of the broker goes on; when the directory is back in another life it counts again."""
    places = [tuple(directory(one, number) for one in (1, 2, 3)) for number in (0, 1)]
    image = cluster(*(P._replace(directories=place) for place in places), directories=2)
    image, answer = beat(image, 1, offline_log_dirs=[directory(1, 1), directory(9)])
    assert not answer.is_fenced
    assert image.brokers[1].log_dirs == (directory(1),)
    assert [state(one) for one in partitions_of(image)] == [(1, 5, (1, 2, 3), ()), (2, 6, (2, 3), ())]
    again, _ = beat(image, 1, offline_log_dirs=[directory(1, 1)])
    assert again is image


def test_a_broker_that_returns_without_a_directory_doesn_t_lead_there() -> None:
    """Its loss is told in the very heartbeat that has it unfenced."""
    places = [(directory(1, number),) for number in (0, 1)]
    dead = ALONE._replace(leader=NO_LEADER)
    image = cluster(*(dead._replace(directories=place) for place in places), fenced=(1,), directories=2)
    image, answer = beat(image, 1, offline_log_dirs=[directory(1, 1)])
    assert not answer.is_fenced
    assert [one.leader for one in partitions_of(image)] == [1, NO_LEADER]


def test_a_broker_without_any_directory_is_fenced() -> None:
    """It could serve nothing; and it stays so until it registers with others."""
    image, answer = beat(cluster(P), 1, offline_log_dirs=[directory(1)])
    assert answer.is_fenced and image.brokers[1].fenced
    assert state(partitions_of(image)[0]) == (2, 6, (2, 3), ())
    again, answer = beat(image, 1, offline_log_dirs=[directory(1)])
    assert again is image and answer.is_fenced


def test_cordoned_directories_are_remembered() -> None:
    """As the broker told them last, if it told them at all."""
    image, _ = beat(cluster(directories=2), 1, cordoned_log_dirs=[directory(1, 1), directory(9)])
    assert image.brokers[1].cordoned_log_dirs == (directory(1, 1),)
    assert beat(image, 1)[0] is image
    assert beat(image, 1, cordoned_log_dirs=[directory(1, 1)])[0] is image
    image, _ = beat(image, 1, cordoned_log_dirs=[])
    assert image.brokers[1].cordoned_log_dirs == ()


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, 9), (1, 11), (77, 770)])
def test_an_old_process_is_not_heard(broker_id: int, epoch: int) -> None:
    """It has registered anew since, or never did; its heartbeat gives nobody a session."""
    sessions = BrokerSessions()
    with pytest.raises(KafkaError) as caught:
        beat(cluster(P), broker_id, sessions, broker_epoch=epoch)
    assert caught.value.code == ErrorCode.STALE_BROKER_EPOCH
    assert not sessions.is_alive(broker_id, epoch, 0, 1_000)


def test_a_new_controller_finishes_what_was_begun() -> None:
    """Its predecessor unfenced a broker and died before the elections."""
    image = cluster(P._replace(leader=NO_LEADER, isr=(1,)), P)
    (decision,) = elect_leaderless(image, CONFIG)
    assert [record.partition_id for record in decision.records if isinstance(record, PartitionChangeRecord)] == [0]
    assert elect_leaderless(after(image, [decision]), CONFIG) == []


def test_three_thousand_partitions() -> None:
    """A thousand leaderships move in one decision, well below a second; more than one may hold are several, the fencing last."""
    image = cluster(*(P._replace(leader=1 + number % 3) for number in range(3_000)))
    started = time.process_time()
    decisions = fence_broker(image, 1, CONFIG)
    moved = after(image, decisions)
    assert time.process_time() - started < 1.0
    assert sum(one.leader == 2 for one in partitions_of(moved)) == 2_000
    many = cluster(*([P] * (DECISION_RECORDS_MAX + 5)))
    first, last = fence_broker(many, 1, CONFIG)
    assert (len(first.records), len(last.records)) == (DECISION_RECORDS_MAX, 6)
    assert isinstance(last.records[-1], BrokerRegistrationChangeRecord)
    assert not leads_any(after(many, [first, last]), 1)


def test_after_leaves_the_image_alone() -> None:
    """Decisions without records change nothing."""
    image = cluster(P)
    assert after(image, [Decision([], None)]) is image
    assert replay(image, []).topics is image.topics
