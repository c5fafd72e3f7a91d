"""Notices when a transaction ends while its coordinator, on another broker, is being asked about a partition.

The answer may come after the marker: the coordinator said yes, then the transaction ended, and both messages crossed. Records that were appended then
would open a transaction that nobody ever ends. So whoever asks takes a guard first; a marker of that transaction in one of the partitions breaks
it there, and then the answer counts for nothing (KIP-890 calls this a verification guard).

The marker of the transaction before may come meanwhile too, and breaks nothing. In Transactions V2 each transaction has an epoch of its own,
and ends with a marker of the next one. In V1 a partition is announced after the end of the transaction before, so every marker is of this one.
"""

from __future__ import annotations

from kafkapy.transactions.transaction import Producer, TopicPartitions

_Place = tuple[str, int, int]  # topic, partition, producer id


class Guard:
    """Taken before a question; what is `broken` when the answer comes has ended meanwhile."""

    __slots__ = ("_guards", "_producer_id", "broken", "first_epoch", "partitions")

    def __init__(self, guards: Guards, producer_id: int, first_epoch: int, partitions: TopicPartitions) -> None:
        self._guards = guards
        self._producer_id = producer_id
        self.first_epoch = first_epoch  # of the markers that break it
        self.partitions = partitions
        self.broken: set[tuple[str, int]] = set()

    def close(self) -> None:
        """The answer is there."""
        for topic, partition in self.partitions:
            self._guards.drop((topic, partition, self._producer_id), self)


class Guards:
    """All questions of one broker that have no answer yet."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[_Place, list[Guard]] = {}

    def __len__(self) -> int:
        """In how many places somebody waits for an answer."""
        return len(self._open)

    def take(self, producer: Producer, partitions: TopicPartitions, *, add: bool) -> Guard:
        """Watch these partitions until the guard is closed. `add`: the producer speaks Transactions V2."""
        producer_id, epoch = producer
        guard = Guard(self, producer_id, epoch + 1 if add else epoch, partitions)
        for topic, partition in partitions:
            self._open.setdefault((topic, partition, producer_id), []).append(guard)
        return guard

    def ended(self, topic: str, partition: int, producer: Producer) -> None:
        """A marker with this producer id and epoch was appended to the partition."""
        if not self._open:
            return
        producer_id, epoch = producer
        for guard in self._open.get((topic, partition, producer_id), ()):
            if epoch >= guard.first_epoch:
                guard.broken.add((topic, partition))

    def drop(self, place: _Place, guard: Guard) -> None:
        """Forget a guard that is closed."""
        guards = self._open[place]
        guards.remove(guard)
        if not guards:
            del self._open[place]
