"""Parked answers are woken by key, expire at their deadline, and never disturb each other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio
import trio.testing

from kafkapy.handlers.wait import Wait
from kafkapy.server.waiting import SWEEP_AT_MIN, Waiting


class FakeSlot:
    """Remembers what it was given."""

    def __init__(self) -> None:
        self.responses: list[Any] = []
        self.errors: list[BaseException] = []

    def finish(self, response: Any) -> None:
        self.responses.append(response)

    def fail(self, error: BaseException) -> None:
        self.errors.append(error)


def simulate(scenario: Callable[[Waiting], Awaitable[None]]) -> None:
    """Run a scenario against a Waiting on a clock that jumps over sleeps."""

    async def main() -> None:
        waiting = Waiting(lambda: int(trio.current_time() * 1000))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiting.run)
            await trio.testing.wait_all_tasks_blocked()
            await scenario(waiting)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def now_ms() -> int:
    return int(trio.current_time() * 1000)


def test_a_woken_key_asks_again_and_the_answer_reaches_the_slot() -> None:
    """Waking one of several keys is enough; before `settle` nothing happens."""
    answers = iter([None, "ready"])

    async def scenario(waiting: Waiting) -> None:
        slot = FakeSlot()
        waiting.park(Wait(("a", "b"), now_ms() + 1000, lambda expired: next(answers)), slot)
        waiting.wake("b")
        assert not slot.responses
        waiting.settle()
        assert not slot.responses
        waiting.wake("a")
        waiting.settle()
        assert slot.responses == ["ready"]
        waiting.wake("a")
        assert not waiting.marked

    simulate(scenario)


def test_a_wait_expires_at_its_deadline_even_when_a_later_one_was_parked_first() -> None:
    """The sleep is shortened for an earlier deadline."""

    async def scenario(waiting: Waiting) -> None:
        late, early = FakeSlot(), FakeSlot()
        begun = trio.current_time()
        ended: list[float] = []

        def expire(expired: bool) -> str | None:
            if expired:
                ended.append(trio.current_time() - begun)
                return "expired"
            return None

        waiting.park(Wait(("x",), now_ms() + 5000, expire), late)
        waiting.park(Wait(("x",), now_ms() + 500, expire), early)
        await trio.sleep(1)
        assert early.responses == ["expired"] and not late.responses
        await trio.sleep(10)
        assert late.responses == ["expired"]
        assert [round(seconds, 1) for seconds in ended] == [0.5, 5.0]

    simulate(scenario)


def test_a_wait_that_raises_fails_its_own_slot_only() -> None:
    """The error goes to the slot; another wait on the same key is still answered."""

    async def scenario(waiting: Waiting) -> None:
        broken, sound = FakeSlot(), FakeSlot()

        def breaks(expired: bool) -> Any:
            raise ValueError("broken")

        waiting.park(Wait(("k",), now_ms() + 1000, breaks), broken)
        waiting.park(Wait(("k",), now_ms() + 1000, lambda expired: 1), sound)
        waiting.wake("k")
        waiting.settle()
        assert sound.responses == [1]
        assert [str(error) for error in broken.errors] == ["broken"]

    simulate(scenario)


def test_a_forgotten_wait_is_never_asked() -> None:
    """Its connection is gone, so neither wake nor deadline reach it."""

    async def scenario(waiting: Waiting) -> None:
        slot = FakeSlot()
        parked = waiting.park(Wait(("k",), now_ms() + 100, lambda expired: 1), slot)
        waiting.forget(parked)
        waiting.wake("k")
        await trio.sleep(1)
        assert not slot.responses and not waiting.marked

    simulate(scenario)


def test_answers_that_wake_others_settle_in_the_same_turn() -> None:
    """An answer may mark a key; the waits on it are asked before settle returns."""

    async def scenario(waiting: Waiting) -> None:
        first, second = FakeSlot(), FakeSlot()

        def wakes(expired: bool) -> str:
            waiting.wake("second")
            return "one"

        waiting.park(Wait(("first",), now_ms() + 1000, wakes), first)
        waiting.park(Wait(("second",), now_ms() + 1000, lambda expired: "two"), second)
        waiting.wake("first")
        waiting.settle()
        assert (first.responses, second.responses) == (["one"], ["two"])

    simulate(scenario)


def test_answered_waits_leave_the_heap_of_deadlines() -> None:
    """A hundred thousand long polls that were all answered leave no garbage behind."""

    async def scenario(waiting: Waiting) -> None:
        for _ in range(10 * SWEEP_AT_MIN):
            waiting.park(Wait(("k",), now_ms() + 30_000, lambda expired: 1), FakeSlot())
            waiting.wake("k")
            waiting.settle()
        assert len(waiting._deadlines) <= SWEEP_AT_MIN + 1

    simulate(scenario)


def test_a_wait_without_an_answer_at_its_deadline_fails_alone() -> None:
    """It is a mistake of ours, which closes one connection; the others' waits still expire."""

    async def scenario(waiting: Waiting) -> None:
        silent, other = FakeSlot(), FakeSlot()
        waiting.park(Wait(("a",), now_ms() + 10, lambda expired: None), silent)
        waiting.park(Wait(("a",), now_ms() + 20, lambda expired: "late" if expired else None), other)
        await trio.sleep(1)
        assert other.responses == ["late"]
        assert isinstance(silent.errors[0], AssertionError)
        assert len(waiting) == 0

    simulate(scenario)
