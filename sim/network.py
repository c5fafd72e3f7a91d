"""The network between processes: connections that deliver in order or break, with links that are slow or cut, one way or both.

What TCP promises holds: on one connection messages arrive in the order in which they were sent and once, or not at all. Everything else is drawn:
each message has its own delay, so connections overtake each other; a connection may break with messages in it, of which the first few arrive; over a
link that is cut messages wait, and arrive late when it heals before somebody gives up. A request whose answer is lost may have been carried out: who
asks again repeats it, which is how a message comes twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from sim.events import Process, Simulation, Timer

Answer = Callable[[Any], None]
Done = Callable[[Any], None]
Handler = Callable[[Any, Any, int, Answer], None]

# How soon the other end of a dead process notices, when the link works.
RESET_DELAY_US = 300


class Connection:
    """One connection from `client` to `server`, for requests and their answers."""

    listener_name = "PLAINTEXT"
    local_address = ("127.0.0.1", 9092)
    client_host = "127.0.0.1"

    __slots__ = (
        "_answers",
        "_arrivals",
        "_asks",
        "_held",
        "client",
        "is_open",
        "network",
        "on_closed",
        "on_server_closed",
        "server",
    )

    def __init__(self, network: Network, client: Process, server: Process) -> None:
        self.network = network
        self.client = client
        self.server = server
        self.is_open = True
        self.on_closed: Callable[[], None] | None = None  # told to the client's end
        self.on_server_closed: Callable[[], None] | None = None
        self._answers: deque[_Slot] = deque()  # what the server owes, in the order of the requests
        self._asks: dict[int, _Ask] = {}
        self._arrivals = [0, 0]
        self._held: tuple[list[Callable[[], None]], list[Callable[[], None]]] = ([], [])

    def ask(self, request: Any, version: int, done: Done, timeout_ms: int) -> None:
        """Send a request. `done` is called once: with the answer, or with None when there is none (then the connection is closed)."""
        if not self.is_open:
            self.network.simulation.at(0, lambda: done(None), self.client)
            return
        ask = _Ask(self, done)
        self._asks[id(ask)] = ask
        ask.timer = self.network.simulation.timer(timeout_ms * 1000, ask.expired, self.client)

        def arrive() -> None:
            slot = _Slot(ask)
            self._answers.append(slot)

            def answer(response: Any) -> None:
                slot.response, slot.is_done = response, True
                self._flush()

            handler = self.network.handlers[self.server.name]
            handler(self, request, version, answer)

        self._send(0, arrive)

    @property
    def closing(self) -> bool:
        """As handlers ask for it."""
        return not self.is_open

    def _flush(self) -> None:
        """Answers leave in the order of their requests."""
        while self.is_open and self._answers and self._answers[0].is_done:
            slot = self._answers.popleft()
            self._send(1, lambda slot=slot: slot.ask.finish(slot.response))  # type: ignore[misc]

    def tell(self, message: Callable[[], None], *, to_server: bool) -> None:
        """Send something that is not answered: `message` is called at the other end when it arrives."""
        if self.is_open:
            self._send(0 if to_server else 1, message)

    def close(self, *, silently: bool = False) -> None:
        """Break: what is under way is lost. Silently: the client's end isn't told, its requests run into their timeouts."""
        if not self.is_open:
            return
        self.is_open = False
        self.network.connections.pop(self, None)
        for held in self._held:
            held.clear()
        if self.on_server_closed is not None:
            self.network.simulation.at(RESET_DELAY_US, self.on_server_closed, self.server, timer=False)
        if silently:
            return
        asks, self._asks = self._asks, {}
        simulation = self.network.simulation
        for ask in asks.values():
            if ask.timer is not None:
                ask.timer.cancel()
            simulation.at(RESET_DELAY_US, ask.lost, self.client, timer=False)
        if self.on_closed is not None:
            simulation.at(RESET_DELAY_US, self.on_closed, self.client, timer=False)

    def released(self) -> None:
        """A link has healed: what waited goes on."""
        for direction in (0, 1):
            ends = (self.client, self.server) if direction == 0 else (self.server, self.client)
            if self._held[direction] and not self.network.is_cut(*ends):
                held = list(self._held[direction])
                self._held[direction].clear()
                for message in held:
                    self._send(direction, message)

    def _send(self, direction: int, message: Callable[[], None]) -> None:
        source, target = (self.client, self.server) if direction == 0 else (self.server, self.client)
        if self.network.is_cut(source, target):
            self._held[direction].append(message)
            return
        simulation = self.network.simulation
        arrival = max(simulation.now_us + self.network.delay_us(source, target), self._arrivals[direction] + 1)
        self._arrivals[direction] = arrival

        def arrive() -> None:
            if self.is_open:
                message()

        simulation.at(arrival - simulation.now_us, arrive, target, timer=False)


class _Slot:
    """The place of an answer in the order of a connection."""

    __slots__ = ("ask", "is_done", "response")

    def __init__(self, ask: _Ask) -> None:
        self.ask = ask
        self.is_done = False
        self.response: Any = None


class _Ask:
    """A request under way."""

    __slots__ = ("connection", "done", "timer")

    def __init__(self, connection: Connection, done: Done) -> None:
        self.connection = connection
        self.done: Done | None = done
        self.timer: Timer | None = None

    def finish(self, response: Any) -> None:
        self.connection._asks.pop(id(self), None)
        if self.timer is not None:
            self.timer.cancel()
        done, self.done = self.done, None
        if done is not None:
            done(response)

    def lost(self) -> None:
        done, self.done = self.done, None
        if done is not None:
            done(None)

    def expired(self) -> None:
        self.connection.close()
        self.lost()


class Network:
    """Who can reach whom, how fast, and the connections that are open."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.handlers: dict[str, Handler] = {}
        self.connections: dict[Connection, None] = {}
        self.cut: set[tuple[str, str]] = set()
        self.slow: dict[tuple[str, str], int] = {}  # how much longer a link takes at most
        self.latency_us = (50, 1500)
        self._dice = simulation.dice("network")

    def connect(self, client: Process, server: Process) -> Connection | None:
        """A new connection; None where it would be refused or not come about."""
        if not server.is_alive or self.is_cut(client, server) or self.is_cut(server, client):
            return None
        connection = Connection(self, client, server)
        self.connections[connection] = None
        return connection

    def is_cut(self, source: Process, target: Process) -> bool:
        """Whether nothing passes in this direction now."""
        return (source.name, target.name) in self.cut

    def delay_us(self, source: Process, target: Process) -> int:
        """How long the next message takes."""
        low, high = self.latency_us
        extra = self.slow.get((source.name, target.name), 0)
        return self._dice.randrange(low, high) + (self._dice.randrange(extra) if extra else 0)

    # Faults.

    def cut_links(self, links: set[tuple[str, str]]) -> None:
        """From now on nothing passes there."""
        self.cut |= links

    def heal(self) -> None:
        """All links work, and at full speed."""
        self.cut.clear()
        self.slow.clear()
        for connection in list(self.connections):
            connection.released()

    def died(self, process: Process) -> None:
        """Its connections break; whoever cannot be told finds out by its own timeouts."""
        for connection in list(self.connections):
            if process in (connection.client, connection.server):
                connection.close(silently=self.is_cut(connection.server, connection.client))

    def break_one(self) -> Connection | None:
        """A connection breaks for no reason."""
        if not self.connections:
            return None
        connection = self._dice.choice(list(self.connections))
        connection.close()
        return connection
