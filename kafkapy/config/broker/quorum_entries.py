"""The lists by which controllers are named: ID@HOST:PORT for voters, HOST:PORT for bootstrap servers."""

from __future__ import annotations

from kafkapy.config.validators import ConfigException

_VOTERS_FORM = "Each entry should be in the form `{id}@{host}:{port}`."
_SERVERS_FORM = 'Each entry should be in the form "{host}:{port}"'


def parse_voters(name: str, entries: tuple[str, ...] | None) -> dict[int, tuple[str, int]]:
    """The address of each voter by its node id."""
    if entries is None:
        raise ConfigException.invalid(name, None)
    voters: dict[int, tuple[str, int]] = {}
    for entry in entries:
        node, at, address = entry.partition("@")
        if not at or "@" in address:
            raise ConfigException(f"Invalid configuration value for {name}. {_VOTERS_FORM}", name)
        if not node.strip().removeprefix("-").isdecimal():
            raise ConfigException(f"Failed to parse voter ID as an integer from {node} in {name}.", name)
        host, port = split_address(address)
        if host is None:
            raise ConfigException(
                f"Failed to parse host name from entry {entry} for the configuration {name}. {_VOTERS_FORM}", name
            )
        if port is None:
            raise ConfigException(
                f"Failed to parse host port from entry {entry} for the configuration {name}. {_VOTERS_FORM}", name
            )
        voters[int(node)] = (host, port)
    return voters


def parse_bootstrap_servers(name: str, entries: tuple[str, ...] | None) -> list[tuple[str, int]]:
    """The addresses in the order given."""
    if entries is None:
        raise ConfigException.invalid(name, None)
    servers = []
    for entry in entries:
        host, port = split_address(entry)
        if host is None:
            raise ConfigException(
                f"Failed to parse host name from {entry} for the configuration {name}. {_SERVERS_FORM}", name
            )
        if port is None:
            raise ConfigException(
                f"Failed to parse port from {entry} for the configuration {name}. {_SERVERS_FORM}", name
            )
        servers.append((host, port))
    return servers


def split_address(address: str) -> tuple[str | None, int | None]:
    """HOST:PORT or [IPV6]:PORT; a part that is missing or malformed is None."""
    host, colon, port = address.rpartition(":")
    if not colon:
        return None, None
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare or not all(c.isalnum() or c in "-._:%" for c in bare):
        return None, None
    return bare, int(port) if port.isascii() and port.isdecimal() and int(port) < 65536 else None
