"""A map that never changes: an update makes a new one that shares nearly everything with the old.

Images are immutable, and a cluster may have ten thousand topics: to copy a dict of them for each change costs a tenth of a millisecond and more. Here
the entries lie in shards by hash, and an update copies the few shards that it touches: a microsecond or two, whatever the size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Generic, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

SHARDS = 128  # a power of two
_MASK = SHARDS - 1


class PersistentMap(Generic[K, V]):
    """Reads like a dict. The order of iteration has no meaning; who writes snapshots sorts."""

    __slots__ = ("_shards", "_size")

    def __init__(self, entries: Mapping[K, V] | None = None) -> None:
        self._shards: list[dict[K, V]] = _EMPTY_SHARDS
        self._size = 0
        if entries:
            filled = self.updated(entries)
            self._shards, self._size = filled._shards, filled._size

    def updated(self, changes: Mapping[K, V], removed: Collection[K] = ()) -> PersistentMap[K, V]:
        """A map with these entries added or replaced and those keys gone; a key in both is replaced."""
        copies: dict[int, dict[K, V]] = {}
        shards = self._shards
        for key in removed:
            position = hash(key) & _MASK
            if position not in copies:
                copies[position] = dict(shards[position])
            copies[position].pop(key, None)
        for key, value in changes.items():
            position = hash(key) & _MASK
            if position not in copies:
                copies[position] = dict(shards[position])
            copies[position][key] = value
        if not copies:
            return self
        fresh: PersistentMap[K, V] = PersistentMap.__new__(PersistentMap)
        fresh._size = self._size + sum(len(copy) - len(shards[position]) for position, copy in copies.items())
        fresh._shards = shards.copy()
        for position, copy in copies.items():
            fresh._shards[position] = copy
        return fresh

    @overload
    def get(self, key: K) -> V | None: ...

    @overload
    def get(self, key: K, default: D) -> V | D: ...

    def get(self, key: K, default: D | None = None) -> V | D | None:
        """The value, or the default."""
        return self._shards[hash(key) & _MASK].get(key, default)

    def __getitem__(self, key: K) -> V:
        return self._shards[hash(key) & _MASK][key]

    def __contains__(self, key: K) -> bool:
        return key in self._shards[hash(key) & _MASK]

    def __iter__(self) -> Iterator[K]:
        for shard in self._shards:
            yield from shard

    def values(self) -> Iterator[V]:
        """All values."""
        for shard in self._shards:
            yield from shard.values()

    def items(self) -> Iterator[tuple[K, V]]:
        """All entries."""
        for shard in self._shards:
            yield from shard.items()

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PersistentMap):
            return NotImplemented
        return self._shards == other._shards

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self.items())!r})"


_EMPTY: dict = {}
_EMPTY_SHARDS = [_EMPTY] * SHARDS
