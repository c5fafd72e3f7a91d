"""The timer queue: deadlines move, and the heap hardly notices."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkapy.groups.timers import TimerQueue


def test_deadlines_come_due_in_order() -> None:
    """Earliest first; equal ones in the order in which they were set."""
    timers = TimerQueue()
    for key, deadline in (("late", 30), ("a", 10), ("b", 10)):
        timers.schedule((key,), deadline)
    assert timers.next_deadline() == 10
    assert timers.expire(10) == [("a",), ("b",)]
    assert timers.expire(29) == []
    assert timers.expire(30) == [("late",)]
    assert timers.next_deadline() is None


def test_a_heartbeat_does_not_touch_the_heap() -> None:
    """A thousand moves to later leave one place in the heap, which is looked at once per timeout."""
    timers = TimerQueue()
    for now in range(1_000):
        timers.schedule(("member",), now + 45)
    assert len(timers._heap) == 1
    assert timers.expire(500) == []
    assert timers.next_deadline() == 1_044


def test_an_earlier_deadline_wakes_the_sleeper() -> None:
    """The shell is told when it would oversleep, and only then."""
    told = []
    timers = TimerQueue(lambda: told.append(timers.next_deadline()))
    timers.schedule(("a",), 100)
    timers.schedule(("a",), 200)
    timers.schedule(("b",), 150)
    timers.schedule(("c",), 50)
    assert told == [100, 50]
    assert timers.deadline_of(("a",)) == 200


def test_owners_take_their_deadlines_with_them() -> None:
    """Everything under one owner is dropped, the rest stays."""
    timers = TimerQueue()
    mine, yours = object(), object()
    timers.schedule((mine, 1), 10)
    timers.schedule((mine, 2), 20)
    timers.schedule((yours, 1), 30)
    timers.discard_owner(mine)
    assert len(timers) == 1
    assert timers.expire(100) == [(yours, 1)]


@given(
    st.lists(
        st.tuples(st.sampled_from(["set", "cancel", "pass"]), st.integers(min_value=0, max_value=5), st.integers(0, 50))
    )
)
def test_it_behaves_like_a_plain_dictionary(steps: list[tuple[str, int, int]]) -> None:
    """Whatever is set, moved, cancelled: exactly the deadlines that have passed come due."""
    timers = TimerQueue()
    model: dict[tuple[int], int] = {}
    now = 0
    for what, number, value in steps:
        key = (number,)
        if what == "set":
            timers.schedule(key, now + value)
            model[key] = now + value
        elif what == "cancel":
            timers.cancel(key)
            model.pop(key, None)
        else:
            now += value
            due = {one for one, deadline in model.items() if deadline <= now}
            assert set(timers.expire(now)) == due
            for one in due:
                del model[one]
        upcoming = timers.next_deadline()
        assert not model or (upcoming is not None and upcoming <= min(model.values()))
        assert len(timers) == len(model)
