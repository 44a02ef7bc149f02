import asyncio

import pytest

from telemetry.lag import watch


class Loop:
    """A clock that only sleeping moves, each time by the asked interval plus the next planned delay."""

    def __init__(self, *delays: float) -> None:
        self.now = 100.0
        self.delays = list(delays)
        self.asked: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        if not self.delays:
            raise asyncio.CancelledError
        self.asked.append(seconds)
        self.now += seconds + self.delays.pop(0)


async def test_each_wake_up_reports_by_how_much_it_was_late() -> None:
    loop, reported = Loop(0.0, 0.25, 1.5), list[float]()
    with pytest.raises(asyncio.CancelledError):
        await watch(reported.append, 0.5, clock=loop.clock, sleep=loop.sleep)
    assert reported == [0.0, 0.25, 1.5]
    assert loop.asked == [0.5, 0.5, 0.5]


async def test_a_timer_that_fires_a_little_early_is_no_negative_lag() -> None:
    loop, reported = Loop(-0.01), list[float]()
    with pytest.raises(asyncio.CancelledError):
        await watch(reported.append, 0.5, clock=loop.clock, sleep=loop.sleep)
    assert reported == [0.0]


async def test_on_the_real_loop_it_reports_and_stops_when_cancelled() -> None:
    first = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch(lambda _lag: first.set(), 0.0))
        await first.wait()
        task.cancel()
    assert task.cancelled()
