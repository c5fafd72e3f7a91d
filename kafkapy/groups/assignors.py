"""The server-side assignors of consumer groups: `uniform` and `range`.

An assignor is a function of the members with the topics that they read, the number of partitions of each topic, and
the target so far. It gives every partition of a topic to one of the members that read it.

uniform  Everybody gets equally many partitions, as far as the subscriptions allow, and keeps what it has. range
Topic by topic, each member gets a run of neighbouring partitions; members stand in the same order for all topics, so
that equal numbers of two topics meet at one member (co-partitioning). Nobody keeps anything for its own sake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafkapy.groups.consumer_group import Target

# Rounds over all topics that the balancing of unequal subscriptions may take. Each round only ever evens out; few are
# ever needed, and the bound keeps a heartbeat short whatever the subscriptions are.
BALANCE_ROUNDS_MAX = 16


class Subscriber(NamedTuple):
    """A member, as assignors see it."""

    instance_id: str | None
    topic_ids: frozenset[bytes]


Partition = tuple[bytes, int]
Members = Mapping[str, Subscriber]
Counts = Mapping[bytes, int]
Assignment = dict[str, Target]
Assignor = Callable[[Members, Counts, Mapping[str, Target]], Assignment]


def assign_range(members: Members, counts: Counts, previous: Mapping[str, Target]) -> Assignment:
    """Runs of neighbours, topic by topic; the first members get one more where it does not come out even."""
    assigned: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in members}
    # Static members keep their place in the order when they come back under another member id.
    order = sorted(members, key=lambda member_id: (members[member_id].instance_id or member_id, member_id))
    for topic_id, count in counts.items():
        readers = [member_id for member_id in order if topic_id in members[member_id].topic_ids]
        if not readers:
            continue
        share, extra = divmod(count, len(readers))
        start = 0
        for position, member_id in enumerate(readers):
            end = start + share + (position < extra)
            if end > start:
                assigned[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assigned)


def assign_uniform(members: Members, counts: Counts, previous: Mapping[str, Target]) -> Assignment:
    """Equal shares, with as few moves as possible."""
    if not members:
        return {}
    subscriptions = {member.topic_ids for member in members.values()}
    kept = {member_id: _still_valid(member, counts, previous.get(member_id)) for member_id, member in members.items()}
    _drop_doubles(kept)
    if len(subscriptions) == 1:
        shares = _even_shares(kept, _partitions(counts, next(iter(subscriptions))))
    else:
        shares = _balanced_shares(members, counts, kept)
    return {member_id: _as_target(partitions) for member_id, partitions in shares.items()}


ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}


def _partitions(counts: Counts, topic_ids: frozenset[bytes]) -> list[Partition]:
    return [
        (topic_id, partition)
        for topic_id, count in counts.items()
        if topic_id in topic_ids
        for partition in range(count)
    ]


def _still_valid(member: Subscriber, counts: Counts, target: Target | None) -> list[Partition]:
    """What the member had and may keep: topics that it still reads, partitions that still exist."""
    if not target:
        return []
    return [
        (topic_id, partition)
        for topic_id, partitions in target.items()
        if topic_id in member.topic_ids
        for partition in sorted(partitions)
        if partition < counts.get(topic_id, 0)
    ]


def _drop_doubles(kept: dict[str, list[Partition]]) -> None:
    """A log written by somebody else might give a partition to two members; the first keeps it."""
    seen: set[Partition] = set()
    for member_id, partitions in kept.items():
        if not seen.isdisjoint(partitions):
            kept[member_id] = partitions = [one for one in partitions if one not in seen]
        seen.update(partitions)


def _even_shares(kept: dict[str, list[Partition]], partitions: list[Partition]) -> dict[str, list[Partition]]:
    """Everybody reads the same: whoever has too much gives the rest up, whoever has too little takes it."""
    share, extra = divmod(len(partitions), len(kept))
    for member_id, owned in kept.items():
        if len(owned) > share:
            size = share
            if extra:
                extra -= 1
                size += 1
            kept[member_id] = owned[:size]
    taken = {one for owned in kept.values() for one in owned}
    free = iter([one for one in partitions if one not in taken])
    for owned in kept.values():
        while len(owned) < share:
            owned.append(next(free))
    rest = list(free)
    for owned in kept.values():
        if not rest:
            break
        if len(owned) == share:
            owned.append(rest.pop(0))
    assert not rest, "the shares add up to all partitions"
    return kept


def _balanced_shares(members: Members, counts: Counts, kept: dict[str, list[Partition]]) -> dict[str, list[Partition]]:
    """Subscriptions differ: give what is free to whoever has least, then move partitions downhill until it is even."""
    owned = {member_id: set(partitions) for member_id, partitions in kept.items()}
    taken = {one for partitions in owned.values() for one in partitions}
    readers = {
        topic_id: sorted(member_id for member_id, member in members.items() if topic_id in member.topic_ids)
        for topic_id in counts
    }
    # Topics with few readers first: their partitions have the least choice.
    topics = sorted((topic_id for topic_id in counts if readers[topic_id]), key=lambda topic_id: len(readers[topic_id]))
    for topic_id in topics:
        for partition in range(counts[topic_id]):
            if (topic_id, partition) not in taken:
                poorest = min(readers[topic_id], key=lambda member_id: len(owned[member_id]))
                owned[poorest].add((topic_id, partition))
    for _ in range(BALANCE_ROUNDS_MAX):
        moved = [_balance_topic(topic_id, readers[topic_id], owned) for topic_id in topics]
        if not any(moved):
            break
    return {member_id: sorted(partitions) for member_id, partitions in owned.items()}


def _balance_topic(topic_id: bytes, readers: list[str], owned: dict[str, set[Partition]]) -> bool:
    """Move partitions of one topic from rich to poor readers, while that makes them more equal; whether any moved."""
    moved = False
    movable = {member_id: sorted(one for one in owned[member_id] if one[0] == topic_id) for member_id in readers}
    while True:
        rich = max((one for one in readers if movable[one]), key=lambda one: len(owned[one]), default=None)
        poor = min(readers, key=lambda one: len(owned[one]))
        if rich is None or len(owned[rich]) - len(owned[poor]) < 2:
            return moved
        partition = movable[rich].pop()
        owned[rich].discard(partition)
        owned[poor].add(partition)
        movable[poor].append(partition)
        moved = True


def _as_target(partitions: list[Partition]) -> Target:
    target: dict[bytes, set[int]] = {}
    for topic_id, partition in partitions:
        target.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(one) for topic_id, one in target.items()}
