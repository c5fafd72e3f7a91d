"""Listeners: `NAME://HOST:PORT`, the security protocol that each name speaks, and the checks between the keys about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkapy.config.broker.quorum_entries import split_address
from kafkapy.config.validators import ConfigException

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Listener(NamedTuple):
    """One address to listen on, or to tell clients. An empty host is every address of the machine."""

    name: str
    host: str
    port: int
    protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_protocol_map(text: str, controller_names: Iterable[str], is_default: bool) -> dict[str, str]:
    """Which protocol each listener name speaks. While the map is the default, controller listeners are plain text."""
    name = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for entry in filter(None, (item.strip() for item in text.split(","))):
        listener, colon, protocol = entry.rpartition(":")
        if not colon:
            raise ConfigException.invalid(name, text, f"{entry!r} is not of the form NAME:PROTOCOL")
        protocol = protocol.strip().upper()
        if protocol not in SECURITY_PROTOCOLS:
            raise ConfigException(f"Invalid security protocol `{protocol}` defined in {name}", name)
        protocols[listener.strip().upper()] = protocol
    if is_default:
        for listener in controller_names:
            protocols.setdefault(listener.upper(), "PLAINTEXT")
    return protocols


def parse_listeners(
    name: str, entries: Iterable[str], protocols: Mapping[str, str], distinct_ports: bool = True
) -> tuple[Listener, ...]:
    """The listeners of `name`, whose names must differ, and their ports too unless they are for clients to connect to."""
    listeners: list[Listener] = []
    for entry in entries:
        listener = _parse_listener(name, entry, protocols)
        for other in listeners:
            if other.name == listener.name:
                raise _twice(name, entries, "name", listener.name)
            if distinct_ports and other.port == listener.port != 0 and not _different_family(other.host, listener.host):
                raise _twice(name, entries, "port", str(listener.port))
        listeners.append(listener)
    return tuple(listeners)


def _parse_listener(name: str, entry: str, protocols: Mapping[str, str]) -> Listener:
    listener_name, separator, address = entry.partition("://")
    listener_name = listener_name.upper()
    every_address = address.startswith(":") and address.count(":") == 1
    host, port = split_address(f"any{address}" if every_address else address)
    if not separator or host is None or port is None:
        raise ConfigException.invalid(name, entry, "expected NAME://HOST:PORT with a port from 0 to 65535")
    protocol = protocols.get(listener_name)
    if protocol is None:
        raise ConfigException(
            f"{name}: No security protocol defined for listener {listener_name}; "
            "name it in listener.security.protocol.map",
            name,
        )
    return Listener(listener_name, "" if every_address else host, port, protocol)


def _different_family(one: str, other: str) -> bool:
    """Whether two hosts are an IPv4 and an IPv6 address, which may share a port."""
    return (_is_ipv4(one) and ":" in other) or (":" in one and _is_ipv4(other))


def _is_ipv4(host: str) -> bool:
    parts = host.split(".")
    return len(parts) == 4 and all(part.isdecimal() for part in parts)


def _twice(name: str, entries: Iterable[str], what: str, value: str) -> ConfigException:
    return ConfigException(
        f"{name}: Each listener must have a different {what}, but {value} appears twice in {','.join(entries)}", name
    )
