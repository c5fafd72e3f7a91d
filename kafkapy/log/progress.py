"""What a leader knows of one follower.

A follower tells its position with each Fetch: everything before the offset it asks for is in its log. It is caught up at the moment at
which it asks for the leader's end; and when it asks for what *was* the end at its last Fetch, it was caught up then, which is how a
follower of a busy leader, always a little behind, stays in sync.

Invariant: log_start_offset <= end_offset; caught_up_ms never goes back within a leader epoch.
"""

from __future__ import annotations

UNKNOWN_OFFSET = -1


class FollowerProgress:
    """One follower as its leader sees it, within one leader epoch."""

    __slots__ = (
        "_leader_end_at_last_fetch",
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "last_fetch_ms",
        "log_start_offset",
        "replica_id",
    )

    def __init__(self, replica_id: int, now_ms: int, *, in_sync: bool) -> None:
        """A new leader gives the replicas in sync the benefit of the doubt: their time begins now."""
        self.replica_id = replica_id
        self.end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.caught_up_ms = now_ms if in_sync else 0
        self.last_fetch_ms = 0
        self.broker_epoch = -1
        self._leader_end_at_last_fetch = UNKNOWN_OFFSET

    def fetched(
        self, offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int, broker_epoch: int = -1
    ) -> None:
        """It asked for the records from `offset` on."""
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self._leader_end_at_last_fetch >= 0:
            self.caught_up_ms = max(self.caught_up_ms, self.last_fetch_ms)
        self.end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self.last_fetch_ms = now_ms
        self._leader_end_at_last_fetch = leader_end_offset

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_ms_max: int) -> bool:
        """Whether it is, or was within the allowed time (replica.lag.time.max.ms), at the leader's end."""
        return self.end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_ms_max
