"""Where the replicas of new partitions go: leaders spread evenly, replicas of one partition in different racks.

The brokers are laid out as a ring on which neighbours are in different racks as far as that goes. Partition after partition begins one place
further on, so everybody leads equally often; its other replicas follow on the ring, and the distance to them grows with every turn, so that
the partitions of one leader don't all share one follower. `seed` says where on the ring the first one begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafkapy.errors import ErrorCode, KafkaError


class UsableBroker(NamedTuple):
    """A broker that may be given replicas. One that is fenced comes last and never leads at first."""

    id: int
    rack: str | None
    fenced: bool = False


def place(brokers: Iterable[UsableBroker], count: int, replication_factor: int, seed: int) -> list[list[int]]:
    """The replicas of `count` partitions, the leader first. KafkaError INVALID_REPLICATION_FACTOR where there are too few brokers."""
    everyone = sorted(brokers)
    active = _ring([broker for broker in everyone if not broker.fenced])
    fenced = _ring([broker for broker in everyone if broker.fenced])
    if replication_factor <= 0:
        raise _refused(f"Invalid replication factor {replication_factor}: the replication factor must be positive.")
    if replication_factor > len(everyone):
        raise _refused(
            f"The target replication factor of {replication_factor} cannot be reached because only {len(everyone)} broker(s) are registered "
            "or some brokers have all their log directories cordoned."
        )
    if not active:
        raise _refused("All brokers are currently fenced, or have all their log directories cordoned.")
    placed = []
    for partition in range(count):
        start = seed + partition
        shift = start // len(active)
        placed.append(_choose(active, fenced, start % len(active), shift, replication_factor))
    return placed


def seed_after(brokers: Iterable[UsableBroker], leader: int, placed: int) -> int:
    """The seed that goes on where so many partitions have been placed already, the last one with this leader."""
    ring = [broker.id for broker in _ring([broker for broker in sorted(brokers) if not broker.fenced])]
    if leader not in ring:
        return placed
    return ring.index(leader) + 1 + placed // len(ring) * len(ring)


def _ring(brokers: list[UsableBroker]) -> list[UsableBroker]:
    """One broker of each rack in turn. Brokers without a rack count as one rack."""
    racks: dict[str, list[UsableBroker]] = {}
    for broker in brokers:
        racks.setdefault(broker.rack or "", []).append(broker)
    ring: list[UsableBroker] = []
    for turn in range(max(map(len, racks.values()), default=0)):
        ring += [racks[rack][turn] for rack in sorted(racks) if turn < len(racks[rack])]
    return ring


def _choose(
    active: Sequence[UsableBroker], fenced: Sequence[UsableBroker], start: int, shift: int, wanted: int
) -> list[int]:
    leader = active[start]
    others = len(active) - 1
    followers = [active[(start + 1 + (shift + step) % others) % len(active)] for step in range(others)]
    candidates = [*followers, *fenced]
    chosen = [leader]
    racks = {leader.rack}
    for other_racks_only in (True, False):
        for broker in candidates:
            if len(chosen) == wanted:
                break
            if broker not in chosen and (broker.rack not in racks or not other_racks_only):
                chosen.append(broker)
                racks.add(broker.rack)
    return [broker.id for broker in chosen]


def _refused(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
