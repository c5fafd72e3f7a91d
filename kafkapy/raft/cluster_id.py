"""The id of a cluster that nobody has formatted: all of its nodes must come to the same one without asking each other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def derived_cluster_id(controllers: Iterable[tuple[str, int]]) -> bytes:
    """A uuid that follows from where the controllers listen, in whatever order they are named."""
    places = ",".join(sorted(f"{host.lower()}:{port}" for host, port in controllers))
    drawn = bytearray(hashlib.sha256(f"kafkapy cluster {places}".encode()).digest()[:16])
    drawn[6] = drawn[6] & 0x0F | 0x40
    drawn[8] = drawn[8] & 0x3F | 0x80
    return bytes(drawn)
