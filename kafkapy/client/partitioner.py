"""Which partition a record goes to, as Java's producer decides it: by the hash of its key, or any where there is no key.

Records with equal keys go to one partition whichever client writes them, as long as all clients hash alike: murmur2 over the
key's bytes, seed 0x9747b28c, top bit cleared, modulo the number of partitions. Without a key the records stick to one
partition until the producer starts another batch, which makes large batches of few records.
"""

from __future__ import annotations

import random
import struct

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 hash, unsigned."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for (k,) in struct.iter_unpack("<I", data[:whole]):
        k = k * _M & _MASK
        k ^= k >> 24
        h = h * _M & _MASK ^ (k * _M & _MASK)
    tail = data[whole:]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    return h ^ h >> 15


class Partitioner:
    """Chooses among the partitions of one topic."""

    __slots__ = ("_count", "_random", "_sticky")

    def __init__(self, count: int, chooser: random.Random | None = None) -> None:
        self._count = count
        self._random = chooser or random.Random()
        self._sticky = self._random.randrange(count)

    def partition_for(self, key: bytes | None) -> int:
        """By the key's hash; the sticky one without a key."""
        if key is None:
            return self._sticky
        return (murmur2(key) & 0x7FFFFFFF) % self._count

    def next_batch(self) -> None:
        """The batch of the sticky partition is full: go on with another partition."""
        if self._count > 1:
            self._sticky = (self._sticky + self._random.randrange(1, self._count)) % self._count
