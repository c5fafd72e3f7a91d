"""Which offset holds the newest record of each key, in a bounded piece of memory.

Keys can be long and many, so the table keeps 128 bits in the place of each key: 24 bytes per slot, three numbers of 64 bits.

    digest, first half      0: the slot is free
    digest, second half
    offset

A log that has more keys than fit is compacted in several rounds. Two keys with the same digest would cost one of them its record. The
digest is two halves of SipHash, which Python computes for its own dictionaries, keyed with random numbers that are new in each process:
nobody can aim at a collision, and for five million keys one comes about by chance once in 10^25 rounds.
"""

from __future__ import annotations

from math import isqrt

SLOT_BYTES = 24
_WORD_BYTES = 8
# A table that is half empty is quick to search; more than this helps nobody.
_LOAD_FACTOR_AIM = 0.5
_SLOTS_MIN = 8


class OffsetMap:
    """Key -> last offset. Open addressing with double hashing; entries are only ever added."""

    __slots__ = ("_offsets", "_second", "_slots", "_table", "capacity", "count", "latest_offset")

    def __init__(self, memory_bytes: int, load_factor: float, keys_max: int) -> None:
        """`keys_max` keys at most can come, so a small log gets a small table."""
        affordable = max(_SLOTS_MIN, memory_bytes // SLOT_BYTES)
        self.capacity = max(1, int(affordable * load_factor))
        wanted = int(keys_max / min(load_factor, _LOAD_FACTOR_AIM)) + _SLOTS_MIN
        self._slots = _prime_at_most(min(affordable, wanted))
        # A bytearray of zeros takes real memory only where it is written to.
        self._table, self._second, self._offsets = (
            memoryview(bytearray(self._slots * _WORD_BYTES)).cast("q") for _ in range(3)
        )
        self.capacity = min(self.capacity, self._slots - 1)
        self.count = 0
        self.latest_offset = -1  # Keys were taken in up to here.

    def put(self, key: bytes, offset: int) -> bool:
        """Note that `offset` holds a record of `key`, later than all before; False when there is no room for another key."""
        first, second = hash(key) or 1, hash(b"\0" + key)
        slots, table = self._slots, self._table
        slot = first % slots
        found = table[slot]
        if found and (found != first or self._second[slot] != second):
            step = second % (slots - 1) + 1
            while found and (found != first or self._second[slot] != second):
                slot = (slot + step) % slots
                found = table[slot]
        if not found:
            if self.count >= self.capacity:
                return False
            self.count += 1
            table[slot] = first
            self._second[slot] = second
        self._offsets[slot] = offset
        self.latest_offset = offset
        return True

    def get(self, key: bytes) -> int:
        """The last offset of a key; -1 when it was not seen."""
        first, second = hash(key) or 1, hash(b"\0" + key)
        slots, table = self._slots, self._table
        slot = first % slots
        found = table[slot]
        if found and (found != first or self._second[slot] != second):
            step = second % (slots - 1) + 1
            while found and (found != first or self._second[slot] != second):
                slot = (slot + step) % slots
                found = table[slot]
        return self._offsets[slot] if found else -1

    def reached(self, offset: int) -> None:
        """Everything up to `offset` was looked at."""
        if offset > self.latest_offset:
            self.latest_offset = offset


def _prime_at_most(number: int) -> int:
    """The largest prime that is not larger: with a prime number of slots every step visits all of them."""
    while any(number % divisor == 0 for divisor in range(2, isqrt(number) + 1)):
        number -= 1
    return number
