"""How much each benchmark does: in full, or just enough to see that it works."""

from __future__ import annotations

from typing import NamedTuple


class Sizes(NamedTuple):
    """The full amounts."""

    bulk_mb: int = 500
    small_count: int = 1_000_000
    seconds: float = 5.0
    idempotent_rounds: int = 5
    partitions: int = 1_000
    group_members: int = 500
    heartbeating_groups: int = 2_000
    heartbeat_seconds: float = 15.0
    committed_offsets: int = 1_000_000
    idle_connections: int = 10_000
    many_partitions: int = 10_000
    compaction_mb: int = 1_000


FULL = Sizes()
QUICK = Sizes(
    bulk_mb=40,
    small_count=100_000,
    seconds=1.5,
    idempotent_rounds=2,
    partitions=200,
    group_members=50,
    heartbeating_groups=100,
    heartbeat_seconds=6.0,
    committed_offsets=20_000,
    idle_connections=500,
    many_partitions=500,
    compaction_mb=50,
)
