"""One blocking connection to one broker: request in, response out, at the highest version that both sides know.

    pending = connection.send(request)      any number of them, before
    answer = connection.receive(pending)    their answers, which come in the same order

`request` does both at once.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Any, NamedTuple

from kafkapy.errors import ErrorCode, KafkaError, ProtocolError
from kafkapy.wire.apis import API_BY_KEY, Api
from kafkapy.wire.header import skip_header_tags
from kafkapy.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkapy.wire.schema import Request

ANSWER_BYTES_MAX = 256 * 1024 * 1024
SOFTWARE_NAME = "kafkapy"

_SIZE = struct.Struct(">i")
_REQUEST_HEADER = struct.Struct(">hhih")
_UNSUPPORTED_VERSION = _REQUEST_HEADER.pack(ErrorCode.UNSUPPORTED_VERSION, 0, 0, 0)[:2]


class Unreachable(Exception):
    """A broker does not answer: which one, and why."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason


class Pending(NamedTuple):
    """A request that has been sent; its answer is still to come."""

    correlation_id: int
    api: Api
    version: int


class BrokerConnection:
    """A socket to one broker and the versions it serves. After `Unreachable` or ProtocolError it is closed for good."""

    def __init__(
        self, host: str, port: int, *, client_id: str, timeout_s: float, connect_timeout_s: float | None = None
    ) -> None:
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.closed = False
        self._client_id = client_id.encode()
        self._correlation_id = 0
        self._timeout_s = timeout_s
        try:
            self._sock = socket.create_connection((host, port), timeout=connect_timeout_s or timeout_s)
        except OSError as error:
            raise Unreachable(self.address, _reason(error)) from error
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.versions: dict[int, tuple[int, int]] = self._negotiate()
        except BaseException:
            self.close()
            raise

    def _negotiate(self) -> dict[int, tuple[int, int]]:
        from kafkapy import __version__

        api = API_BY_KEY[18]
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
        answer = ApiVersionsResponse()
        for version in (api.advertised.last, 0):
            body = self._receive_body(self._send(api, version, request), self._timeout_s)
            # A broker that does not know the version answers in version 0.
            answer = ApiVersionsResponse.decode(body, 0 if body[:2] == _UNSUPPORTED_VERSION else version)
            if answer.error_code != ErrorCode.UNSUPPORTED_VERSION:
                break
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}

    def serves(self, key: int) -> bool:
        """Whether there is a version of this API that both sides know."""
        return self._common_version(API_BY_KEY[key]) is not None

    def version_for(self, api: Api) -> int:
        """The highest common version, or an error that names the API."""
        version = self._common_version(api)
        if version is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"the broker at {self.address} does not serve {api.name}")
        return version

    def _common_version(self, api: Api) -> int | None:
        first, last = self.versions.get(api.key, (0, -1))
        version = min(last, api.advertised.last)
        return version if version >= max(first, api.versions.first) else None

    def request(self, request: Request, *, version: int | None = None, timeout_s: float | None = None) -> Any:
        """Send a request and wait for its answer."""
        return self.receive(self.send(request, version=version), timeout_s=timeout_s)

    def send(self, request: Request, *, version: int | None = None) -> Pending:
        """Send a request whose answer somebody fetches later. Of a Produce with acks=0 there is none to fetch."""
        api = API_BY_KEY[request.SCHEMA.key]
        return self._send(api, self.version_for(api) if version is None else version, request)

    def receive(self, pending: Pending, *, timeout_s: float | None = None) -> Any:
        """The answer to the oldest request that has not been answered yet, which must be this one."""
        body = self._receive_body(pending, self._timeout_s if timeout_s is None else timeout_s)
        try:
            return pending.api.response.decode(body, pending.version)
        except ProtocolError as error:
            self.close()
            name = pending.api.name
            raise ProtocolError(f"{self.address} answered with something else than {name}: {error}") from error

    def fileno(self) -> int:
        """For `select`: readable means that an answer, or the end of the connection, has arrived."""
        return self._sock.fileno()

    def close(self) -> None:
        """Close the socket."""
        self.closed = True
        self._sock.close()

    def _send(self, api: Api, version: int, request: Request) -> Pending:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = bytearray(_SIZE.size)
        frame += _REQUEST_HEADER.pack(api.key, version, self._correlation_id, len(self._client_id))
        frame += self._client_id
        if api.request_header_version(version) >= 2:
            frame.append(0)
        type(request).encoder(version)(request, frame, [])
        _SIZE.pack_into(frame, 0, len(frame) - _SIZE.size)
        try:
            self._sock.settimeout(self._timeout_s)
            self._sock.sendall(frame)
        except OSError as error:
            raise self._lost(_reason(error)) from error
        return Pending(self._correlation_id, api, version)

    def _receive_body(self, pending: Pending, timeout_s: float) -> memoryview:
        deadline = time.monotonic() + timeout_s
        (size,) = _SIZE.unpack(self._receive(_SIZE.size, deadline))
        if not _SIZE.size <= size <= ANSWER_BYTES_MAX:
            self.close()
            raise ProtocolError(f"{self.address} answered with a frame of {size} bytes; is it a Kafka listener?")
        frame = self._receive(size, deadline)
        (correlation_id,) = _SIZE.unpack_from(frame)
        if correlation_id != pending.correlation_id:
            self.close()
            raise ProtocolError(f"{self.address} answered request {correlation_id}, not {pending.correlation_id}")
        start = _SIZE.size
        if pending.api.response_header_version(pending.version) >= 1:
            start = skip_header_tags(frame, start, size)
        return memoryview(frame)[start:]

    def _receive(self, size: int, deadline: float) -> bytearray:
        buffer = bytearray(size)
        view, done = memoryview(buffer), 0
        while done < size:
            try:
                self._sock.settimeout(max(deadline - time.monotonic(), 0.001))
                count = self._sock.recv_into(view[done:])
            except OSError as error:
                # An answer that comes too late would be taken for the next one's.
                raise self._lost(_reason(error)) from error
            if not count:
                raise self._lost("it closed the connection; is it a Kafka listener without TLS?")
            done += count
        return buffer

    def _lost(self, reason: str) -> Unreachable:
        self.close()
        return Unreachable(self.address, reason)


def _reason(error: OSError) -> str:
    """The system's words for it, in lower case so that they fit into a sentence."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (error.strerror or str(error)).lower()
