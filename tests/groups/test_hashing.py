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


def test_the_partition_is_never_negative() -> None:
    """The sign bit is cleared, as Kafka does; Math.abs would leave the smallest number negative."""
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("my-group", 50) == (java_hash("my-group") & 0x7FFFFFFF) % 50
