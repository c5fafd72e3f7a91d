"""Keeps the Produce requests of a transaction in order while the coordinator is asked about their partitions.

A producer sends several requests without waiting, and numbers its batches. If one had to wait for the coordinator and the next had not, the second
would be appended first. So requests of one connection queue up behind one that waits. And if the first is refused for the moment, the second must
not become the producer's first batch in the partition, where any number is accepted: the producer sends both again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any, NamedTuple

# Producers send what was refused again within a second; what is pushed out by so many others was given up.
REFUSED_MAX = 10_000


class Place(NamedTuple):
    """A producer's life in a partition."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int


class ProduceOrder:
    """The requests that wait, by connection, and the sequences that were refused."""

    __slots__ = ("_refused", "queues")

    def __init__(self) -> None:
        self.queues: dict[Any, deque[Any]] = {}
        self._refused: OrderedDict[Place, int] = OrderedDict()

    def refused(self, place: Place, sequence: int) -> None:
        """A batch was not let in. The lowest sequence is the one to wait for."""
        self._refused[place] = min(sequence, self._refused.get(place, sequence))
        if len(self._refused) > REFUSED_MAX:
            self._refused.popitem(last=False)

    def forget(self, place: Place) -> None:
        """The log knows the producer in this life, and checks its sequences itself; what was refused here may be there through another leader."""
        self._refused.pop(place, None)

    def is_too_early(self, place: Place, sequence: int) -> bool:
        """Whether a batch that was refused has to come before this one. Once that one comes it is forgotten."""
        awaited = self._refused.get(place)
        if awaited is None:
            return False
        if sequence > awaited:
            return True
        del self._refused[place]
        return False
