"""Sends what replication/isr.py decides: at once where a replica has caught up; twice in replica.lag.time.max.ms, and
whenever a broker comes or goes, it looks for those that are late or may join."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkapy.handlers.wait import METADATA_CHANGED, Wait
from kafkapy.replication.isr import ALTER_PARTITION_VERSION, REFUSED_MS, IsrTracker
from kafkapy.server.waiting import NOBODY

if TYPE_CHECKING:
    from kafkapy.log.partition import Partition
    from kafkapy.server.broker import Broker

TIMEOUT_MS = 5_000
CHECK_MS_MIN = 10


class IsrSender:
    """The in-sync replicas of what this broker leads. Nothing runs before the first partition with several replicas."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        config = broker.config
        self._tracker = IsrTracker(
            config.node_id,
            config.replica_lag_time_max_ms,
            is_eligible=self._is_eligible,
            committed=broker.high_watermark_rose,
            kick=self._kick,
            lag_messages_max=config.kafkapy_replica_lag_max_messages,
        )
        self._kicked = False
        self._brokers = broker.image.brokers
        self._check_later()

    def watch(self, partition: Partition) -> None:
        """Watch over a partition that this broker is about to lead."""
        if self._tracker not in partition.watchers:
            partition.watchers = (*partition.watchers, self._tracker)

    def _is_eligible(self, replica_id: int, broker_epoch: int) -> bool:
        """Whether the metadata lets this incarnation of a broker into an ISR."""
        registration = self._broker.image.brokers.get(replica_id)
        if registration is None or not registration.is_active:
            return False
        return broker_epoch in (-1, registration.epoch)

    def _kick(self) -> None:
        """There is something to send: it leaves when the current piece of work is done, with everything that it brings about."""
        if not self._kicked:
            self._kicked = True
            self._broker.controller_channel.later(0, self._send)

    def _send(self) -> None:
        self._kicked = False
        request = self._tracker.next_request(self._broker.clock_ms(), self._broker.metadata.broker_epoch)
        if request is not None:
            self._broker.controller_channel.ask(request, ALTER_PARTITION_VERSION, self._answered, TIMEOUT_MS)

    def _answered(self, response: Any) -> None:
        now_ms = self._broker.clock_ms()
        self._tracker.answered(response, now_ms)
        self._tracker.check(now_ms)  # Whoever caught up while the request was on its way could not be asked for.
        if self._tracker.has_refusals:
            self._broker.controller_channel.later(REFUSED_MS, self._check_refused)
        again_ms = self._tracker.retry_at_ms()
        if again_ms is not None:
            self._broker.controller_channel.later(max(0, again_ms - now_ms), self._send)

    def _check_refused(self) -> None:
        self._tracker.check(self._broker.clock_ms())

    def _check_later(self) -> None:
        pause_ms = max(CHECK_MS_MIN, self._broker.config.replica_lag_time_max_ms // 2)
        self._broker.waiting.park(Wait((METADATA_CHANGED,), self._broker.clock_ms() + pause_ms, self._check), NOBODY)

    def _check(self, expired: bool) -> bool | None:
        """Also when a broker has come or gone: its replicas may have caught up before it was allowed into an ISR."""
        brokers = self._broker.image.brokers
        if not expired and brokers is self._brokers:
            return None
        self._brokers = brokers
        self._tracker.check(self._broker.clock_ms())
        self._check_later()
        return True
