"""Followers' sessions on the leader: who may go on with which, and what is forgotten when."""

from __future__ import annotations

import pytest

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.handlers.fetch_sessions import SESSIONS_PER_FOLLOWER_MAX, FetchSessions
from kafkapy.log.partition import Partition
from kafkapy.replication.follower_session import FollowerSession
from tests.replication.support import TOPIC_ID, Clock, Connection, Node, send


def opened(sessions: FetchSessions, connection: Connection, replica: int = 2) -> FollowerSession:
    return sessions.create_for_follower(replica, True, connection, lambda key: None, eager=False)


def leading() -> Partition:
    partition = Node(1, Clock()).add()
    partition.make_leader(1, (1, 2), (1, 2))
    return partition


def test_sessions_of_connections_that_are_gone_end_with_the_next() -> None:
    """A follower that connects anew leaves nothing behind, not even among the watchers of its partitions."""
    sessions, partition = FetchSessions(10, 1), leading()
    gone, here = Connection(), Connection()
    first = opened(sessions, gone)
    first.follow((TOPIC_ID, 0), partition)
    assert partition.watchers == (first,)
    gone.close()
    second = opened(sessions, here)
    assert partition.watchers == () and not first.positions and second.id != first.id
    with pytest.raises(KafkaError) as refused:
        sessions.resume_for_follower(first.id, 1, True, 2)
    assert refused.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_one_follower_has_a_bounded_number_of_sessions() -> None:
    """Whoever poses as a follower can't fill the memory."""
    sessions, connection = FetchSessions(10, 1), Connection()
    for _ in range(SESSIONS_PER_FOLLOWER_MAX + 20):
        opened(sessions, connection)
    assert len(sessions._followers) == SESSIONS_PER_FOLLOWER_MAX


def test_only_its_owner_goes_on_with_a_session_and_only_in_order() -> None:
    """Another broker's id, or another epoch than the next, is refused."""
    sessions = FetchSessions(10, 1)
    session = opened(sessions, Connection())
    assert sessions.resume_for_follower(session.id, 1, True, 2) is session
    for epoch, replica, code in (
        (1, 2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (2, 3, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ):
        with pytest.raises(KafkaError) as refused:
            sessions.resume_for_follower(session.id, epoch, True, replica)
        assert refused.value.code == code
    assert sessions.resume_for_follower(session.id, 2, True, 2) is session


def test_appends_are_news_once_and_high_watermarks_are_quiet() -> None:
    """The fetch that waits is woken by the first append, not by each, and not by what is committed."""
    woken: list[object] = []
    partition = leading()
    session = FollowerSession(1, 2, True, Connection(), woken.append)
    position = session.follow((TOPIC_ID, 0), partition)
    session.news.clear()
    session.waiting = True
    partition.note_follower(2, 0, 0, 0)
    for _ in range(3):
        send(partition)
    assert woken == [session] and list(session.news) == [position] and not session.waiting
    session.news.clear()
    session.waiting = True
    partition.note_follower(2, 3, 0, 0)
    assert partition.high_watermark == 3 and woken == [session] and list(session.quiet) == [position]
