"""The connections over which this broker copies what others lead: one for each leader (num.replica.fetchers of them, if that is more).

What to ask and what to do with the answers is decided in replication/follower.py. Here are the connection, the clock, and the disk's checkpoints.
An answer's records are views of the connection's buffer: they are in the log before `_answered` returns.

A fetcher whose partitions have all gone elsewhere is closed at once. Timers are waits without keys.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kafkapy.handlers.wait import Wait
from kafkapy.hashing import java_hash
from kafkapy.replication.follower import FETCH_VERSION, LIST_OFFSETS_VERSION, FetchSettings, LeaderFetcher
from kafkapy.server.waiting import NOBODY
from kafkapy.wire.messages.fetch import FetchRequest

if TYPE_CHECKING:
    from kafkapy.errors import StorageError
    from kafkapy.log.partition import Partition
    from kafkapy.server.broker import Broker
    from kafkapy.server.waiting import Parked

# A fetch that the leader holds back for replica.fetch.wait.max.ms must not be given up just then.
ANSWER_SLACK_MS = 1_000


class ReplicaFetchers:
    """All of them. Also the host of their decisions (see FollowerHost)."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._fetchers: dict[tuple[int, int], _Fetcher] = {}
        self._started = False

    def start(self) -> None:
        """The logs are checked: from now on they may be opened and written."""
        self._started = True
        self.pump()

    def stop(self) -> None:
        """The logs are about to be closed: nothing is copied any more."""
        self._started = False
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()

    def follow(self, partition: Partition) -> None:
        """Copy a partition from the leader that it names, and from no other. `pump` makes it happen."""
        config = self.broker.config
        count = config.num_replica_fetchers
        topic, index = partition.topic_partition
        number = (31 * java_hash(topic) + index) % count if count > 1 else 0
        key = (partition.leader_id, number)
        self._leave_others(partition, key)
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            settings = FetchSettings(
                config.replica_fetch_wait_max_ms,
                config.replica_fetch_min_bytes,
                config.replica_fetch_response_max_bytes,
                config.replica_fetch_max_bytes,
                config.replica_fetch_backoff_ms,
            )
            core = LeaderFetcher(partition.leader_id, config.node_id, settings, self)
            fetcher = self._fetchers[key] = _Fetcher(self, core)
        fetcher.core.follow(partition)

    def unfollow(self, partition: Partition) -> None:
        """Copy it from nobody."""
        self._leave_others(partition, None)

    def _leave_others(self, partition: Partition, but: tuple[int, int] | None) -> None:
        for key, fetcher in self._fetchers.items():
            if key != but:
                fetcher.core.unfollow(partition)

    def pump(self) -> None:
        """Send what is to be sent, after changes."""
        for key, fetcher in list(self._fetchers.items()):
            if not len(fetcher.core):
                del self._fetchers[key]
                fetcher.close()
            elif self._started:
                fetcher.pump()

    # What followers have done (FollowerHost).

    def storage_failed(self, error: StorageError) -> None:
        """See FollowerHost."""
        self.broker.storage_failed(error)

    def truncate(self, partition: Partition, offset: int, now_ms: int) -> None:
        """See FollowerHost."""
        self.broker.logs.before_truncation(partition.topic_partition, offset)
        self._unlink_later(partition, partition.truncate_to(offset, now_ms))

    def start_anew(self, partition: Partition, offset: int, now_ms: int) -> None:
        """See FollowerHost."""
        self.broker.logs.before_truncation(partition.topic_partition, 0)
        self._unlink_later(partition, partition.truncate_fully_and_start_at(offset, now_ms))

    def committed(self, partition: Partition) -> None:
        """See FollowerHost."""
        self.broker.wake(partition)

    def may_fetch(self, partition: Partition, now_ms: int) -> int:
        """See FollowerHost."""
        throttle = partition.follower_throttle
        if throttle is None or self.broker.config.node_id in partition.isr:
            return 0
        return throttle.wait_ms(now_ms)

    def received(self, partition: Partition, size: int, now_ms: int) -> None:
        """See FollowerHost."""
        if partition.follower_throttle is not None:
            partition.follower_throttle.take(size, now_ms)

    def _unlink_later(self, partition: Partition, paths: list[str]) -> None:
        if paths:
            self.broker.deleter.delete_later(paths, partition.log.config.file_delete_delay_ms)


class _Fetcher:
    """One connection to one leader."""

    __slots__ = ("_broker", "_closed", "_due_ms", "_peer", "_timer", "core")

    def __init__(self, fetchers: ReplicaFetchers, core: LeaderFetcher) -> None:
        self._broker = fetchers.broker
        self.core = core
        self._peer = self._broker.peers.dedicated(core.leader_id, f"replica-{core.node_id}")
        self._timer: Parked | None = None
        self._due_ms = 0
        self._closed = False

    def pump(self) -> None:
        """Send what is to be sent now, and come back when there will be something."""
        broker, core = self._broker, self.core
        now_ms = broker.clock_ms()
        broker_epoch = broker.metadata.broker_epoch
        while (request := core.next_request(now_ms, broker_epoch)) is not None:
            timeout_ms = max(broker.config.replica_socket_timeout_ms, core.settings.wait_max_ms + ANSWER_SLACK_MS)
            version = FETCH_VERSION if isinstance(request, FetchRequest) else LIST_OFFSETS_VERSION
            self._peer.ask(request, version, partial(self._answered, request), timeout_ms)
        due_ms = core.next_time_ms()
        if due_ms is not None and (self._timer is None or due_ms < self._due_ms):
            self._set_timer(due_ms)

    def close(self) -> None:
        """Nothing is copied from this leader any more."""
        self._closed = True
        self._peer.close()
        if self._timer is not None:
            self._broker.waiting.forget(self._timer)
            self._timer = None

    def _answered(self, request: Any, response: Any) -> None:
        if self._closed:
            return
        try:
            self.core.answered(request, response, self._broker.clock_ms())
        finally:
            # Also after a fault of ours: the connection is broken for it, and what has been asked by then begins anew.
            self.pump()

    def _set_timer(self, due_ms: int) -> None:
        if self._timer is not None:
            self._broker.waiting.forget(self._timer)
        self._due_ms = due_ms
        self._timer = self._broker.waiting.park(Wait((), due_ms, self._time_has_come), NOBODY)

    def _time_has_come(self, expired: bool) -> bool:
        self._timer = None
        if not self._closed:
            self.pump()
        return True
