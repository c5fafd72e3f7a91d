"""What the active controller does unasked: it notices dead brokers and fences them, and makes good what its predecessor has left undone.

A broker that is alive sends heartbeats. Silence for broker.session.timeout.ms means that it hangs or cannot be reached. A broken connection is
looked into at once: if the broker's own listener refuses, then there is no process, and it is fenced without waiting. After an election
nobody has been heard of yet, and somebody's death may have been the reason for it, so all brokers are looked at in the same way.

What is decided here is decided like any request: a function of the image gives the records (raft/membership.py).
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import trio

from kafkapy.errors import KafkaError
from kafkapy.raft.membership import elect_leaderless, fence_broker
from kafkapy.server.peers import connect, resolve

if TYPE_CHECKING:
    from kafkapy.raft.decision import Decision
    from kafkapy.server.broker import Broker

log = logging.getLogger("kafkapy.controller")

# A process that dies closes its sockets one by one, so its listener may answer for a moment more. Looked at after these pauses, as long as
# nothing is heard from it.
BROKEN_PAUSES_S = (0.0, 0.02, 0.1, 0.3)
ELECTED_PAUSES_S = (0.0, 0.2, 0.5)
PROBE_TIMEOUT_S = 1.0
# Sessions are looked at when the next one would end, but not more often than this, and for new ones at least this often.
TICK_MIN_S = 0.02
TICK_MAX_S = 1.0
# A controller that looks again only after so long has been asleep itself.
STOOD_STILL_MS = 2_000


class ControllerDuties:
    """Of one controller; at work while it is the active one."""

    def __init__(self, broker: Broker, nursery: trio.Nursery) -> None:
        self._broker = broker
        self._nursery = nursery
        self._scope: trio.CancelScope | None = None
        self._by_connection: dict[Any, int] = {}
        self._heard: dict[int, float] = {}
        self._sleep = trio.CancelScope()

    def begin(self) -> None:
        """This node decides from now on."""
        self.end()
        broker = self._broker
        controller = broker.controller
        controller.sessions.reset(controller.image, broker.clock_ms())
        self._heard = {}
        self._scope = trio.CancelScope()
        self._submit(elect_leaderless(controller.image, broker.config))
        self._nursery.start_soon(self._run, self._scope)
        for broker_id, registered in controller.image.brokers.items():
            if not registered.fenced and broker_id != broker.config.node_id:
                self._nursery.start_soon(self._probe, broker_id, self._scope, ELECTED_PAUSES_S)

    def end(self) -> None:
        """Another node does."""
        if self._scope is not None:
            self._scope.cancel()
            self._scope = None

    def heard(self, broker_id: int, connection: Any) -> None:
        """A heartbeat has come over this connection. What it says is checked later, so only ids that there are are remembered."""
        if broker_id not in self._broker.controller.image.brokers:
            return
        self._by_connection[connection] = broker_id
        self._heard[broker_id] = trio.current_time()

    def connection_closed(self, connection: Any) -> None:
        """If it was a broker's, see whether the broker is gone with it."""
        broker_id = self._by_connection.pop(connection, None)
        if broker_id is not None and self._scope is not None and broker_id not in self._by_connection.values():
            self._nursery.start_soon(self._probe, broker_id, self._scope, BROKEN_PAUSES_S)

    # ---- inside

    async def _run(self, scope: trio.CancelScope) -> None:
        with scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._balance_for_ever)
                nursery.start_soon(self._elect_uncleanly_for_ever)
                await self._watch_for_ever()

    async def _watch_for_ever(self) -> None:
        broker = self._broker
        looked_ms = broker.clock_ms()
        while True:
            timeout_ms = broker.config.broker_session_timeout_ms
            now_ms = broker.clock_ms()
            if now_ms - looked_ms > STOOD_STILL_MS:
                # Heartbeats may have come meanwhile and wait to be read: silence is no longer what it seems.
                log.warning("this process stood still for %d ms; everybody gets a fresh session", now_ms - looked_ms)
                broker.controller.sessions.reset(broker.controller.image, now_ms)
            looked_ms = now_ms
            for broker_id in broker.controller.sessions.expired(now_ms, timeout_ms):
                self._fence(broker_id, f"nothing was heard from it for {timeout_ms} ms")
            due_ms = broker.controller.sessions.next_deadline(timeout_ms)
            pause_s = TICK_MAX_S if due_ms is None else max(TICK_MIN_S, (due_ms - now_ms) / 1000)
            await trio.sleep(min(TICK_MAX_S, pause_s))

    async def _balance_for_ever(self) -> None:
        """Leaderships go back to the preferred replicas by themselves, unless auto.leader.rebalance.enable is off."""
        broker = self._broker
        while True:
            await trio.sleep(broker.config.leader_imbalance_check_interval_seconds)
            if broker.config.auto_leader_rebalance_enable and broker.controller.is_active:
                from kafkapy.raft.elections import preferred_elections

                self._submit(preferred_elections(broker.controller.image, broker.config))

    async def _elect_uncleanly_for_ever(self) -> None:
        """Where unclean.leader.election.enable is on no partition stays without a leader for long."""
        broker = self._broker
        while True:
            await trio.sleep(broker.config.unclean_leader_election_interval_ms / 1000)
            if broker.controller.is_active:
                from kafkapy.raft.elections import unclean_elections

                self._submit(unclean_elections(broker.controller.image, broker.config))

    async def _probe(self, broker_id: int, scope: trio.CancelScope, pauses_s: Iterable[float]) -> None:
        """Look whether the broker's listener refuses; give up once it was heard of again."""
        began = trio.current_time()
        for pause_s in pauses_s:
            await trio.sleep(pause_s)
            registered = self._broker.controller.image.brokers.get(broker_id)
            if scope is not self._scope or registered is None or registered.fenced:
                return
            if self._heard.get(broker_id, 0.0) > began:
                return
            if await self._is_refused(broker_id):
                self._broker.controller.sessions.forget(broker_id)
                self._fence(broker_id, "its connection has broken and nobody listens at its address")
                return

    async def _is_refused(self, broker_id: int) -> bool:
        """Whether the host of the broker says that there is no such process."""
        address = self._broker.peers.address(broker_id)
        if address is None:
            return False
        refused = False
        with trio.move_on_after(PROBE_TIMEOUT_S):
            try:
                for family, place in await resolve(address):
                    try:
                        (await connect(family, place)).close()
                    except OSError as error:
                        refused = refused or error.errno == errno.ECONNREFUSED
                    else:
                        return False
            except OSError as error:
                log.warning("cannot find broker %d at %s:%d: %s", broker_id, *address, error)
            return refused
        return False

    def _fence(self, broker_id: int, reason: str) -> None:
        controller = self._broker.controller
        registered = controller.image.brokers.get(broker_id)
        if not controller.is_active or registered is None or registered.fenced:
            return
        log.warning("broker %d is fenced: %s", broker_id, reason)
        self._submit(fence_broker(controller.image, broker_id, self._broker.config))

    def _submit(self, decisions: Sequence[Decision]) -> None:
        try:
            for decision in decisions:
                self._broker.controller.submit(decision, self._broker.clock_ms())
        except KafkaError as error:
            log.info("not the active controller any more: %s", error)
