from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from telemetry.server_metrics import ServerMetrics
from tests.telemetry.test_server_metrics import samples
from upstream.settling.backlog import Backlog, PartlyWrittenError
from upstream.settling.writer import Writer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence


class _Sink:
    """Remembers what is written; fails as often as it is told to; waits while it is not open."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.failures: list[Exception] = []
        self.open = asyncio.Event()
        self.open.set()
        self.attempted = asyncio.Semaphore(0)

    async def write(self, portion: Sequence[int]) -> None:
        self.attempted.release()
        await self.open.wait()
        if self.failures:
            failure = self.failures.pop()
            if isinstance(failure, PartlyWrittenError):
                self.written += portion[: failure.count]
            raise failure
        self.written += portion


class _Rig:
    def __init__(self, most: int = 100) -> None:
        self.sink, self.metrics = _Sink(), ServerMetrics("1")
        self.backlog: Backlog[int] = Backlog(most=most, most_bytes=10**6)
        self.writer = Writer("ledger", self.sink.write, self.backlog, self.metrics)


@pytest.fixture
async def rig() -> AsyncIterator[_Rig]:
    made = _Rig()
    yield made
    made.sink.open.set()
    await made.writer.close(10)


async def test_what_is_added_is_written_in_order_by_the_time_it_is_closed(rig: _Rig) -> None:
    for number in range(1000):
        rig.writer.add(number, 1)

    assert await rig.writer.close(10) == 0
    assert rig.sink.written == list(range(1000))


async def test_adding_never_waits_for_the_sink(rig: _Rig) -> None:
    rig.sink.open.clear()
    rig.writer.add(1, 1)
    await asyncio.sleep(0)
    rig.writer.add(2, 1)

    assert len(rig.writer) == 2
    assert rig.sink.written == []


async def test_a_sink_that_fails_for_a_while_is_tried_again_logged_and_counted(rig: _Rig) -> None:
    rig.sink.failures = [OSError(28, "a secret"), PartlyWrittenError(1), OSError(28, "a secret")]
    with capture_logs() as logs:
        for number in range(3):
            rig.writer.add(number, 1)
        assert await rig.writer.close(10) == 0

    assert rig.sink.written == [0, 1, 2]
    assert samples(rig.metrics, "settling_failures_total")["ledger",] == 3
    assert [line["event"] for line in logs] == ["settling_failed"] * 3
    assert "secret" not in str(logs)


async def test_turns_wait_while_there_is_no_place_and_go_on_when_there_is_one() -> None:
    rig = _Rig(most=2)
    rig.sink.open.clear()
    await rig.writer.reserve()
    await rig.writer.reserve()
    third = asyncio.ensure_future(rig.writer.reserve())
    rig.writer.add(1, 1, reserved=True)
    await asyncio.sleep(0.01)

    assert not third.done()
    rig.sink.open.set()
    await asyncio.wait_for(third, 10)
    rig.writer.add(2, 1, reserved=True)
    rig.writer.add(3, 1, reserved=True)
    assert await rig.writer.close(10) == 0
    assert rig.sink.written == [1, 2, 3]


async def test_room_is_waited_for_while_the_sink_is_slow_but_not_while_it_is_in_trouble() -> None:
    rig = _Rig(most=1)
    rig.sink.open.clear()
    rig.writer.add(1, 1, optional=True)
    waiting = asyncio.ensure_future(rig.writer.room())
    await asyncio.sleep(0.01)
    assert not waiting.done()

    rig.sink.failures = [OSError()] * 1000
    rig.sink.open.set()
    await asyncio.wait_for(waiting, 10)
    assert rig.writer.add(2, 1, optional=True) == [1]
    assert samples(rig.metrics, "settling_given_up_total")["ledger",] == 1
    rig.sink.failures = []
    assert await rig.writer.close(10) == 0


async def test_what_cannot_be_written_before_the_end_is_told_with_its_count() -> None:
    rig = _Rig()
    rig.sink.failures = [OSError()] * 1000
    for number in range(5):
        rig.writer.add(number, 1)
    with capture_logs() as logs:
        assert await rig.writer.close(0.05) == 5

    assert {k: v for k, v in logs[-1].items() if k in {"sink", "count"}} == {"sink": "ledger", "count": 5}
    assert samples(rig.metrics, "settling_given_up_total")["ledger",] == 5


async def test_a_pause_ends_when_the_server_closes() -> None:
    rig = _Rig()
    rig.sink.failures = [OSError()] * 6  # the next pause would be several seconds
    rig.writer.add(1, 1)
    async with asyncio.timeout(10):
        for _ in range(3):
            await rig.sink.attempted.acquire()

    assert await rig.writer.close(10) == 0
    assert rig.sink.written == [1]
