"""Keys go where Java's producer sends them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.client.partitioner import Partitioner, murmur2


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_javas(key: bytes, signed: int) -> None:
    """Known values of Kafka's murmur2."""
    assert murmur2(key) == signed & 0xFFFFFFFF


@given(st.binary(max_size=64), st.integers(1, 1000))
def test_equal_keys_go_to_the_same_partition(key: bytes, count: int) -> None:
    """Whatever producer instance chooses."""
    first, second = Partitioner(count), Partitioner(count)
    second.next_batch()
    assert first.partition_for(key) == second.partition_for(key)
    assert 0 <= first.partition_for(key) < count


def test_without_a_key_one_partition_is_kept_until_the_next_batch() -> None:
    """Then it is another one, where there is another one."""
    partitioner = Partitioner(3, random.Random(1))
    seen = set()
    for _ in range(50):
        chosen = partitioner.partition_for(None)
        assert partitioner.partition_for(None) == chosen
        partitioner.next_batch()
        assert partitioner.partition_for(None) != chosen
        seen.add(chosen)
    assert seen == {0, 1, 2}
    single = Partitioner(1)
    single.next_batch()
    assert single.partition_for(None) == 0
