"""Frame memory is reserved first come, first served, and given back when its holder is cancelled."""

from __future__ import annotations

import trio
import trio.testing

from kafkapy.server.memory import MemoryPool


def test_a_large_reservation_is_not_overtaken_by_small_ones() -> None:
    """Who asks first gets memory first, although a later small request would fit at once."""

    async def main() -> None:
        pool = MemoryPool(100)
        order: list[str] = []

        async def take(name: str, size: int) -> None:
            await pool.reserve(size)
            order.append(name)

        await pool.reserve(60)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take, "large", 95)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(take, "small", 10)
            await trio.testing.wait_all_tasks_blocked()
            assert not order and pool.contended
            pool.release(60)
            await trio.testing.wait_all_tasks_blocked()
            assert order == ["large"]
            pool.release(95)
        assert order == ["large", "small"] and pool.used_bytes == 10

    trio.run(main)


def test_a_frame_larger_than_the_pool_is_let_in_alone() -> None:
    """Otherwise it could never be read at all."""

    async def main() -> None:
        pool = MemoryPool(100)
        assert pool.try_reserve(500)
        assert not pool.try_reserve(1)
        pool.release(500)
        assert pool.try_reserve(1)

    trio.run(main)


def test_a_cancelled_wait_lets_the_next_one_in() -> None:
    """A connection that closes while it waits for memory holds nobody up."""

    async def main() -> None:
        pool = MemoryPool(100)
        await pool.reserve(60)
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()

            async def impatient() -> None:
                with scope:
                    await pool.reserve(80)

            nursery.start_soon(impatient)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(pool.reserve, 30)
            await trio.testing.wait_all_tasks_blocked()
            assert pool.used_bytes == 60
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert pool.used_bytes == 90 and not pool.contended

    trio.run(main)
