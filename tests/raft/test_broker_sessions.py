"""Who was heard of when: sessions end by silence or by a dead connection, and a controlled shutdown waits until everybody knows."""

from __future__ import annotations

from kafkapy.raft.broker_sessions import BrokerSessions
from tests.raft.clusters import cluster

TIMEOUT_MS = 3_000


def test_silence_ends_a_session() -> None:
    """Not before the timeout, and then once."""
    sessions = BrokerSessions()
    assert sessions.next_deadline(TIMEOUT_MS) is None
    sessions.contact(1, 10, 0)
    sessions.contact(2, 20, 1_000)
    assert sessions.next_deadline(TIMEOUT_MS) == 3_000
    assert sessions.expired(2_999, TIMEOUT_MS) == []
    assert sessions.is_alive(1, 10, 2_999, TIMEOUT_MS) and not sessions.is_alive(1, 10, 3_000, TIMEOUT_MS)
    assert sessions.expired(3_000, TIMEOUT_MS) == [1]
    assert sessions.expired(3_000, TIMEOUT_MS) == []
    assert sessions.next_deadline(TIMEOUT_MS) == 4_000


def test_a_broken_connection_ends_it_at_once() -> None:
    """However lately the broker was heard of; unknown brokers don't matter."""
    sessions = BrokerSessions()
    sessions.contact(1, 10, 5_000)
    sessions.broken(1)
    sessions.broken(2)
    assert sessions.expired(5_000, TIMEOUT_MS) == [1]
    sessions.contact(1, 10, 5_001)
    assert sessions.expired(5_002, TIMEOUT_MS) == []


def test_a_session_belongs_to_one_registration() -> None:
    """Another epoch is another process."""
    sessions = BrokerSessions()
    sessions.contact(1, 10, 0)
    assert not sessions.is_alive(1, 11, 0, TIMEOUT_MS)
    sessions.forget(1)
    assert not sessions.is_alive(1, 10, 0, TIMEOUT_MS)


def test_a_new_controller_gives_everybody_time() -> None:
    """Those that aren't fenced have a session from now on; what it knew from earlier is forgotten."""
    sessions = BrokerSessions()
    sessions.contact(9, 90, 0)
    sessions.reset(cluster(fenced=(4,)), 7_000)
    assert [sessions.is_alive(one, 10 * one, 9_999, TIMEOUT_MS) for one in (1, 2, 3, 4, 9)] == [True] * 3 + [False] * 2
    assert sessions.expired(10_000, TIMEOUT_MS) == [1, 2, 3]


def test_a_shutdown_waits_for_the_slowest() -> None:
    """All active brokers must have read who leads now; one that is fenced needn't."""
    sessions = BrokerSessions()
    for broker_id in (1, 2, 3):
        sessions.contact(broker_id, broker_id, 0, 50)
    assert sessions.may_shut_down(1, {2, 3}), "nobody knows since when: the controller is new"
    sessions.shuts_down_at(1, 60)
    sessions.shuts_down_at(1, 99)
    assert not sessions.may_shut_down(1, {2, 3})
    sessions.contact(2, 2, 1, 60)
    assert not sessions.may_shut_down(1, {2, 3})
    assert sessions.may_shut_down(1, {2}) and sessions.may_shut_down(1, ())
    sessions.contact(3, 3, 1, 61)
    assert sessions.may_shut_down(1, {2, 3})
