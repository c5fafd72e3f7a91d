"""Listeners, the accept loop, and what watches over all connections together: limits, idle ones, the clean stop."""

from __future__ import annotations

import errno
import logging
import socket
from collections import Counter
from collections.abc import Container
from typing import TYPE_CHECKING

import trio

from kafkapy.errors import StartError
from kafkapy.server.connection import Connection, plain_address

if TYPE_CHECKING:
    from kafkapy.config.broker_config import BrokerConfig, Listener
    from kafkapy.server.dispatch import Dispatcher
    from kafkapy.server.memory import MemoryPool
    from kafkapy.server.readiness import Readiness

log = logging.getLogger("kafkapy.server")

# accept() fails with these when the process or the machine is out of something; waiting helps, giving up does not.
ACCEPT_OVERLOAD_ERRNOS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}
ACCEPT_RETRY_S = 0.1

# New connections are taken in one go up to this number, so that a rush does not overflow the kernel's queue, where each loser waits a second.
ACCEPTS_PER_TURN = 64

# Kafka's default for socket.listen.backlog.size is 50, which a rush of clients fills in a millisecond; the key can only ask for more than this.
LISTEN_BACKLOG_MIN = 1024

# How often connections are looked over for idle ones; `connections.max.idle.ms` is minutes, large buffers should go sooner.
SWEEP_INTERVAL_S = 5.0

# How long a stopping broker waits for peers to take the answers that are on their way.
STOP_GRACE_S = 3.0


class AddressMissingError(StartError):
    """A listener's address is none of this machine's."""


class Server:
    """All listeners and connections of one broker."""

    def __init__(self, config: BrokerConfig, pool: MemoryPool, readiness: Readiness) -> None:
        self.config = config
        self._pool = pool
        pool.reclaim = self._shrink_idle
        self._readiness = readiness
        self._sockets: list[tuple[Listener, socket.socket]] = []
        self._connections: set[Connection] = set()
        self._per_address: Counter[str] = Counter()
        self._room: trio.Event | None = None
        self._swept = False
        self.stopping = False

    # ---- listeners

    def bind(self, listeners: list[Listener]) -> dict[str, tuple[str, int]]:
        """Open all listening sockets; the result is each listener's host and actual port."""
        bound: dict[str, tuple[str, int]] = {}
        for listener in listeners:
            bound[listener.name] = (listener.host, self._bind_all_addresses(listener))
        return bound

    def _bind_all_addresses(self, listener: Listener) -> int:
        """Listen at every address of the listener's host; the result is the port."""
        port = listener.port
        backlog = max(LISTEN_BACKLOG_MIN, self.config.socket_listen_backlog_size)
        missing: AddressMissingError | None = None
        served = 0
        for family, address in _addresses(listener.host, listener.port):
            try:
                sock = _listen(listener, family, (address, port), backlog)
            except AddressMissingError as error:
                # In many containers localhost has an IPv6 address that the machine lacks; its other address is enough.
                missing = error
                continue
            served += 1
            port = sock.getsockname()[1]
            self._sockets.append((listener, sock))
        if missing is not None and not served:
            raise missing
        return port

    async def serve(self, dispatcher: Dispatcher, listeners: Container[Listener]) -> None:
        """Accept and serve on these listeners until cancelled. Until then, who connects waits in the kernel's queue."""
        async with trio.open_nursery() as nursery:
            for listener, sock in self._sockets:
                if listener in listeners:
                    nursery.start_soon(self._accept_loop, listener, sock, dispatcher, nursery)
            if not self._swept:
                self._swept = True
                nursery.start_soon(self._sweep_loop)

    async def _accept_loop(
        self, listener: Listener, listening: socket.socket, dispatcher: Dispatcher, nursery: trio.Nursery
    ) -> None:
        if listening.fileno() < 0:
            return  # closed before its task had a turn
        self._readiness.watch(listening.fileno())
        while not self.stopping:
            if self._is_full:
                # As Kafka does, new connections wait in the kernel's backlog until one closes.
                await self._a_close()
                continue
            try:
                await trio.lowlevel.wait_readable(listening)
                for _ in range(ACCEPTS_PER_TURN):
                    if self._is_full:  # another listener may have taken the last place meanwhile
                        break
                    sock, address = listening.accept()
                    self._admit(sock, plain_address(address[0]), listener, dispatcher, nursery)
            except BlockingIOError:
                continue
            except trio.ClosedResourceError:
                return  # the broker stops
            except OSError as error:
                if error.errno not in ACCEPT_OVERLOAD_ERRNOS:
                    log.info("accept failed: %s", error)
                    continue
                log.error("cannot accept connections: %s; raise the limit of open files (ulimit -n)", error)
                await trio.sleep(ACCEPT_RETRY_S)

    def _admit(
        self, sock: socket.socket, host: str, listener: Listener, dispatcher: Dispatcher, nursery: trio.Nursery
    ) -> None:
        limit = self.config.max_connections_per_ip
        if self._per_address[host] >= limit:
            log.warning("connection refused: %s has %d already (max.connections.per.ip)", host, limit)
            sock.close()
            return
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(
                sock,
                dispatcher,
                self._pool,
                self._readiness,
                nursery,
                listener.name,
                self.config.socket_request_max_bytes,
            )
        except OSError as error:  # the peer was gone before it was looked at
            log.debug("connection lost while accepting: %s", error)
            sock.close()
            return
        self._connections.add(connection)
        self._per_address[host] += 1
        nursery.start_soon(connection.run)

    def connection_closed(self, connection: Connection) -> None:
        """Called by every connection once, at its end."""
        self._connections.discard(connection)
        self._per_address[connection.client_host] -= 1
        if not self._per_address[connection.client_host]:
            del self._per_address[connection.client_host]
        if self._room is not None:
            self._room.set()
            self._room = None

    @property
    def _is_full(self) -> bool:
        return len(self._connections) >= self.config.max_connections

    async def _a_close(self) -> None:
        """Wait until a connection closes. Several may wait: all of them share one event."""
        if self._room is None:
            self._room = trio.Event()
        await self._room.wait()

    def _shrink_idle(self) -> None:
        """Large buffers that hold nothing go back to the pool."""
        for connection in self._connections:
            connection.shrink()

    @property
    def connection_count(self) -> int:
        """Open connections, for metrics and tests."""
        return len(self._connections)

    # ---- watching

    async def _sweep_loop(self) -> None:
        """Close connections that were idle for too long and take large buffers back from quiet ones."""
        idle_s = self.config.connections_max_idle_ms / 1000
        interval_s = min(SWEEP_INTERVAL_S, max(0.05, idle_s / 4)) if idle_s > 0 else SWEEP_INTERVAL_S
        while True:
            await trio.sleep(interval_s)
            now = trio.current_time()
            for connection in tuple(self._connections):
                quiet_s = now - connection.last_active
                if 0 < idle_s < quiet_s and not connection.busy:
                    log.debug("closing idle connection", extra={"client": connection.client_host})
                    connection.close()
                elif quiet_s > SWEEP_INTERVAL_S:
                    connection.shrink()

    # ---- the end

    def close_listeners(self) -> None:
        """Take no new connections."""
        for _, sock in self._sockets:
            trio.lowlevel.notify_closing(sock)
            sock.close()

    async def stop(self) -> None:
        """Take no new connections and requests, and let the answers that are under way leave."""
        self.stopping = True
        self.close_listeners()
        for connection in tuple(self._connections):
            connection.stop_reading()
        with trio.move_on_after(STOP_GRACE_S):
            while self._connections:
                await self._a_close()
        for connection in tuple(self._connections):
            connection.close()
        while self._connections:  # Their tasks let go of segment files, which are closed after this.
            await self._a_close()


def _addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
    """What to bind for a listener's host: every address of a name; for an empty host all of IPv6 and IPv4 at once."""
    if not host or host in ("0.0.0.0", "::"):
        if host != "0.0.0.0" and socket.has_dualstack_ipv6():
            return [(socket.AF_INET6, "::")]
        return [(socket.AF_INET, "0.0.0.0")]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise StartError(f"listeners: cannot resolve host {host!r}: {error.strerror}") from error
    unique = dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found)
    return [(socket.AddressFamily(family), address) for family, address in unique]


def _listen(listener: Listener, family: socket.AddressFamily, address: tuple[str, int], backlog: int) -> socket.socket:
    where = f"{address[0]}:{address[1]}"
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:  # a kernel without IPv6
        raise AddressMissingError(f"listener {listener.name}: cannot listen on {where}: {error.strerror}") from error
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # "::" alone serves IPv4 too; an explicit IPv6 address does not.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if address[0] == "::" else 1)
        sock.bind(address)
        sock.listen(backlog)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise StartError(
                f"listener {listener.name}: {where} is in use by another process; stop it, or choose another address with --listen HOST:PORT"
            ) from error
        kind = AddressMissingError if error.errno == errno.EADDRNOTAVAIL else StartError
        raise kind(f"listener {listener.name}: cannot listen on {where}: {error.strerror}") from error
    return sock
