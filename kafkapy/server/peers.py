"""The asking side of a connection: what this node wants from another one, pipelined on one socket.

    peer = broker.peers.to(2)                                # shared, for coordinators and the like
    peer = broker.peers.dedicated(2)                         # a connection of one's own, for a fetcher; `close` it in the end
    peer.ask(request, version, done, timeout_ms)             # from anywhere on the loop; returns at once

`done(response)` runs on the loop. `done(None)` says that no answer came: the connection could not be made, broke, or the time was over. It is called
exactly once for every `ask`, and never from inside of `ask`. `version` is the newest one wanted; a peer that is older is asked in its newest.

Theory of operation. One task per peer connects when something has been asked, and sees to the end. What arrives goes into one buffer, in calls from
`readiness.py`, and each answer to whoever asked, in the order of the requests, which is how Kafka answers. The `records` of an answer
are views of that buffer, so they are valid during `done` only: nothing is copied between the socket and the log. An answer that is late breaks
the connection, because everything behind it would be late too. While a connection cannot be made, what is asked waits for the next attempt, so
that somebody who asks again at once is held to the pace of the attempts.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from kafkapy.errors import ProtocolError
from kafkapy.limits import CONNECTION_BUFFER_BYTES_KEPT, CONNECTION_BUFFER_BYTES_MIN
from kafkapy.wire.apis import API_BY_KEY
from kafkapy.wire.header import skip_header_tags

if TYPE_CHECKING:
    from kafkapy.server.broker import Broker
    from kafkapy.server.readiness import Readiness
    from kafkapy.wire.schema import Request

log = logging.getLogger("kafkapy.peers")

Address = tuple[str, int]
Done = Callable[[Any], None]

_INT32 = struct.Struct(">i")
_HEADER = struct.Struct(">ihhi")  # size, api key, version, correlation id
_CORRELATION_AT = 8

# Kafka's reconnect.backoff.ms and reconnect.backoff.max.ms.
BACKOFF_MIN_S = 0.05
BACKOFF_MAX_S = 1.0
FAILURES_COUNTED = 10

TIMEOUT_MS_DEFAULT = 30_000

# No answer is longer than what a fetch may bring, and a broker gives at most this much for one.
ANSWER_BYTES_MAX = 1 << 30

# A buffer that has grown is given back when nothing has come for so long.
BUFFER_KEPT_S = 5.0


class Form:
    """How one request class is written and its answer read, at one version."""

    __slots__ = ("decode", "encode", "flexible_answer", "prefix")

    def __init__(self, request_class: type[Request], version: int, client_id: bytes) -> None:
        api = API_BY_KEY[request_class.SCHEMA.key]
        tags = b"\0" if api.request_header_version(version) >= 2 else b""
        name = struct.pack(">h", len(client_id)) + client_id
        self.prefix = _HEADER.pack(0, api.key, version, 0) + name + tags
        self.encode = request_class.encoder(version)
        self.decode = api.response.decoder(version)
        self.flexible_answer = api.response_header_version(version) >= 1


class Asked:
    """One request that has no answer yet."""

    __slots__ = ("correlation_id", "deadline", "done", "form", "request", "version")

    def __init__(self, request: Request, version: int, done: Done, deadline: float) -> None:
        self.request: Request | None = request
        self.version = version
        self.done = done
        self.deadline = deadline
        self.correlation_id = 0
        self.form: Form | None = None


class Peer:
    """One connection to one node, made when it is needed and made again when it broke."""

    __slots__ = (
        "_answered", "_asked", "_backlog", "_correlation_id", "_draining", "_end", "_ended", "_failures", "_fault",
        "_forms", "_nursery", "_open", "_queued", "_ranges", "_readiness", "_room", "_scope", "_settle",
        "_setup_timeout_s", "_sock", "_start", "_view", "_wanted", "_was_quiet", "_watch", "address", "client_id",
        "closed", "name",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        address: Callable[[], Address | None],
        nursery: trio.Nursery,
        readiness: Readiness,
        *,
        client_id: str,
        settle: Callable[[], None],
        setup_timeout_s: float = 10.0,
    ) -> None:
        """`address` is asked before each attempt to connect; None means that there is no such node now."""
        self.name = name
        self.address = address
        self.client_id = client_id.encode()
        self.closed = False
        self._nursery = nursery
        self._readiness = readiness
        self._settle = settle
        self._correlation_id = 0
        self._setup_timeout_s = setup_timeout_s
        self._forms: dict[tuple[type[Request], int], Form] = {}
        self._ranges: dict[int, tuple[int, int]] = {}  # what the peer serves: first and last version by API key
        self._open: socket.socket | None = None
        self._sock: socket.socket | None = None  # the open one, as soon as requests may be sent
        self._answered = False  # whether anything but the handshake has been answered on this connection
        self._queued: deque[Asked] = deque()  # not sent yet
        self._asked: deque[Asked] = deque()  # sent, in order
        self._backlog: deque[memoryview] = deque()
        self._draining = False
        self._view = memoryview(bytearray(CONNECTION_BUFFER_BYTES_MIN))
        self._start = self._end = 0
        self._room = 0  # how much of the buffer the next bytes may take
        self._ended: trio.Event | None = None  # while answers are received: set at the connection's end
        self._fault: Exception | None = None
        self._was_quiet = False
        self._failures = 0
        self._wanted = trio.Event()
        self._scope = trio.CancelScope()
        self._watch = trio.CancelScope()
        nursery.start_soon(self._run)

    @property
    def connected(self) -> bool:
        """Whether a request would be sent at once."""
        return self._sock is not None

    def ask(self, request: Request, version: int, done: Done, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> None:
        """Send a request, or keep it until there is a connection; `done` gets the answer or None."""
        asked = Asked(request, version, done, trio.current_time() + timeout_ms / 1000)
        if self.closed:
            trio.lowlevel.current_trio_token().run_sync_soon(self._give, asked, None)
            self._readiness.give_way()
            return
        if asked.deadline < self._watch.deadline:
            self._watch.deadline = asked.deadline
        if self._sock is None:
            self._queued.append(asked)
            self._wanted.set()
            self._readiness.give_way()
        else:
            self._send(asked)

    @property
    def busy(self) -> bool:
        """Whether anybody waits for an answer."""
        return bool(self._asked or self._queued)

    def abandon(self) -> None:
        """Expect no answer any more to what was sent so far; what is asked next is sent on a new connection."""
        self._break()

    def close(self) -> None:
        """End the connection; whoever still waits is told that no answer came."""
        self.closed = True
        self._scope.cancel()

    # ---- the task

    async def _run(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_deadlines)
                while True:
                    await self._connect_and_receive()
        self._give_up()

    async def _connect_and_receive(self) -> None:
        if not self._queued:
            self._wanted = trio.Event()
            await self._wanted.wait()
        if self._failures:
            await trio.sleep(min(BACKOFF_MAX_S, BACKOFF_MIN_S * 2 ** (self._failures - 1)))
        reason: BaseException | str = "it closed the connection"
        self._answered = False
        try:
            self._open = await self._connect()
            await self._receive(self._open)
        except (OSError, ProtocolError) as error:
            reason = error
        except Exception as error:
            # A fault of ours ends this connection, as on the answering side, and not the broker.
            log.exception("%s: what it has sent could not be dealt with", self.name)
            reason = error
        finally:
            if self._open is not None:
                trio.lowlevel.notify_closing(self._open)
                self._open.close()
            self._open = self._sock = None
        self._failures = 0 if self._answered else min(self._failures + 1, FAILURES_COUNTED)
        if self._asked or self._failures == 1:
            log.debug("%s: no answer any more: %s", self.name, reason)
        self._give_up()

    async def _connect(self) -> socket.socket:
        address = self.address()
        if address is None:
            raise OSError(errno.EADDRNOTAVAIL, "no such node is known")
        failure = OSError(errno.ETIMEDOUT, f"cannot connect to {address[0]}:{address[1]} in time")
        with trio.move_on_after(self._setup_timeout_s):
            for family, place in await resolve(address):
                try:
                    return await connect(family, place)
                except OSError as error:
                    failure = error
        raise failure

    async def _receive(self, sock: socket.socket) -> None:
        """Ask for the peer's versions, then hand out answers until the connection ends."""
        from kafkapy.wire.messages.api_versions import ApiVersionsRequest

        self._start = self._end = 0
        self._backlog.clear()
        self._draining = False
        deadline = trio.current_time() + self._setup_timeout_s
        first = Asked(ApiVersionsRequest(), 0, partial(self._negotiated, sock), deadline)
        self._watch.deadline = min(self._watch.deadline, deadline)
        self._write(sock, first, 0)
        self._room = self._make_room()
        self._fault = None
        ended = self._ended = trio.Event()
        self._readiness.add(sock.fileno(), self._on_readable)
        try:
            while not ended.is_set():
                with trio.move_on_after(BUFFER_KEPT_S):
                    await ended.wait()
                self._shrink()
        finally:
            self._disarm(sock)
        if self._fault is not None:
            raise self._fault

    def _on_readable(self) -> None:
        """Receive once and hand out what is whole."""
        sock, end = self._open, self._end
        assert sock is not None, "only an open connection is watched"
        self._was_quiet = False
        try:
            count = sock.recv_into(self._view[end : end + self._room])
            self._end = end + count
            if count:
                self._handle_frames()
                self._room = self._make_room()
                return
        except BlockingIOError:
            return
        except Exception as error:  # noqa: BLE001 -- raised again in the task, which knows how connections end
            self._fault = error
        assert self._ended is not None
        self._ended.set()
        self._disarm(sock)
        self._readiness.give_way()

    def _disarm(self, sock: socket.socket) -> None:
        if self._ended is not None:
            self._ended = None
            self._readiness.remove(sock.fileno())

    def _shrink(self) -> None:
        """Give a grown buffer back when nothing has come for a while."""
        if self._was_quiet and self._start == self._end and len(self._view) > CONNECTION_BUFFER_BYTES_KEPT:
            self._view = memoryview(bytearray(CONNECTION_BUFFER_BYTES_MIN))
            self._start = self._end = 0
            self._room = CONNECTION_BUFFER_BYTES_MIN
        self._was_quiet = True

    def _make_room(self) -> int:
        """See that the buffer can take the answer that has begun, and say how many bytes to ask for."""
        held = self._end - self._start
        if not held:
            self._start = self._end = 0
            return len(self._view)
        needed = CONNECTION_BUFFER_BYTES_MIN
        if held >= 4:
            needed = _INT32.unpack_from(self._view, self._start)[0] + 4
        capacity = len(self._view)
        if needed > capacity:
            view = memoryview(bytearray(max(needed + needed // 4, min(2 * capacity, CONNECTION_BUFFER_BYTES_KEPT))))
            view[:held] = self._view[self._start : self._end]
            self._view = view
            self._start, self._end = 0, held
        elif self._start + needed > capacity:
            self._view[:held] = bytes(self._view[self._start : self._end])
            self._start, self._end = 0, held
        # A large answer is received exactly to its end, so that the next one begins at the front and nothing has to be moved.
        if needed > CONNECTION_BUFFER_BYTES_KEPT // 4:
            return needed - held
        return len(self._view) - self._end

    def _handle_frames(self) -> None:
        view = self._view
        try:
            while self._end - self._start >= 4:
                size = _INT32.unpack_from(view, self._start)[0]
                if not 4 <= size <= ANSWER_BYTES_MAX:
                    raise ProtocolError(f"an answer of {size} bytes")
                start = self._start + 4
                end = start + size
                if end > self._end:
                    break
                self._start = end
                self._answer(view, start, end)
        finally:
            self._settle()

    def _answer(self, view: memoryview, start: int, end: int) -> None:
        if not self._asked:
            raise ProtocolError("an answer that nobody has asked for")
        asked = self._asked.popleft()
        form = asked.form
        assert form is not None, "what was sent has a form"
        try:
            if _INT32.unpack_from(view, start)[0] != asked.correlation_id:
                raise ProtocolError("an answer to another request than the next one")
            start += 4
            if form.flexible_answer:
                start = skip_header_tags(view, start, end)
            response, _ = form.decode(view, start, end)
        except ProtocolError:
            self._asked.appendleft(asked)
            raise
        self._answered = self._sock is not None
        self._give(asked, response)

    def _negotiated(self, sock: socket.socket, response: Any) -> None:
        if response is None or sock is not self._open:
            return
        self._ranges = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
        self._sock = sock
        while self._queued and self._sock is not None:
            self._send(self._queued.popleft())

    # ---- sending

    def _send(self, asked: Asked) -> None:
        assert asked.request is not None and self._sock is not None
        served = self._ranges.get(asked.request.SCHEMA.key)
        version = asked.version
        if served is None or version < served[0]:
            log.warning("%s does not serve %s", self.name, type(asked.request).__name__)
            trio.lowlevel.current_trio_token().run_sync_soon(self._give, asked, None)
            self._readiness.give_way()
            return
        self._write(self._sock, asked, min(version, served[1]))

    def _write(self, sock: socket.socket, asked: Asked, version: int) -> None:
        request = asked.request
        assert request is not None
        request_class = type(request)
        form = self._forms.get((request_class, version))
        if form is None:
            form = self._forms[request_class, version] = Form(request_class, version, self.client_id)
        self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        out = bytearray(form.prefix)
        splits: list[Any] = []
        form.encode(request, out, splits)
        assert not splits, "a request carries no file slices"
        _INT32.pack_into(out, 0, len(out) - 4)
        _INT32.pack_into(out, _CORRELATION_AT, correlation_id)
        asked.form, asked.correlation_id, asked.request = form, correlation_id, None
        self._asked.append(asked)
        if self._draining:
            self._backlog.append(memoryview(out))
            return
        try:
            sent = sock.send(out)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            log.debug("%s: cannot send: %s", self.name, error)
            self._break()
            return
        if sent < len(out):
            self._backlog.append(memoryview(out)[sent:])
            self._draining = True
            self._nursery.start_soon(self._drain, sock)
            self._readiness.give_way()

    async def _drain(self, sock: socket.socket) -> None:
        """Write out what the socket has not taken at once."""
        try:
            while self._backlog and sock.fileno() >= 0:
                piece = self._backlog[0]
                try:
                    sent = sock.send(piece)
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(sock)
                    continue
                if sent < len(piece):
                    self._backlog[0] = piece[sent:]
                else:
                    self._backlog.popleft()
            if sock is self._open:
                self._draining = False
        except trio.ClosedResourceError:
            log.debug("%s: closed before it took what was sent", self.name)
        except OSError as error:
            log.debug("%s: cannot send: %s", self.name, error)
            if sock is self._open:
                self._break()

    # ---- the end of a request

    def _break(self) -> None:
        """End this connection; the receiving task notices and tells whoever waits."""
        self._sock = None
        if self._open is not None:
            try:
                self._open.shutdown(socket.SHUT_RDWR)
            except OSError as error:
                log.debug("%s: already gone: %s", self.name, error)

    def _give(self, asked: Asked, response: Any) -> None:
        try:
            asked.done(response)
        except Exception:
            log.exception("%s: an answer could not be dealt with", self.name)
            self._break()

    def _give_up(self) -> None:
        """Nothing that was asked so far will be answered."""
        lost = [*self._asked, *self._queued]
        self._asked.clear()
        self._queued.clear()
        self._backlog.clear()
        self._draining = False
        for asked in lost:
            self._give(asked, None)
        self._settle()

    async def _watch_deadlines(self) -> None:
        """Break the connection when the answer at the head is late, and drop what has waited too long to be sent."""
        while True:
            now = trio.current_time()
            if self._asked and min(asked.deadline for asked in self._asked) <= now:
                log.info("%s: no answer in time", self.name)
                self._break()
                for asked in self._asked:
                    asked.deadline = math.inf  # The receiving task is told of the break, and tells whoever waits.
            late = [asked for asked in self._queued if asked.deadline <= now]
            for asked in late:
                self._queued.remove(asked)
                self._give(asked, None)
            if late:
                self._settle()
            deadlines = [asked.deadline for asked in (*self._asked, *self._queued)]
            with trio.CancelScope(deadline=min(deadlines, default=math.inf)) as self._watch:
                await trio.sleep_forever()


class Peers:
    """The connections to the other brokers of the cluster, by node id."""

    def __init__(self, broker: Broker, nursery: trio.Nursery) -> None:
        self._broker = broker
        self._nursery = nursery
        self._shared: dict[int, Peer] = {}

    def to(self, node_id: int) -> Peer:
        """The connection that everybody here shares, for requests that are answered soon."""
        peer = self._shared.get(node_id)
        if peer is None:
            peer = self._shared[node_id] = self.dedicated(node_id)
        return peer

    def dedicated(self, node_id: int, client_id: str | None = None) -> Peer:
        """A connection of one's own, which the caller closes: for requests that wait long or bring much."""
        return self.at(f"broker {node_id}", partial(self.address, node_id), client_id)

    def at(self, name: str, address: Callable[[], Address | None], client_id: str | None = None) -> Peer:
        """A connection to any node, for instance to a controller's listener."""
        config = self._broker.config
        return Peer(
            name,
            address,
            self._nursery,
            self._broker.readiness,
            client_id=client_id or f"broker-{config.node_id}",
            settle=self._settle,
            setup_timeout_s=config.socket_connection_setup_timeout_ms / 1000,
        )

    def close_all(self) -> None:
        """The broker stops."""
        for peer in self._shared.values():
            peer.close()
        self._shared.clear()

    def address(self, node_id: int) -> Address | None:
        """Where the other brokers reach this one, as it is registered now."""
        registration = self._broker.image.brokers.get(node_id)
        listener = (
            None if registration is None else registration.listener(self._broker.config.inter_broker_listener_name)
        )
        return None if listener is None else (listener.host, listener.port)

    def _settle(self) -> None:
        if self._broker.waiting.marked:
            self._broker.waiting.settle()


async def resolve(address: Address) -> list[tuple[socket.AddressFamily, Any]]:
    """The families and socket addresses of a host; a name is looked up in a thread, an address costs nothing."""
    host, port = address
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        lookup = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await trio.to_thread.run_sync(lookup, abandon_on_cancel=True)
    return [(socket.AddressFamily(family), place) for family, _, _, _, place in found]


async def connect(family: socket.AddressFamily, place: Any) -> socket.socket:
    """A connected socket that never blocks; OSError where nobody listens."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = sock.connect_ex(place)
        if code == errno.EINPROGRESS:
            await trio.lowlevel.wait_writable(sock)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, f"cannot connect to {place[0]}:{place[1]}: {os.strerror(code)}")
    except BaseException:
        sock.close()
        raise
    return sock
