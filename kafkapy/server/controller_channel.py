"""The way to the active controller: a plain call where that is this node, a request to its listener where it is another.

    broker.controller_channel.ask(request, version, done, timeout_ms)

The asker need not know who decides: while the answer is NOT_CONTROLLER or none comes, the controller is looked for again, until the time is
over. So a request may be tried more than once, and what it asks for may then have been done already; all that goes this way is harmless to
repeat.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import trio

from kafkapy.errors import ErrorCode
from kafkapy.handlers import CONTROLLER_HANDLERS
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.wait import Wait
from kafkapy.wire.apis import API_BY_KEY

if TYPE_CHECKING:
    from kafkapy.server.broker import Broker
    from kafkapy.server.peers import Address, Peer
    from kafkapy.wire.schema import Request

log = logging.getLogger("kafkapy.controller")

# How long to wait before the controller is looked for again; an election takes some hundred milliseconds.
RETRY_MS = 30

# How soon a change of the leader is noticed while something is asked of the former one.
WATCH_S = 0.1

# One attempt; a controller that is silent for longer is given up for another one. What is forwarded has all its time: it must not be done twice.
ATTEMPT_MS = 3_000
ENVELOPE = 58

Done = Callable[[Any], None]


class _Local:
    """This node as a client of its own controller."""

    listener_name = ""
    local_address = ("127.0.0.1", 0)
    client_host = "127.0.0.1"
    closing = False

    def close(self) -> None:
        """There is no connection to end."""


class _Asked:
    """One request until it is answered; the slot of an answer that this node's own controller owes."""

    __slots__ = ("channel", "deadline", "done", "request", "version")

    def __init__(self, channel: ControllerChannel, request: Request, version: int, done: Done, deadline: float) -> None:
        self.channel = channel
        self.request = request
        self.version = version
        self.done = done
        self.deadline = deadline

    def finish(self, response: Any) -> None:
        """See waiting.Slot."""
        self.channel.answered(self, response)

    def fail(self, error: BaseException) -> None:
        """See waiting.Slot."""
        log.error("a request to this node's own controller failed", exc_info=error)
        self.channel.answered(self, None)


class ControllerChannel:
    """One per node; its connections are made when they are needed."""

    def __init__(self, broker: Broker, nursery: trio.Nursery) -> None:
        self._broker = broker
        self._nursery = nursery
        self._peers: dict[tuple[int, bool], Peer] = {}
        self._is_watching = False

    def ask(self, request: Request, version: int, done: Done, timeout_ms: int) -> None:
        """Have the active controller answer; `done(None)` says that none did in time. `done` is never called from inside of this."""
        asked = _Asked(self, request, version, done, trio.current_time() + timeout_ms / 1000)
        trio.lowlevel.current_trio_token().run_sync_soon(self._try, asked)
        self._broker.readiness.give_way()

    def later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        """Call this on the loop after a while."""
        self._nursery.start_soon(self._sleep_and_call, delay_ms, callback)

    def close_all(self) -> None:
        """The node stops."""
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()

    def answered(self, asked: _Asked, response: Any) -> None:
        """Give the answer on, or try again where it came from somebody who is not the controller."""
        code = getattr(response, "error_code", ErrorCode.NONE)
        if response is not None and code != ErrorCode.NOT_CONTROLLER:
            self._done(asked, response)
        elif trio.current_time() + RETRY_MS / 1000 >= asked.deadline:
            self._done(asked, None)
        else:
            self.later(RETRY_MS, partial(self._try, asked))

    def _peer(self, node_id: int, is_forwarded: bool) -> Peer:
        """A connection to a controller's listener. What clients have asked may take long, so it has one of its own."""
        peer = self._peers.get((node_id, is_forwarded))
        if peer is None:
            peer = self._broker.peers.at(f"controller {node_id}", partial(self._address, node_id))
            self._peers[node_id, is_forwarded] = peer
        return peer

    def _try(self, asked: _Asked) -> None:
        leader_id = self._broker.metadata.leader_id
        if self._broker.controller.is_active:
            self._call(asked)
        elif leader_id < 0 or leader_id == self._broker.config.node_id:
            self.answered(asked, None)
        else:
            left_ms = int((asked.deadline - trio.current_time()) * 1000)
            is_forwarded = asked.request.SCHEMA.key == ENVELOPE
            timeout_ms = max(1, left_ms if is_forwarded else min(left_ms, ATTEMPT_MS))
            self._peer(leader_id, is_forwarded).ask(asked.request, asked.version, asked.finish, timeout_ms)
            if not self._is_watching:
                self._is_watching = True
                self._nursery.start_soon(self._watch_leader)

    def _call(self, asked: _Asked) -> None:
        """Ask this node's own controller."""
        broker = self._broker
        key = asked.request.SCHEMA.key
        module = import_module(f"kafkapy.handlers.{CONTROLLER_HANDLERS.get(key, API_BY_KEY[key].module_name)}")
        context = RequestContext(broker, _Local(), asked.version, None, broker.clock_ms())
        try:
            answer = module.handle(context, asked.request)
        except Exception as error:  # noqa: BLE001 -- one request's fault must not stop the node; it is logged
            asked.fail(error)
            return
        if isinstance(answer, Wait):
            left_ms = max(0, int((asked.deadline - trio.current_time()) * 1000))
            limit_ms = min(answer.deadline_ms, context.now_ms + left_ms)
            broker.waiting.park(answer._replace(deadline_ms=limit_ms), asked)
        else:
            self.answered(asked, answer)
        broker.waiting.settle()

    def _done(self, asked: _Asked, response: Any) -> None:
        try:
            asked.done(response)
        except Exception:
            log.exception("the controller's answer to a %s could not be dealt with", type(asked.request).__name__)
        self._broker.waiting.settle()

    def _address(self, node_id: int) -> Address | None:
        return self._broker.metadata.voter_address(node_id)

    async def _watch_leader(self) -> None:
        """While answers are outstanding: whoever hangs is not waited for once another one leads."""
        while any(peer.busy for peer in self._peers.values()):
            await trio.sleep(WATCH_S)
            leader_id = self._broker.metadata.leader_id
            for (node_id, _), peer in self._peers.items():
                if peer.busy and leader_id not in (-1, node_id):
                    peer.abandon()
        self._is_watching = False

    async def _sleep_and_call(self, delay_ms: int, callback: Callable[[], None]) -> None:
        await trio.sleep(delay_ms / 1000)
        callback()
        self._broker.waiting.settle()
