"""One blocking connection to one broker: request in, response out, at the highest version that both sides know."""

from __future__ import annotations

import socket
import struct
from typing import Any, TypeVar

from kafkapy.errors import ErrorCode, KafkaError, ProtocolError
from kafkapy.wire.apis import API_BY_KEY, Api
from kafkapy.wire.header import skip_header_tags
from kafkapy.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkapy.wire.schema import Request, Response

ANSWER_BYTES_MAX = 256 * 1024 * 1024
SOFTWARE_NAME = "kafkapy"

R = TypeVar("R", bound=Response)


class Unreachable(Exception):
    """No broker answered; the message names the address and the reason."""


class BrokerConnection:
    """A socket to one broker and the versions it serves."""

    def __init__(self, host: str, port: int, *, client_id: str, timeout_s: float) -> None:
        self.address = f"{host}:{port}"
        self._client_id = client_id.encode()
        self._correlation_id = 0
        try:
            self._sock = socket.create_connection((host, port), timeout=timeout_s)
        except OSError as error:
            raise Unreachable(f"cannot reach a broker at {self.address}: {error.strerror or error}") from error
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.versions: dict[int, tuple[int, int]] = self._negotiate()

    def _negotiate(self) -> dict[int, tuple[int, int]]:
        from kafkapy import __version__

        api = API_BY_KEY[18]
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
        answer: ApiVersionsResponse | None = None
        for version in (api.advertised.last, 0):
            body = self._exchange(api, version, request)
            # A broker that does not know the version answers in version 0.
            answer = ApiVersionsResponse.decode(body, 0 if body[:2] == b"\x00\x23" else version)
            if answer.error_code != ErrorCode.UNSUPPORTED_VERSION:
                break
        assert answer is not None
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}

    def version_for(self, api: Api) -> int:
        """The highest common version, or an error that names the API."""
        first, last = self.versions.get(api.key, (0, -1))
        version = min(last, api.advertised.last)
        if version < max(first, api.versions.first):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"the broker at {self.address} does not serve {api.name}")
        return version

    def request(self, request: Request, *, version: int | None = None, timeout_s: float | None = None) -> Any:
        """Send a request and wait for its answer."""
        api = API_BY_KEY[request.SCHEMA.key]
        if version is None:
            version = self.version_for(api)
        body = self._exchange(api, version, request, timeout_s)
        return api.response.decode(body, version)

    def send_unanswered(self, request: Request, version: int) -> None:
        """Send a request that the broker does not answer: Produce with acks=0."""
        self._send(API_BY_KEY[request.SCHEMA.key], version, request)

    def _send(self, api: Api, version: int, request: Request) -> None:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = bytearray(4)
        frame += struct.pack(">hhih", api.key, version, self._correlation_id, len(self._client_id))
        frame += self._client_id
        if api.request_header_version(version) >= 2:
            frame.append(0)
        type(request).encoder(version)(request, frame, [])
        struct.pack_into(">i", frame, 0, len(frame) - 4)
        try:
            self._sock.sendall(frame)
        except OSError as error:
            raise Unreachable(f"lost the connection to {self.address}: {error.strerror or error}") from error

    def _exchange(self, api: Api, version: int, request: Request, timeout_s: float | None = None) -> memoryview:
        self._send(api, version, request)
        before = self._sock.gettimeout()
        if timeout_s is not None:
            self._sock.settimeout(timeout_s)
        try:
            (size,) = struct.unpack(">i", self._receive(4))
            if not 4 <= size <= ANSWER_BYTES_MAX:
                raise ProtocolError(f"{self.address} answered with a frame of {size} bytes")
            frame = self._receive(size)
        finally:
            self._sock.settimeout(before)
        (correlation_id,) = struct.unpack_from(">i", frame)
        if correlation_id != self._correlation_id:
            raise ProtocolError(f"{self.address} answered request {correlation_id}, not {self._correlation_id}")
        start = 4
        if api.response_header_version(version) >= 1:
            start = skip_header_tags(frame, start, size)
        return memoryview(frame)[start:]

    def _receive(self, size: int) -> bytearray:
        buffer = bytearray(size)
        view, done = memoryview(buffer), 0
        while done < size:
            try:
                count = self._sock.recv_into(view[done:])
            except TimeoutError:
                raise Unreachable(f"no answer from {self.address} in time") from None
            except OSError as error:
                raise Unreachable(f"lost the connection to {self.address}: {error.strerror or error}") from error
            if not count:
                raise Unreachable(f"{self.address} closed the connection; is it a Kafka listener without TLS?")
            done += count
        return buffer

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()
