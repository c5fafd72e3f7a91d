"""One connection: versions, framing, and every way in which a peer can be no broker."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from kafkapy.client.connection import BrokerConnection, Unreachable
from kafkapy.errors import ErrorCode, KafkaError, ProtocolError
from kafkapy.wire.apis import API_BY_KEY
from kafkapy.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kafkapy.wire.messages.heartbeat import HeartbeatRequest
from kafkapy.wire.messages.metadata import MetadataRequest

VERSIONS = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=18, min_version=0, max_version=4),
        ApiVersion(api_key=12, min_version=0, max_version=3),
        ApiVersion(api_key=3, min_version=90, max_version=99),
    ]
)

# One request in (without its length) and the bytes to answer, or None to close the connection.
Peer = Callable[[bytes], bytes | None]


def frame(correlation_id: int, body: bytes) -> bytes:
    """An answer with its length and header."""
    return struct.pack(">ii", len(body) + 4, correlation_id) + body


def correlation_id(request: bytes) -> int:
    """That of a request."""
    found: int = struct.unpack_from(">i", request, 4)[0]
    return found


@contextmanager
def peer(answer: Peer) -> Iterator[int]:
    """A server for one connection on a free port, which it yields."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            # A client that leaves with something unread resets the connection, which is its right.
            with suppress(ConnectionResetError), connection, connection.makefile("rb") as stream:
                while head := stream.read(4):
                    reply = answer(stream.read(struct.unpack(">i", head)[0]))
                    if reply is None:
                        return
                    connection.sendall(reply)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(5)
        assert not thread.is_alive()


def broker(answer: Peer) -> Peer:
    """A peer that negotiates versions and then answers as told."""

    def reply(request: bytes) -> bytes | None:
        if request[:2] == b"\0\x12":
            return frame(correlation_id(request), VERSIONS.encode(struct.unpack_from(">h", request, 2)[0]))
        return answer(request)

    return reply


def connect(port: int, timeout_s: float = 5.0) -> BrokerConnection:
    """A connection to a peer."""
    return BrokerConnection("127.0.0.1", port, client_id="test", timeout_s=timeout_s)


def test_the_highest_version_that_both_know_is_used() -> None:
    """And what only one side knows is refused by name."""
    seen = []

    def answer(request: bytes) -> bytes:
        seen.append(struct.unpack_from(">hh", request))
        return frame(correlation_id(request), struct.pack(">ih", 0, 27))

    with peer(broker(answer)) as port:
        connection = connect(port)
        assert connection.request(HeartbeatRequest(group_id="g", member_id="m")).error_code == 27
        assert seen == [(12, 3)]
        assert connection.serves(12) and not connection.serves(3) and not connection.serves(0)
        with pytest.raises(KafkaError, match="does not serve Metadata"):
            connection.request(MetadataRequest())
        connection.close()


def test_answers_come_in_the_order_of_the_requests() -> None:
    """Several may be on their way."""

    def answer(request: bytes) -> bytes:
        return frame(correlation_id(request), struct.pack(">ih", 0, correlation_id(request)))

    with peer(broker(answer)) as port:
        connection = connect(port)
        pending = [connection.send(HeartbeatRequest()) for _ in range(5)]
        codes = [connection.receive(item).error_code for item in pending]
        assert codes == sorted(codes) and len(set(codes)) == 5
        connection.close()


def test_an_old_broker_is_asked_again_in_version_0() -> None:
    """It answers a version of ApiVersions that it does not know in version 0."""
    asked = []

    def answer(request: bytes) -> bytes:
        version = struct.unpack_from(">h", request, 2)[0]
        asked.append(version)
        if version:
            refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
            return frame(correlation_id(request), refusal.encode(0))
        return frame(correlation_id(request), VERSIONS.encode(0))

    with peer(answer) as port:
        connection = connect(port)
        assert asked == [API_BY_KEY[18].advertised.last, 0]
        assert connection.versions[12] == (0, 3)
        connection.close()


def test_a_refusal_of_the_connection_has_its_code() -> None:
    """As a broker may answer before authentication."""

    def answer(request: bytes) -> bytes:
        refusal = ApiVersionsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return frame(correlation_id(request), refusal.encode(4))

    with peer(answer) as port, pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
        connect(port)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (lambda request: None, "closed the connection"),
        (lambda request: b"HTTP/1.1 400 Bad Request\r\n\r\n", "frame of"),
        (lambda request: struct.pack(">i", -1), "frame of -1 bytes"),
        (lambda request: frame(99, b"\0\0"), "answered request 99"),
        (lambda request: frame(correlation_id(request), b"\0"), "something else than Heartbeat"),
        (lambda request: frame(correlation_id(request), b"\0\0\0\0\0\0")[:7], "no answer in time"),
    ],
)
def test_a_peer_that_is_no_broker_is_told_and_left(reply: Peer, error: str) -> None:
    """Whatever it does, the connection is closed and cannot be used again by mistake."""
    with peer(broker(reply)) as port:
        connection = connect(port)
        with pytest.raises((Unreachable, ProtocolError), match=error):
            connection.receive(connection.send(HeartbeatRequest()), timeout_s=0.05)
        assert connection.closed
        with pytest.raises(Unreachable):
            connection.request(HeartbeatRequest())


def test_nobody_listening_is_told_with_the_address() -> None:
    """And the reason, in words."""
    with pytest.raises(Unreachable) as found:
        connect(1)
    assert (found.value.address, found.value.reason) == ("127.0.0.1:1", "connection refused")
