"""The partition of a group must be the one that every other broker and tool computes."""

from __future__ import annotations

import pytest

from kafkapy.hashing import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("console-consumer-12345", 158_455_506),
        ("polygenelubricants", 0x80000000),  # Integer.MIN_VALUE, whose absolute value is negative in Java
        ("grüße", 98_768_023),
        ("𝄞", 0xD834 * 31 + 0xDD1E),  # two surrogates
    ],
)
def test_the_hash_is_javas(text: str, code: int) -> None:
    """String.hashCode over UTF-16 code units."""
    assert java_hash(text) == code


@pytest.mark.parametrize(
    ("group", "partitions", "partition"),
    [
        ("t1-group", 3, 2),  # its hash is -2067482897
        ("polygenelubricants", 50, 0),  # -2^31 has no absolute value
        ("my-group", 50, 12),
        ("a", 50, 47),
        ("", 50, 0),
    ],
)
def test_the_partition_is_kafkas(group: str, partitions: int, partition: int) -> None:
    """The absolute value counts, not the hash without its sign bit: Kafka has a function for each and uses this one here."""
    assert partition_for(group, partitions) == partition
