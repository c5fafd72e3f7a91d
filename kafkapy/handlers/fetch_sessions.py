"""Incremental fetch sessions (KIP-227): what a consumer follows is remembered, so that it need not be named in every Fetch.

A session is a set of partitions with the position of each, and what was last told about each; an incremental answer carries only partitions with
news. Session ids are random-looking but come from a counter with a seed given by the shell. The cache is bounded
(`max.incremental.fetch.session.cache.slots`): as in Kafka, a new session may evict the one that has been unused for longest, if that is older than
two minutes; otherwise the client gets session id 0 and simply sends full requests.

Sessions of followers (replication/follower_session.py) share the ids and nothing else: they are few, one for each fetcher of another broker, and
are never evicted for a consumer's sake.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from kafkapy.errors import ErrorCode, KafkaError
from kafkapy.replication.follower_session import FollowerSession

EVICT_UNUSED_MS = 120_000
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
INVALID_SESSION_ID = 0
EPOCH_MAX = 0x7FFFFFFF

# Sessions that one other broker may have: its fetchers, and those of connections whose end nobody has noticed yet.
SESSIONS_PER_FOLLOWER_MAX = 64


class FetchPosition:
    """One partition that a Fetch asks for."""

    __slots__ = (
        "current_leader_epoch", "fetch_offset", "index", "last_fetched_epoch", "log_start_offset", "max_bytes", "name",
        "preferred", "told", "topic_id",
    )  # fmt: skip

    def __init__(self, name: str, topic_id: bytes, index: int) -> None:
        self.name = name
        self.topic_id = topic_id
        self.index = index
        self.fetch_offset = 0
        self.max_bytes = 0
        self.log_start_offset = -1
        self.current_leader_epoch = -1
        self.last_fetched_epoch = -1
        self.preferred = -1  # The replica to which the consumer is sent, in the answer that is being made.
        # (high watermark, log start offset, error) of the last answer: an incremental answer leaves out what has not changed.
        self.told: tuple[int, int, int] | None = None


class FetchSession:
    """What one client follows."""

    __slots__ = ("epoch", "id", "last_used_ms", "positions", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.epoch = INITIAL_EPOCH + 1
        self.uses_topic_ids = uses_topic_ids
        self.last_used_ms = now_ms
        # In the order in which they are read: a partition that gave data goes to the end, so that a busy one does not starve the rest.
        self.positions: OrderedDict[tuple[str | bytes, int], FetchPosition] = OrderedDict()

    def advance(self) -> None:
        """The epoch that the next request must carry; it wraps past the initial one."""
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def update(self, position: FetchPosition) -> None:
        """Add a partition, or take over the client's new position in it."""
        key: tuple[str | bytes, int] = (position.topic_id if self.uses_topic_ids else position.name, position.index)
        known = self.positions.get(key)
        if known is not None:
            position.told = known.told
        self.positions[key] = position

    def forget(self, topic: str | bytes, index: int) -> None:
        """Stop following a partition."""
        self.positions.pop((topic, index), None)

    def served(self, position: FetchPosition) -> None:
        """This partition gave data: it is read last next time."""
        key: tuple[str | bytes, int] = (position.topic_id if self.uses_topic_ids else position.name, position.index)
        if key in self.positions:
            self.positions.move_to_end(key)


class FetchSessions:
    """All sessions of a broker."""

    def __init__(self, slots: int, first_id: int) -> None:
        self._slots = slots
        self._next_id = first_id & EPOCH_MAX or 1
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # least recently used first
        self._followers: dict[int, FollowerSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, uses_topic_ids: bool, now_ms: int) -> FetchSession | None:
        """A new session, or None when all slots are in use by active clients."""
        if len(self._sessions) >= self._slots:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.last_used_ms < EVICT_UNUSED_MS:
                return None
            del self._sessions[oldest.id]
        session = FetchSession(self._new_id(), uses_topic_ids, now_ms)
        self._sessions[session.id] = session
        return session

    def _new_id(self) -> int:
        while self._next_id in self._sessions or self._next_id in self._followers:
            self._next_id = self._next_id % EPOCH_MAX + 1
        taken, self._next_id = self._next_id, self._next_id % EPOCH_MAX + 1
        return taken

    def resume(self, session_id: int, epoch: int, uses_topic_ids: bool, now_ms: int) -> FetchSession:
        """The session of an incremental request; its epoch is advanced."""
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        session.advance()
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session_id)
        return session

    def close(self, session_id: int) -> None:
        """Forget a session; closing one that is gone is fine."""
        self._sessions.pop(session_id, None)
        follower = self._followers.pop(session_id, None)
        if follower is not None:
            follower.close()

    # Followers.

    def create_for_follower(
        self, replica_id: int, uses_topic_ids: bool, connection: Any, wake: Callable[[Any], None], *, eager: bool
    ) -> FollowerSession:
        """A new session of a follower; those of its connections that are gone end."""
        own = [session for session in self._followers.values() if session.replica_id == replica_id]
        for session in own:
            if session.connection.closing:
                self.close(session.id)
        own = [session for session in own if session.id in self._followers]
        if len(own) >= SESSIONS_PER_FOLLOWER_MAX:
            self.close(own[0].id)
        session = FollowerSession(self._new_id(), replica_id, uses_topic_ids, connection, wake, eager=eager)
        self._followers[session.id] = session
        return session

    def resume_for_follower(
        self, session_id: int, epoch: int, uses_topic_ids: bool, replica_id: int
    ) -> FollowerSession:
        """The session of a follower's incremental request; its epoch is advanced."""
        session = self._followers.get(session_id)
        if session is None or session.replica_id != replica_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        return session

    def partition_appeared(self, name: str, topic_id: bytes, index: int) -> None:
        """This broker holds a partition that followers may have asked for in vain."""
        for session in self._followers.values():
            session.appeared((topic_id if session.uses_topic_ids else name, index))
