"""Where replicas shall go: pure functions from what is there to a list of changes. The first replica is the preferred leader.

Brokers are a mapping from node id to rack. A plan moves no more than it must: each replica that stays is one that need not be copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkapy.types import TopicPartition

Racks = Mapping[int, str | None]


class Placed(NamedTuple):
    """A partition and the replicas that it has, or will have once a move that is under way is done."""

    partition: TopicPartition
    replicas: tuple[int, ...]


class Change(NamedTuple):
    """A partition that gets other replicas, or the same ones in another order."""

    partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def adding(self) -> tuple[int, ...]:
        """The brokers that have to copy it."""
        return tuple(broker for broker in self.after if broker not in self.before)


class ImpossiblePlan(Exception):
    """There are not enough brokers; the message names the partition."""


def to_brokers(placed: Sequence[Placed], brokers: Sequence[int]) -> list[Change]:
    """All partitions to exactly these brokers, the preferred leaders taken in turn."""
    changes = []
    for place, (partition, before) in enumerate(placed):
        turn = place % len(brokers)
        changes.append(Change(partition, before, (*brokers[turn:], *brokers[:turn])))
    return _real(changes)


def away_from(
    placed: Sequence[Placed], everything: Iterable[Placed], racks: Racks, leaving: Iterable[int]
) -> list[Change]:
    """No replica stays on the leaving brokers; each goes where the fewest of all replicas are, and keeps its place in the list."""
    gone = set(leaving)
    load = Counter(broker for one in everything for broker in one.replicas)
    changes = []
    for partition, before in placed:
        after = list(before)
        for place, broker in enumerate(before):
            if broker not in gone:
                continue
            rest = [other for other in after if other != broker]
            free = [other for other in racks if other not in gone and other not in rest]
            if not free:
                raise ImpossiblePlan(
                    f"{partition} has {len(before)} replicas, and there is no other broker for one of them"
                )
            used = {racks.get(other) for other in rest}
            after[place] = min(free, key=lambda other: (racks[other] in used, load[other], other))
            load[after[place]] += 1
            load[broker] -= 1
        changes.append(Change(partition, before, tuple(after)))
    return _real(changes)


def spread(placed: Sequence[Placed], racks: Racks) -> list[Change]:
    """As many of these replicas on each broker, give or take one, and as many preferred leaders."""
    after = {one.partition: list(one.replicas) for one in placed}
    _even_replicas(after, racks)
    _even_leaders(after, racks)
    return _real([Change(one.partition, one.replicas, tuple(after[one.partition])) for one in placed])


def _even_replicas(after: dict[TopicPartition, list[int]], racks: Racks) -> None:
    load = Counter(dict.fromkeys(racks, 0))
    load.update(broker for replicas in after.values() for broker in replicas)
    # Every step makes the loads more even, so this ends.
    while (step := _next_step(after, load, racks)) is not None:
        replicas, source, destination = step
        replicas[replicas.index(source)] = destination
        load[source] -= 1
        load[destination] += 1


def _next_step(
    after: dict[TopicPartition, list[int]], load: Counter[int], racks: Racks
) -> tuple[list[int], int, int] | None:
    """A replica of a broker with more that can go to one with at least two fewer, without fewer racks than before."""
    by_load = sorted(load, key=lambda broker: (load[broker], broker))
    for source in reversed(by_load):
        for destination in by_load:
            if destination not in racks:
                continue
            # A broker that is not there any more gives all away.
            if source in racks and load[source] - load[destination] < 2:
                break
            for replicas in after.values():
                if (
                    source in replicas
                    and destination not in replicas
                    and _racks_stay(replicas, source, destination, racks)
                ):
                    return replicas, source, destination
    return None


def _racks_stay(replicas: Sequence[int], source: int, destination: int, racks: Racks) -> bool:
    moved = [destination if broker == source else broker for broker in replicas]
    return len({racks.get(broker) for broker in moved}) >= len({racks.get(broker) for broker in replicas})


def _even_leaders(after: dict[TopicPartition, list[int]], racks: Racks) -> None:
    leads = Counter(dict.fromkeys(racks, 0))
    leads.update(replicas[0] for replicas in after.values() if replicas)
    improved = True
    while improved:
        improved = False
        for replicas in after.values():
            if not replicas:
                continue
            fewest = min(replicas, key=lambda broker: (leads[broker], replicas.index(broker)))
            if leads[replicas[0]] - leads[fewest] >= 2:
                leads[replicas[0]] -= 1
                leads[fewest] += 1
                replicas.remove(fewest)
                replicas.insert(0, fewest)
                improved = True


def _real(changes: Iterable[Change]) -> list[Change]:
    return [change for change in changes if change.before != change.after]
