"""Ports for brokers and controllers that have to know each other's before they start."""

from __future__ import annotations

import socket


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.create_server((host, 0)) for _ in range(count)]
    ports: list[int] = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports
