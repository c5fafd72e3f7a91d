"""What the active controller does unasked: it fences who is silent, and goes on where its predecessor stopped.

The decisions are those of raft/membership.py; this is the thin shell around them, in virtual time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkapy.raft import membership
from kafkapy.raft.decision import Decision

if TYPE_CHECKING:
    from sim.broker import Broker

WATCH_US = 100_000


class ControllerSide:
    """One node's part in this, idle while another node decides."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def begin(self) -> None:
        """The node starts."""
        self.broker.simulation.at(WATCH_US, self._watch, self.broker.process)

    def elected(self) -> None:
        """From now on this node decides."""
        broker = self.broker
        broker.controller.sessions.reset(broker.controller.image, broker.now_ms)
        self._submit(membership.elect_leaderless(broker.controller.image, broker.config))

    def found_dead(self, node_id: int) -> None:
        """Where the broker listened the connection is refused."""
        if self.broker.controller.is_active:
            self.broker.controller.sessions.broken(node_id)

    def _watch(self) -> None:
        broker = self.broker
        controller = broker.controller
        if controller.is_active:
            for node_id in controller.sessions.expired(broker.now_ms, broker.config.broker_session_timeout_ms):
                registration = controller.image.brokers.get(node_id)
                if registration is not None and not registration.fenced:
                    broker.note(f"fences broker {node_id}")
                    self._submit(membership.fence_broker(controller.image, node_id, broker.config))
        broker.simulation.at(WATCH_US, self._watch, broker.process)

    def _submit(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            self.broker.controller.submit(decision, self.broker.now_ms)
