"""Which partition of an internal topic keeps a group or a transactional id.

Every broker and every tool must agree on it, so it is Java's: the absolute value of `String.hashCode()` over UTF-16 code
units, modulo the number of partitions. The smallest integer, which has no absolute value, counts as 0.
"""

from __future__ import annotations

from functools import lru_cache

# Group ids whose partition is remembered: hashing is a loop over the characters, and a heartbeat asks each time.
REMEMBERED_IDS_MAX = 16_384


def java_hash(text: str) -> int:
    """`String.hashCode()` as an unsigned 32-bit number."""
    code = 0
    # A character outside the basic plane counts as two surrogates, exactly as Java stores it.
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code


@lru_cache(maxsize=REMEMBERED_IDS_MAX)
def partition_for(key: str, partitions: int) -> int:
    """The partition that coordinates this group id or transactional id."""
    code = java_hash(key)
    if code > 0x7FFFFFFF:
        code = (0x100000000 - code) & 0x7FFFFFFF
    return code % partitions
