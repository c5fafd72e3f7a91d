"""A raw connection to a broker: any bytes out, whole frames in. For what a well-behaved client never does.

    with WireClient("127.0.0.1", 9092) as wire:
        wire.send(MetadataRequest(), version=12)
        answer = wire.receive()             # decoded as the oldest request that was sent
        wire.send_bytes(b"garbage")
        assert wire.is_closed()

Nothing is negotiated, retried or hidden: what is sent is what was asked for.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

from kafkapy.wire.apis import API_BY_KEY, Api
from kafkapy.wire.header import skip_header_tags
from kafkapy.wire.schema import Request

ANSWER_TIMEOUT_S = 10.0
# A broker that closes a connection does it at once; one that does not has this long to prove it.
CLOSE_TIMEOUT_S = 5.0

_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhi")


class Closed(Exception):
    """The broker closed the connection instead of answering."""


class Expected(NamedTuple):
    """A request whose answer is still to come."""

    correlation_id: int
    api: Api
    version: int


def header(key: int, version: int, correlation_id: int = 1, client_id: str | None = "raw") -> bytes:
    """A request header without tags."""
    name = b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id)) + client_id.encode()
    return _HEADER.pack(key, version, correlation_id) + name


def frame(payload: bytes | bytearray) -> bytes:
    """`payload` behind its length."""
    return _SIZE.pack(len(payload)) + bytes(payload)


def encode(request: Request, version: int, correlation_id: int = 1, client_id: str | None = "raw") -> bytes:
    """A whole frame with this request at this version, even one that no broker serves."""
    api = API_BY_KEY[request.SCHEMA.key]
    payload = bytearray(header(api.key, version, correlation_id, client_id))
    if api.request_header_version(version) >= 2:
        payload.append(0)
    type(request).encoder(version)(request, payload, [])
    return frame(payload)


class WireClient:
    """One socket to one broker."""

    def __init__(self, host: str, port: int, *, client_id: str | None = "raw", receive_buffer: int = 0) -> None:
        """`receive_buffer` makes the kernel take no more than about that many bytes that nobody reads."""
        self._client_id = client_id
        self._correlation_id = 0
        self._expected: deque[Expected] = deque()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(ANSWER_TIMEOUT_S)
        try:
            self.sock.connect((host, port))
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            self.sock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close our end."""
        self.sock.close()

    # ---- out

    def send_bytes(self, data: bytes) -> None:
        """Send exactly these bytes; a broker that closes before it has them all is no error."""
        with contextlib.suppress(ConnectionError):
            self.sock.sendall(data)

    def send(self, request: Request, version: int, *, answered: bool = True) -> int:
        """Send a request; the result is its correlation id. With `answered=False` nothing is expected to come back."""
        self._correlation_id += 1
        self.send_bytes(encode(request, version, self._correlation_id, self._client_id))
        if answered:
            self._expected.append(Expected(self._correlation_id, API_BY_KEY[request.SCHEMA.key], version))
        return self._correlation_id

    # ---- in

    def receive_frame(self, timeout_s: float = ANSWER_TIMEOUT_S) -> bytes:
        """The next frame without its length. Raises Closed, or TimeoutError if nothing comes."""
        (size,) = _SIZE.unpack(self._receive(4, timeout_s))
        return self._receive(size, timeout_s)

    def receive(self, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """The answer to the oldest request that is unanswered; it must be next, because answers come in order."""
        body = self.receive_frame(timeout_s)
        expected = self._expected.popleft()
        (correlation_id,) = _SIZE.unpack_from(body)
        assert correlation_id == expected.correlation_id, f"answer {correlation_id} to {expected}"
        start = 4
        if expected.api.response_header_version(expected.version) >= 1:
            start = skip_header_tags(body, start, len(body))
        answer, end = expected.api.response.decoder(expected.version)(memoryview(body), start, len(body))
        assert end == len(body), f"{len(body) - end} bytes after the answer to {expected}"
        return answer

    def request(self, request: Request, version: int, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """Send and receive."""
        self.send(request, version)
        return self.receive(timeout_s)

    def is_closed(self, timeout_s: float = CLOSE_TIMEOUT_S) -> bool:
        """Whether the broker closes the connection without sending anything more."""
        self.sock.settimeout(timeout_s)
        try:
            return not self.sock.recv(1)
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def is_silent(self, timeout_s: float = 0.1) -> bool:
        """Whether the connection stays open and nothing comes for this long."""
        self.sock.settimeout(timeout_s)
        try:
            self.sock.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        except ConnectionError:
            return False
        return False

    def _receive(self, size: int, timeout_s: float) -> bytes:
        self.sock.settimeout(timeout_s)
        parts = bytearray()
        while len(parts) < size:
            try:
                part = self.sock.recv(min(size - len(parts), 1 << 20))
            except ConnectionError:
                part = b""
            if not part:
                raise Closed(f"after {len(parts)} of {size} bytes")
            parts += part
        return bytes(parts)


@contextlib.contextmanager
def connected(bootstrap: str, **options: Any) -> Iterator[WireClient]:
    """A client of the broker at HOST:PORT."""
    host, _, port = bootstrap.rpartition(":")
    with WireClient(host.strip("[]"), int(port), **options) as wire:
        yield wire
