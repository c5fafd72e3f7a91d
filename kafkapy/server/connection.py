"""One client connection: one task, one buffer; frames are handled in order and answered in order.

Theory of operation. What arrives goes into one growable buffer; every complete frame in it is handled before the next receive, and the answers of all
those frames leave with one send. A frame is never copied out of the buffer: a Produce's records go from it to the file.

As long as nothing has to be waited for, this happens in calls from `readiness.py` and the task sleeps. It goes on itself when there is something to
wait for: memory for a large frame, a peer that does not take its answers, too many answers outstanding, the end.

An answer that is not there yet (a Wait) keeps a Slot in the queue; later answers queue up behind it, and the next requests are
handled meanwhile, up to a bound. Whoever finishes a slot sends what has become sendable at once, without a task switch.

If the socket takes no more, the rest goes to a backlog: a drain task writes it out, and until then the connection reads nothing. So a slow
reader stops its own reads and nobody else's.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
from collections import deque
from typing import TYPE_CHECKING, Any

import trio

from kafkapy.errors import ProtocolError
from kafkapy.limits import CONNECTION_BUFFER_BYTES_KEPT, CONNECTION_BUFFER_BYTES_MIN, CONNECTION_WAITS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkapy.log.files import FileSlice
    from kafkapy.server.dispatch import Call, Dispatcher
    from kafkapy.server.memory import MemoryPool
    from kafkapy.server.readiness import Readiness
    from kafkapy.server.waiting import Parked

log = logging.getLogger("kafkapy.connection")

_INT32 = struct.Struct(">i")
# Answers to the frames of one buffer leave together up to about this size.
ANSWER_BYTES_GATHERED = 256 * 1024

# sendfile is asked for at most this much at once, so that one fast reader of a large slice gives way to the others.
SENDFILE_BYTES_MAX = 1 << 20


class Slot:
    """The place of one unanswered request in its connection's queue."""

    __slots__ = ("call", "connection", "parked", "ready", "response")

    def __init__(self, connection: Connection, call: Call) -> None:
        self.connection = connection
        self.call = call
        self.parked: Parked | None = None
        self.ready = False
        self.response: Any = None

    def finish(self, response: Any) -> None:
        """Take the answer and send what may be sent."""
        self.response = response
        self.ready = True
        self.connection.slot_finished()

    def fail(self, error: BaseException) -> None:
        """The wait broke: only this connection is closed."""
        log.error("request failed while waiting", exc_info=error, extra={"api": self.call.name})
        self.connection.close()


class Connection:
    """The server's end of one client connection."""

    __slots__ = (
        "_backlog", "_dispatcher", "_draining", "_end", "_fault", "_nursery", "_out", "_own_turn", "_paused", "_pool",
        "_progress", "_readiness", "_reserved", "_scope", "_slots", "_splits", "_start", "_stopping", "_take", "_taken",
        "_view", "_wanted", "client_host", "closing", "last_active", "listener_name", "local_address", "max_frame", "sock",
    )  # fmt: skip

    def __init__(
        self,
        sock: socket.socket,
        dispatcher: Dispatcher,
        pool: MemoryPool,
        readiness: Readiness,
        nursery: trio.Nursery,
        listener_name: str,
        max_frame: int,
    ) -> None:
        self.sock = sock
        self.listener_name = listener_name
        host, port = sock.getsockname()[:2]
        self.local_address: tuple[str, int] = (plain_address(host), port)
        self.client_host = plain_address(sock.getpeername()[0])
        self.closing = False
        self.last_active = trio.current_time()
        self.max_frame = max_frame
        self._dispatcher = dispatcher
        self._pool = pool
        self._readiness = readiness
        self._nursery = nursery
        self._scope = trio.CancelScope()
        self._view = memoryview(bytearray(CONNECTION_BUFFER_BYTES_MIN))
        self._reserved = 0
        self._start = self._end = 0
        self._slots: deque[Slot] = deque()
        self._out = bytearray()
        self._splits: list[tuple[int, Any]] = []
        self._backlog: deque[Any] = deque()
        self._draining = False
        self._paused = False  # Whole frames are left in the buffer until answers have been taken.
        self._stopping = False
        self._progress: trio.Event | None = None
        self._wanted = CONNECTION_BUFFER_BYTES_MIN
        self._own_turn: trio.Event | None = None  # While calls from `readiness` serve this connection: what ends that.
        self._fault: Exception | None = None
        self._take: Callable[[socket.socket, bytes], None] | None = None
        self._taken = b""

    # ---- the task

    async def run(self) -> None:
        """Serve this connection until either side closes it."""
        try:
            with self._scope:
                await self._serve()
            if self._stopping:
                await self._answer_open_requests()
        except ProtocolError as error:
            log.warning(
                "closing connection: %s", error, extra={"client": self.client_host, "listener": self.listener_name}
            )
        except OSError as error:
            log.debug("connection lost: %s", error, extra={"client": self.client_host})
        except Exception:
            log.exception("closing connection after a fault of ours", extra={"client": self.client_host})
        finally:
            self._release()

    async def _serve(self) -> None:
        while not self.closing and not self._stopping:
            if self._is_held:
                await self._wait_progress()
            if self._paused:
                self._paused = False
                self._handle_frames()
                await trio.lowlevel.checkpoint()
                continue
            size = self._make_room()
            if size:
                await self._pool.reserve(size)
                self._enlarge(size)
            own_turn = self._own_turn = trio.Event()
            self._readiness.add(self.sock.fileno(), self._on_readable)
            try:
                await own_turn.wait()
            finally:
                self._disarm()
            if self._fault is not None:
                raise self._fault

    @property
    def _is_held(self) -> bool:
        """Whether nothing more may be read for now."""
        return self._draining or len(self._slots) >= CONNECTION_WAITS_MAX

    def _on_readable(self) -> None:
        """Receive once and handle what is whole; called as long as nothing has to be waited for."""
        end = self._end
        try:
            count = self.sock.recv_into(self._view[end : end + self._wanted])
            self._end = end + count
            if count:
                self._handle_frames()
                if self.closing or self._is_held or self._paused or self._make_room():
                    self._take_turn()
                return
            self.closing = True
        except BlockingIOError:
            return
        except Exception as error:  # noqa: BLE001 -- raised again in the task, which knows how connections end
            self._fault = error
        self._take_turn()

    def _take_turn(self) -> None:
        """Go on in the task; no call comes from now on, whichever of the two runs first."""
        assert self._own_turn is not None
        self._own_turn.set()
        self._disarm()
        self._readiness.give_way()

    def _disarm(self) -> None:
        if self._own_turn is not None:
            self._own_turn = None
            self._readiness.remove(self.sock.fileno())

    async def _answer_open_requests(self) -> None:
        """The broker stops: requests that were read are still answered, and their answers written."""
        while not self.closing and (self._slots or self._draining):
            await self._next_progress()

    def _make_room(self) -> int:
        """See that the buffer can take the frame that has begun. Where memory for it must be waited for: how much."""
        held = self._end - self._start
        if not held:
            self._start = self._end = 0
            self._wanted = len(self._view)
            return 0
        if held < 4:
            needed = CONNECTION_BUFFER_BYTES_MIN
        else:
            needed = _INT32.unpack_from(self._view, self._start)[0] + 4
        capacity = len(self._view)
        if needed > capacity:
            size = max(needed, 2 * capacity) if needed < CONNECTION_BUFFER_BYTES_KEPT else needed
            # What it has goes back first: connections that hold memory while they wait for more would wait for each other for ever.
            self._view = memoryview(bytearray(self._view[self._start : self._end]))
            self._start, self._end = 0, held
            if self._reserved:
                self._pool.release(self._reserved)
                self._reserved = 0
            if not self._pool.try_reserve(size):
                return size
            self._enlarge(size)
        elif self._start + needed > capacity:
            # Move the part of a frame that is there to the front; the slices overlap, hence the copy.
            self._view[:held] = bytes(self._view[self._start : self._end])
            self._start, self._end = 0, held
        # A large frame is received exactly to its end, so that the next one begins at the front and nothing has to be moved.
        self._wanted = needed - held if needed > CONNECTION_BUFFER_BYTES_KEPT // 4 else len(self._view) - self._end
        return 0

    def _enlarge(self, size: int) -> None:
        """Take a buffer of `size` bytes, which have been reserved; the frame that has begun stands at its front."""
        held = self._end
        self._reserved = size
        view = memoryview(bytearray(size))
        view[:held] = self._view
        self._view = view
        self._wanted = size - held

    def shrink(self) -> None:
        """Give a large buffer back while nothing is in it; the broker's sweep asks idle connections for this."""
        if self._reserved and self._start == self._end:
            self._view = memoryview(bytearray(CONNECTION_BUFFER_BYTES_MIN))
            self._start = self._end = 0
            self._wanted = CONNECTION_BUFFER_BYTES_MIN
            self._pool.release(self._reserved)
            self._reserved = 0

    # ---- requests

    def _handle_frames(self) -> None:
        """Handle the complete frames in the buffer, then send all their answers."""
        dispatcher = self._dispatcher
        now_ms = dispatcher.clock_ms()
        self.last_active = trio.current_time()
        view, start, end = self._view, self._start, self._end
        try:
            while end - start >= 4 and not self.closing:
                size = _INT32.unpack_from(view, start)[0]
                if size <= 0 or size > self.max_frame:
                    raise ProtocolError(f"a frame of {size} bytes (socket.request.max.bytes is {self.max_frame})")
                if end - start - 4 < size:
                    break
                frame = start + 4
                start = frame + size
                dispatcher.handle(self, view, frame, start, now_ms)
                if len(self._out) > ANSWER_BYTES_GATHERED:
                    self.flush()
                if self._is_held:
                    # Small requests can have large answers: what nobody takes is not made.
                    self._paused = True
                    break
        finally:
            # Also when this frame ends the connection: those before it have answers, and may be what others wait for.
            self._start = start
            if self._out:
                self.flush()
            if dispatcher.waiting.marked:
                dispatcher.waiting.settle()
        if start == end and self._reserved and self._pool.contended:
            self.shrink()

    def answer(self, call: Call, response: Any) -> None:
        """Put an answer into the queue; it leaves with the next flush, after everything that came before it."""
        if self._slots:
            slot = Slot(self, call)
            slot.response, slot.ready = response, True
            self._slots.append(slot)
        else:
            self._encode(call, response)

    def _encode(self, call: Call, response: Any) -> None:
        """Append the answer to what is sent next. One that cannot be encoded closes this connection and harms no other."""
        try:
            call.encode(response, self._out, self._splits)
        except Exception:
            log.exception("cannot encode the answer to %s", call.name, extra={"client": self.client_host})
            self.close()

    def wait(self, call: Call, wait: Any) -> None:
        """Keep the place of an answer that is not there yet."""
        slot = Slot(self, call)
        self._slots.append(slot)
        slot.parked = self._dispatcher.waiting.park(wait, slot)

    def slot_finished(self) -> None:
        """Send the answers at the head of the queue that have become ready."""
        if self.closing:
            return
        slots = self._slots
        while slots and slots[0].ready and not self.closing:
            slot = slots.popleft()
            self._encode(slot.call, slot.response)
        if self._out:
            self.flush()
        self._signal_progress()

    async def _wait_progress(self) -> None:
        """Read nothing while too many answers are outstanding or the peer does not take those that are there."""
        while not self.closing and self._is_held:
            await self._next_progress()

    async def _next_progress(self) -> None:
        if self._progress is None:
            self._progress = trio.Event()
        await self._progress.wait()

    def _signal_progress(self) -> None:
        if self._progress is not None:
            self._progress.set()
            self._progress = None
            self._readiness.give_way()

    # ---- sending

    def flush(self) -> None:
        """Send what is encoded, as far as the socket takes it."""
        out, self._out = self._out, bytearray()
        if not self._splits and not self._backlog:
            try:
                sent = self.sock.send(out)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                self._lost(error)
                return
            if sent == len(out):
                return
            self._backlog.append(memoryview(out)[sent:])
        else:
            self._queue(memoryview(out))
        if not self._draining:
            self._push()

    def _queue(self, pieces: memoryview) -> None:
        """Interleave encoded bytes with the file slices that stand between them."""
        position = 0
        for at, piece in self._splits:
            if at > position:
                self._backlog.append(pieces[position:at])
            self._backlog.append(piece)
            position = at
        if position < len(pieces):
            self._backlog.append(pieces[position:])
        self._splits = []

    def _push(self) -> None:
        """Send from the backlog until it is empty or the socket is full; then a task takes over."""
        try:
            if not self._write_backlog():
                self._draining = True
                self._nursery.start_soon(self._drain)
                self._readiness.give_way()
        except OSError as error:
            self._lost(error)

    def _write_backlog(self) -> bool:
        """Write without blocking. True when nothing is left."""
        backlog, sock = self._backlog, self.sock
        try:
            while backlog:
                piece = backlog[0]
                if isinstance(piece, memoryview):
                    flags = socket.MSG_MORE if len(backlog) > 1 else 0
                    sent = sock.send(piece, flags)
                    if sent < len(piece):
                        backlog[0] = piece[sent:]
                        return False
                    backlog.popleft()
                elif not self._send_slice(piece):
                    return False
        except BlockingIOError:
            return False
        return True

    def _send_slice(self, piece: FileSlice) -> bool:
        """Move a slice of a segment file to the socket inside the kernel. False when its turn is over before its end."""
        count = min(piece.size, SENDFILE_BYTES_MAX)
        sent = os.sendfile(self.sock.fileno(), piece.fd, piece.position, count)
        if not sent:
            raise OSError(f"a segment ended before position {piece.position}")
        if sent == piece.size:
            self._backlog.popleft()
            piece.release()
            return True
        piece.position += sent
        piece.size -= sent
        return False

    async def _drain(self) -> None:
        """Write the backlog out as the peer takes it."""
        try:
            while not self.closing and not self._write_backlog():
                await trio.lowlevel.wait_writable(self.sock)
        except trio.ClosedResourceError:
            log.debug("closed before its answers were taken", extra={"client": self.client_host})
        except OSError as error:
            self._lost(error)
        finally:
            self._draining = False
            self._signal_progress()

    # ---- the end

    @property
    def busy(self) -> bool:
        """Whether the peer waits for us: an answer is outstanding or on its way."""
        return bool(self._slots) or self._draining

    def stop_reading(self) -> None:
        """Take no further requests; the connection closes itself when the open ones are answered."""
        self._stopping = True
        self._scope.cancel()

    def close(self) -> None:
        """End this connection; its task cleans up."""
        self.closing = True
        self._scope.cancel()
        self._signal_progress()
        self._readiness.give_way()

    def hand_over(self, start: int, take: Callable[[socket.socket, bytes], None]) -> None:
        """Give the socket to somebody else, with the bytes from `start` on, which were received already."""
        self._take = take
        self._taken = bytes(self._view[start : self._end])
        self.close()

    def _lost(self, error: OSError) -> None:
        log.debug("connection lost: %s", error, extra={"client": self.client_host})
        self.close()

    def _release(self) -> None:
        """Give back everything: parked waits, pinned files, memory, the socket."""
        self.closing = True
        waiting = self._dispatcher.waiting
        for slot in self._slots:
            if slot.ready:
                self._encode(slot.call, slot.response)
            elif slot.parked is not None:
                waiting.forget(slot.parked)
        self._slots.clear()
        for _, piece in self._splits:
            piece.release()
        for piece in self._backlog:
            if not isinstance(piece, memoryview):
                piece.release()
        self._splits = []
        self._backlog.clear()
        if self._reserved:
            self._pool.release(self._reserved)
            self._reserved = 0
        trio.lowlevel.notify_closing(self.sock)
        if self._take is None:
            self.sock.close()
        else:
            self._take(self.sock, self._taken)
        self._dispatcher.connection_closed(self)


def plain_address(host: str) -> str:
    """An IPv4 peer of a dual-stack socket looks like ::ffff:127.0.0.1; to people and to clients it is 127.0.0.1."""
    return host.removeprefix("::ffff:")
