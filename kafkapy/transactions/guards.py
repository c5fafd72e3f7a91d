"""Notices when a transaction ends while its coordinator, on another broker, is being asked about a partition.

The answer may come after the marker: the coordinator said yes, then the transaction ended, and both messages crossed. Records that were appended then
would open a transaction that nobody ever ends. So whoever asks takes a guard first; a marker of the producer in one of the partitions breaks
it there, and then the answer counts for nothing (KIP-890 calls this a verification guard).
"""

from __future__ import annotations

from kafkapy.transactions.transaction import TopicPartitions

_Place = tuple[str, int, int]  # topic, partition, producer id


class Guard:
    """Taken before a question; `intact` shrinks with each marker that comes before the answer."""

    __slots__ = ("_guards", "_producer_id", "intact")

    def __init__(self, guards: Guards, producer_id: int, partitions: TopicPartitions) -> None:
        self._guards = guards
        self._producer_id = producer_id
        self.intact = set(partitions)

    def close(self) -> set[tuple[str, int]]:
        """The answer is there; the partitions for which it counts."""
        for topic, partition in self.intact:
            self._guards.drop((topic, partition, self._producer_id), self)
        return self.intact


class Guards:
    """All questions of one broker that have no answer yet."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[_Place, list[Guard]] = {}

    def __len__(self) -> int:
        """In how many places somebody waits for an answer."""
        return len(self._open)

    def take(self, producer_id: int, partitions: TopicPartitions) -> Guard:
        """Watch these partitions until the guard is closed."""
        guard = Guard(self, producer_id, partitions)
        for topic, partition in partitions:
            self._open.setdefault((topic, partition, producer_id), []).append(guard)
        return guard

    def ended(self, topic: str, partition: int, producer_id: int) -> None:
        """A marker of this producer was appended to the partition."""
        if self._open:
            for guard in self._open.pop((topic, partition, producer_id), ()):
                guard.intact.discard((topic, partition))

    def drop(self, place: _Place, guard: Guard) -> None:
        """Forget a guard that is closed."""
        guards = self._open[place]
        guards.remove(guard)
        if not guards:
            del self._open[place]
