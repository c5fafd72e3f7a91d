"""Where replicas go: everybody leads equally often, racks are told apart, and too few brokers are refused."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkapy.errors import KafkaError
from kafkapy.raft.placement import UsableBroker, place, seed_after


@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=9), st.integers(1, 9), st.integers(1, 40), st.integers(0, 999)
)
@settings(max_examples=100, deadline=None)
def test_replicas_are_spread(racks: list[str], replicas: int, count: int, seed: int) -> None:
    """No broker twice, as many racks as there can be, leaders even to one."""
    brokers = [UsableBroker(number, rack) for number, rack in enumerate(racks)]
    replicas = min(replicas, len(brokers))
    placed = place(brokers, count, replicas, seed)
    assert len(placed) == count
    for one in placed:
        assert len(set(one)) == replicas
        assert len({racks[broker] for broker in one}) == min(replicas, len(set(racks)))
    leaders = Counter(one[0] for one in placed)
    assert max(leaders.values()) - min(leaders.get(broker.id, 0) for broker in brokers) <= 1


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 5), st.integers(0, 999))
@settings(max_examples=50, deadline=None)
def test_equal_racks_get_equal_shares(racks: int, per_rack: int, replicas: int, seed: int) -> None:
    """In whole turns everybody has as many replicas as everybody else, within a few."""
    brokers = [UsableBroker(number, str(number % racks)) for number in range(racks * per_rack)]
    replicas = min(replicas, len(brokers))
    placed = place(brokers, 12 * len(brokers), replicas, seed)
    shares = Counter(broker for one in placed for broker in one)
    assert max(shares.values()) - min(shares.values()) <= 2 * replicas


@given(st.integers(1, 6), st.integers(1, 20), st.integers(1, 20), st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_more_partitions_go_on_where_the_last_one_began(brokers: int, before: int, added: int, seed: int) -> None:
    """Leaders are as even as if all had been placed at once."""
    everyone = [UsableBroker(number, None) for number in range(brokers)]
    placed = place(everyone, before, 1, seed)
    placed += place(everyone, added, 1, seed_after(everyone, placed[-1][0], before))
    leaders = Counter(one[0] for one in placed)
    assert max(leaders.values()) - min(leaders.get(broker.id, 0) for broker in everyone) <= 1


def test_a_leader_that_is_gone_leaves_no_place_to_go_on_at() -> None:
    """Then any will do."""
    assert seed_after([UsableBroker(1, None), UsableBroker(2, None, fenced=True)], 2, 7) == 7


def test_the_followers_of_one_leader_differ() -> None:
    """When a broker dies, its partitions are led by different ones afterwards."""
    brokers = [UsableBroker(number, None) for number in range(5)]
    placed = place(brokers, 40, 3, 0)
    for leader in range(5):
        assert len({one[1] for one in placed if one[0] == leader}) == 4


def test_a_fenced_broker_comes_last() -> None:
    """It is used where the others don't suffice, and never leads."""
    brokers = [UsableBroker(1, None), UsableBroker(2, None, fenced=True), UsableBroker(3, None)]
    assert all(2 not in one for one in place(brokers, 6, 2, 0))
    assert {one[-1] for one in place(brokers, 6, 3, 0)} == {2}


@pytest.mark.parametrize(
    ("brokers", "replicas", "message"),
    [
        ([UsableBroker(1, None)], 2, "cannot be reached because only 1 broker"),
        ([UsableBroker(1, None)], 0, "must be positive"),
        ([UsableBroker(1, None, fenced=True)], 1, "All brokers are currently fenced"),
    ],
)
def test_what_cannot_be_placed(brokers: list[UsableBroker], replicas: int, message: str) -> None:
    """INVALID_REPLICATION_FACTOR, with the reason."""
    with pytest.raises(KafkaError, match=message) as refused:
        place(brokers, 1, replicas, 0)
    assert refused.value.code == 38
