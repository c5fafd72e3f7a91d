"""Of whom the active controller has heard, and when. It isn't in the metadata log: a new controller gives everybody a fresh session.

A session lives from one heartbeat to the next. A broker whose session ends is to be fenced, whether it was silent for too long
(`expired`) or its connection was found dead (`broken`). Fenced brokers that send heartbeats have sessions too: by them a second process
with the same node id is told from a restart.
"""

from __future__ import annotations

from collections.abc import Container

from kafkapy.raft.image import MetadataImage

_OFFSET_MAX = 2**63 - 1
_NEVER_MS = -(2**62)


class _Session:
    """What is known of one broker."""

    __slots__ = ("epoch", "is_heard", "last_contact_ms", "metadata_offset", "shutdown_offset")

    def __init__(self, epoch: int, now_ms: int) -> None:
        self.epoch = epoch
        self.last_contact_ms = now_ms
        self.is_heard = False
        self.metadata_offset = -1
        self.shutdown_offset: int | None = None


class BrokerSessions:
    """All sessions. Every time is of one clock, whichever the caller takes."""

    __slots__ = ("_sessions",)

    def __init__(self) -> None:
        self._sessions: dict[int, _Session] = {}

    def reset(self, image: MetadataImage, now_ms: int) -> None:
        """This node decides from now on: whoever isn't fenced counts as heard of now."""
        self._sessions = {
            broker.id: _Session(broker.epoch, now_ms) for broker in image.brokers.values() if not broker.fenced
        }

    def contact(self, broker_id: int, epoch: int, now_ms: int, metadata_offset: int = -1) -> None:
        """A heartbeat has come; the broker has read the metadata up to and including this offset."""
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            session = self._sessions[broker_id] = _Session(epoch, now_ms)
        session.is_heard = True
        session.last_contact_ms = max(session.last_contact_ms, now_ms)
        session.metadata_offset = max(session.metadata_offset, metadata_offset)

    def broken(self, broker_id: int) -> None:
        """Nobody listens any more where the broker was: `expired` names it next, however short its silence is."""
        session = self._sessions.get(broker_id)
        if session is not None:
            session.last_contact_ms = _NEVER_MS

    def forget(self, broker_id: int) -> None:
        """The broker is fenced, gone, or another process."""
        self._sessions.pop(broker_id, None)

    def is_alive(self, broker_id: int, epoch: int, now_ms: int, timeout_ms: int) -> bool:
        """Whether this registration of the broker was heard of lately."""
        session = self._sessions.get(broker_id)
        return session is not None and session.epoch == epoch and now_ms < session.last_contact_ms + timeout_ms

    def expired(self, now_ms: int, timeout_ms: int) -> list[int]:
        """The brokers whose sessions have ended; they are forgotten, and those that aren't fenced are to be fenced."""
        ended = sorted(
            broker_id for broker_id, session in self._sessions.items() if session.last_contact_ms + timeout_ms <= now_ms
        )
        for broker_id in ended:
            del self._sessions[broker_id]
        return ended

    def next_deadline(self, timeout_ms: int) -> int | None:
        """When the next session ends if nothing is heard; None where there are none."""
        if not self._sessions:
            return None
        return min(session.last_contact_ms for session in self._sessions.values()) + timeout_ms

    def unheard(self) -> list[int]:
        """Those whose sessions this controller has only taken on trust: they may have died with its predecessor."""
        return sorted(broker_id for broker_id, session in self._sessions.items() if not session.is_heard)

    # A controlled shutdown ends when everybody knows the new leaders.

    def shuts_down_at(self, broker_id: int, offset: int) -> None:
        """The broker's leaderships have been moved away by records up to this offset. The first time counts."""
        session = self._sessions.get(broker_id)
        if session is not None and session.shutdown_offset is None:
            session.shutdown_offset = offset

    def may_shut_down(self, broker_id: int, active: Container[int]) -> bool:
        """Whether all active brokers have read who leads instead of this one. A new controller doesn't know since when, and lets it go."""
        session = self._sessions.get(broker_id)
        if session is None or session.shutdown_offset is None:
            return True
        known = (
            other.metadata_offset
            for other_id, other in self._sessions.items()
            if other_id in active and other_id != broker_id
        )
        return session.shutdown_offset <= min(known, default=_OFFSET_MAX)
