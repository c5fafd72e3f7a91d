"""Where a broker listens and what it tells clients about it: IPv6, several listeners, names, advertised addresses."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from kafkapy.errors import StartError
from kafkapy.testing import Broker
from tests.server.support import is_served
from tests.support.requests import metadata
from tests.support.wire_client import WireClient

HAS_IPV6 = socket.has_dualstack_ipv6()
needs_ipv6 = pytest.mark.skipif(not HAS_IPV6, reason="this machine has no IPv6")


def told(host: str, port: int) -> list[tuple[str, int]]:
    """The addresses of brokers that a client is told which came in at this one."""
    with WireClient(host, port) as wire:
        return [(one.host, one.port) for one in wire.request(metadata(), 9).brokers]


@needs_ipv6
def test_ipv6_alone() -> None:
    """An address in brackets is served, and told, without them."""
    with Broker(config={"listeners": "PLAINTEXT://[::1]:0"}) as broker:
        assert told("::1", broker.port) == [("::1", broker.port)]
        with pytest.raises(ConnectionRefusedError):
            WireClient("127.0.0.1", broker.port)


@needs_ipv6
@pytest.mark.parametrize("host", ["", "[::]"])
def test_all_addresses(host: str) -> None:
    """No host, or all of IPv6, serves both families; each client is told the address that it used."""
    with Broker(config={"listeners": f"PLAINTEXT://{host}:0"}) as broker:
        for address in ("127.0.0.1", "::1"):
            assert told(address, broker.port) == [(address, broker.port)]


def test_all_of_ipv4() -> None:
    """0.0.0.0 is every IPv4 address and no other."""
    with Broker(config={"listeners": "PLAINTEXT://0.0.0.0:0"}) as broker:
        assert told("127.0.0.3", broker.port) == [("127.0.0.3", broker.port)]


def test_a_name_is_resolved() -> None:
    """localhost is served at all its addresses."""
    with (
        Broker(config={"listeners": "PLAINTEXT://localhost:0"}) as broker,
        socket.create_connection(("localhost", broker.port)),
    ):
        assert told("127.0.0.1", broker.port) == [("127.0.0.1", broker.port)]


def test_a_name_with_an_address_that_the_machine_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's localhost may be ::1 as well, without any IPv6: the other address is served. None at all is an error."""
    real = socket.getaddrinfo

    def with_foreign(host: str, port: int, *args: Any, **options: Any) -> Any:
        if host != "localhost":
            return real(host, port, *args, **options)
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", with_foreign)
    addresses = ["192.0.2.1", "127.0.0.1"]
    config = {"listeners": "PLAINTEXT://localhost:0"}
    with Broker(config=config) as broker:
        assert told("127.0.0.1", broker.port) == [("127.0.0.1", broker.port)]
    addresses.remove("127.0.0.1")
    with pytest.raises(StartError, match=r"cannot listen on 192\.0\.2\.1"), Broker(config=config):
        pass


def test_several_listeners() -> None:
    """Each client is told the addresses of its own listener."""
    config = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "advertised.listeners": "INSIDE://inside.example:1111,OUTSIDE://outside.example:2222",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
    }
    with Broker(config=config) as broker:
        ports = [port for _, port in broker.parts.bound.values()]
        assert told("127.0.0.1", ports[0]) == [("inside.example", 1111)]
        assert told("127.0.0.1", ports[1]) == [("outside.example", 2222)]


def test_a_host_that_does_not_exist() -> None:
    """The message names the key and the host."""
    with (
        pytest.raises(StartError, match=r"listeners.*no-such-host\.invalid"),
        Broker(config={"listeners": "PLAINTEXT://no-such-host.invalid:0"}),
    ):
        pass


def test_connections_are_not_delayed() -> None:
    """Small answers leave at once: TCP_NODELAY is set on every connection."""
    with Broker() as broker, WireClient("127.0.0.1", broker.port) as wire:
        assert is_served(wire)
        (connection,) = broker.parts.server._connections
        assert connection.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
