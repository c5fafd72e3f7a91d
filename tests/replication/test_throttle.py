"""Throttled copies: the rate holds on average, and only for those who are named and not in sync."""

from __future__ import annotations

import pytest

from kafkapy.replication.throttle import Throttle, is_throttled
from tests.replication.support import send
from tests.replication.test_follower import Pair, ends


def test_rate_holds_on_average() -> None:
    """A piece may overdraw the bucket; the next one waits until that is paid."""
    throttle = Throttle(1000)
    now_ms, sent = 5_000, 0
    while now_ms < 25_000:
        wait_ms = throttle.wait_ms(now_ms)
        if wait_ms:
            now_ms += wait_ms
        else:
            throttle.take(700, now_ms)
            sent += 700
    assert 20_000 <= sent <= 22_000


def test_pause_is_no_reason_for_a_burst() -> None:
    """The bucket holds one second's worth."""
    throttle = Throttle(1000)
    throttle.take(0, 0)
    throttle.take(1500, 1_000_000)
    assert throttle.wait_ms(1_000_000) == 501


def test_without_a_rate_nothing_waits() -> None:
    """As long as none is configured."""
    throttle = Throttle()
    throttle.take(1 << 40, 1)
    assert throttle.wait_ms(1) == 0


@pytest.mark.parametrize(
    "replicas,expected",
    [((), False), (("*",), True), (("3:1",), True), (("3:2", "4:1"), False), (("4:1", "3:1"), True)],
)
def test_who_is_named(replicas: tuple[str, ...], expected: bool) -> None:
    """Pairs of partition and broker, or the star for all."""
    assert is_throttled(replicas, 3, 1) is expected


def test_leader_holds_back_who_is_not_in_sync() -> None:
    """In sync they are served at once: acknowledgements wait for them."""
    pair = Pair()
    throttle = pair.ours[0].leader_throttle = Throttle(100)
    pair.wire.run()
    throttle.take(300, pair.clock.now_ms)
    send(pair.ours[0], 2)
    pair.wire.run()
    assert ends(pair.theirs[0])[0] == 2
    pair.lead(2, (1,))
    pair.wire.run()
    throttle.take(3000, pair.clock.now_ms)
    send(pair.ours[0], 2)
    pair.wire.run()
    assert ends(pair.theirs[0])[0] == 2
    for _ in range(100):
        pair.clock.now_ms += 500
        pair.wire.run()
    assert ends(pair.theirs[0])[0] == 4
