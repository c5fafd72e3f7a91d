"""What a leader remembers of one follower's fetch session (KIP-227), so that serving it costs what has changed and not what it follows.

Every partition that is followed has the session among its watchers; an append or a change of role puts the partition's position into `news`,
a high watermark that rose into `quiet` (it travels with the next answer, and is no reason for one unless followers serve consumers).
An idle partition costs nothing, however many there are.

A position that was answered with records stays untouched until the follower names it again, with the offset after them: that is its
acknowledgement. So records are never sent twice, even if the follower sends a request before it has the answer to the last one.

Invariant: a position is in `news` if its partition has more for the follower, or an error, or has just been named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkapy.log.partition import Partition

UNKNOWN = -1

Key = tuple[str | bytes, int]  # topic id (or, before Fetch v13, its name) and partition


class FollowedPosition:
    """One partition that the follower copies, and how far it is."""

    __slots__ = (
        "answered", "current_leader_epoch", "fetch_offset", "key", "last_fetched_epoch", "log_start_offset", "max_bytes", "partition",
        "told_error", "told_high_watermark", "told_log_start", "verified",
    )  # fmt: skip

    def __init__(self, key: Key) -> None:
        self.key = key
        self.partition: Partition | None = None
        self.fetch_offset = 0
        self.max_bytes = 0
        self.log_start_offset = UNKNOWN
        self.current_leader_epoch = UNKNOWN
        self.last_fetched_epoch = UNKNOWN
        self.verified = False  # Its history is ours up to its offset.
        self.answered = False  # Records were sent from this offset; the follower has not said that it has them.
        self.told_high_watermark = UNKNOWN
        self.told_log_start = UNKNOWN
        self.told_error = 0


class FollowerSession:
    """One follower's session. It watches the partitions that are followed (see Partition.watchers)."""

    __slots__ = (
        "_by_partition",
        "_wake",
        "connection",
        "eager",
        "epoch",
        "id",
        "news",
        "positions",
        "quiet",
        "replica_id",
        "turn",
        "uses_topic_ids",
        "waiting",
    )

    def __init__(
        self,
        session_id: int,
        replica_id: int,
        uses_topic_ids: bool,
        connection: Any,
        wake: Callable[[Any], None],
        *,
        eager: bool = False,
    ) -> None:
        """`wake(session)` asks the fetch that waits on it again. `eager`: a high watermark that rose is worth an answer of its own."""
        self.id = session_id
        self.epoch = 1
        self.replica_id = replica_id
        self.uses_topic_ids = uses_topic_ids
        self.connection = connection
        self.eager = eager
        self.positions: dict[Key, FollowedPosition] = {}
        self.news: dict[FollowedPosition, None] = {}
        self.quiet: dict[FollowedPosition, None] = {}
        self.turn: object = None  # The request that is being answered; an earlier one that waits has to give way.
        self.waiting = False
        self._by_partition: dict[Partition, FollowedPosition] = {}
        self._wake = wake

    # What the follower says.

    def follow(self, key: Key, partition: Partition | None) -> FollowedPosition:
        """The position to write the request into; it is news until it has been looked at."""
        position = self.positions.get(key)
        if position is None:
            position = self.positions[key] = FollowedPosition(key)
        if position.partition is not partition:
            self._unwatch(position)
            position.partition = partition
            if partition is not None:
                self._by_partition[partition] = position
                partition.watchers = (*partition.watchers, self)
        position.answered = position.verified = False
        self.news[position] = None
        return position

    def forget(self, key: Key) -> None:
        """The follower copies this partition no more, or not now."""
        position = self.positions.pop(key, None)
        if position is not None:
            self._unwatch(position)
            self.news.pop(position, None)
            self.quiet.pop(position, None)

    def close(self) -> None:
        """The session ends: nothing is watched for it any longer."""
        for position in self.positions.values():
            self._unwatch(position)
        self.positions.clear()
        self.news.clear()
        self.quiet.clear()
        self.turn = None

    def _unwatch(self, position: FollowedPosition) -> None:
        partition = position.partition
        if partition is not None and self._by_partition.get(partition) is position:
            del self._by_partition[partition]
            partition.watchers = tuple(watcher for watcher in partition.watchers if watcher is not self)

    # What happens to the partitions.

    def has_news(self, partition: Partition) -> None:
        """Records came, or its role changed: the fetch that waits is asked again."""
        self.news[self._by_partition[partition]] = None
        if self.waiting:
            self.waiting = False
            self._wake(self)

    def high_watermark_rose(self, partition: Partition) -> None:
        """To be told with the next answer."""
        if self.eager:
            self.has_news(partition)
        else:
            self.quiet[self._by_partition[partition]] = None

    def outsider_fetched(self, partition: Partition, replica_id: int, now_ms: int) -> None:
        """Not of interest here."""

    def appeared(self, key: Key) -> None:
        """This broker holds a partition that it did not hold before."""
        position = self.positions.get(key)
        if position is not None:
            self.news[position] = None
            if self.waiting:
                self.waiting = False
                self._wake(self)
