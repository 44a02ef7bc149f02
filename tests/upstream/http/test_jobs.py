from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.upstream.helpers import SEALER, check_events, members, server_of
from upstream.engine import Delta, End, Part, Prompt, Start, Stop
from upstream.engines.sim import Sim
from upstream.http.jobs import Job, Jobs
from upstream.kept.budget import KEY, PROCESS, Budget, Scope, weight
from upstream.kept.store import Store
from upstream.turns.admit import Admission
from upstream.turns.run import Run
from wire.errors import ApiError, server_error

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_ME = b"me"


class _Engine(Sim):
    """Writes one word, then waits until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.refusal: Exception | None = None
        self.running = 0

    async def generate(self, prompt: Prompt) -> AsyncGenerator[Part, None]:  # noqa: ARG002 - the contract's
        if self.refusal is not None:
            raise self.refusal
        self.running += 1
        try:
            yield Start("message")
            yield Delta("word")
            await self.go.wait()
            yield End()
            yield Stop()
        finally:
            self.running -= 1


class _Rig:
    def __init__(self, memory: dict[str, int] | None = None, **bounds: int) -> None:
        self.engine = _Engine()
        self.budget = Budget({KEY: 1_000_000, PROCESS: 1_000_000} | (memory or {}))
        self.admission = Admission(
            caching="none", engine=self.engine, sealer=SEALER, store=Store(1_000_000, self.budget), now=lambda: 7
        )
        self.logged: list[str] = []
        bounds = {"places": 2, "waiting": 2, "limit": 1_000_000} | bounds
        log = self.logged
        self.jobs = Jobs(**bounds, budget=self.budget, log=lambda run, _: log.append(run.turn.answer.status))

    def start(self, owner: bytes = _ME, **values: Any) -> Job:
        asked = members(**({"model": "m", "input": "hi", "background": True, "stream": True} | values))
        turn = self.admission.admit(asked, owner)
        return self.jobs.start(Run(turn, server_of(self.engine, self.admission), "background", 0.0))

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


@pytest.fixture
def rig() -> _Rig:
    return _Rig()


async def _events(job: Job, after: int = -1) -> list[dict[str, Any]]:
    return [json.loads(event.data) async for event in job.follow(after)]


def _status(job: Job) -> str:
    status: str = json.loads(job.run.turn.answer.snapshot())["status"]
    return status


async def test_a_job_is_queued_then_runs_and_ends_by_itself(rig: _Rig) -> None:
    job = rig.start()
    assert _status(job) == "queued"
    await rig.settle()
    assert _status(job) == "in_progress"
    rig.engine.go.set()
    events = await _events(job)

    check_events(events)
    assert [event["type"] for event in events][:3] == ["response.created", "response.queued", "response.in_progress"]
    assert events[-1]["type"] == "response.completed"
    assert [events[at]["response"]["status"] for at in range(3)] == ["queued", "queued", "in_progress"]
    await rig.settle()
    assert rig.logged == ["completed"]
    assert rig.admission.store.get(job.id, _ME) is not None


async def test_it_can_be_followed_from_anywhere_and_by_several(rig: _Rig) -> None:
    job = rig.start()
    first = asyncio.ensure_future(_events(job))
    await rig.settle()
    second = asyncio.ensure_future(_events(job, 2))
    rig.engine.go.set()
    whole = await first

    assert await second == whole[3:]
    assert await _events(job, whole[-1]["sequence_number"]) == []
    assert await _events(job, 10**6) == []


async def test_only_as_many_run_as_there_are_places(rig: _Rig) -> None:
    jobs = [rig.start() for _ in range(4)]
    await rig.settle()

    assert [_status(job) for job in jobs] == ["in_progress", "in_progress", "queued", "queued"]
    with pytest.raises(ApiError) as caught:
        rig.start()
    assert (caught.value.status, caught.value.code) == (429, "too_many_requests")
    rig.engine.go.set()
    assert [(await _events(job))[-1]["type"] for job in jobs] == ["response.completed"] * 4


@pytest.mark.parametrize("running", [True, False])
async def test_a_cancelled_one_ends_where_it_is(rig: _Rig, running: bool) -> None:  # noqa: FBT001 - a parameter
    jobs = [rig.start() for _ in range(3)]
    if running:
        await rig.settle()
    job = jobs[0 if running else 2]
    await rig.jobs.cancel(job)
    ended = await _events(job)

    assert _status(job) == "cancelled"
    assert ended[-1]["type"] != "response.completed"
    await rig.jobs.cancel(job)
    assert rig.logged == ["cancelled"]
    await rig.jobs.close(0)
    assert rig.engine.running == 0


async def test_cancelling_what_has_ended_changes_nothing(rig: _Rig) -> None:
    rig.engine.go.set()
    job = rig.start()
    await _events(job)
    await rig.jobs.cancel(job)

    assert _status(job) == "completed"


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (ApiError(429, "later"), "rate_limit_exceeded"),
        (server_error("down", status=503), "server_error"),
        (ValueError("x"), "server_error"),
    ],
)
async def test_what_the_engine_refuses_ends_as_failed(rig: _Rig, refusal: Exception, code: str) -> None:
    rig.engine.refusal = refusal
    job = rig.start()
    last = (await _events(job))[-1]

    assert (last["type"], last["response"]["error"]["code"]) == ("response.failed", code)
    assert _status(job) == "failed"


async def test_nobody_else_finds_it_and_a_forgotten_one_is_gone(rig: _Rig) -> None:
    job = rig.start()
    assert rig.jobs.get(job.id, _ME) is job
    assert rig.jobs.get(job.id, b"you") is None
    await rig.jobs.forget(job)
    assert rig.jobs.get(job.id, _ME) is None


async def test_one_that_was_not_to_be_streamed_keeps_no_events(rig: _Rig) -> None:
    rig.engine.go.set()
    job = rig.start(stream=False)
    await rig.jobs.close(1)

    assert job.bytes == 0
    assert _status(job) == "completed"


async def test_of_those_that_ended_the_oldest_leave_when_events_are_too_many() -> None:
    rig = _Rig(limit=12_000)
    rig.engine.go.set()
    jobs = [rig.start() for _ in range(2)]
    for job in jobs:
        await _events(job)
    await rig.settle()
    later = rig.start()
    await _events(later)
    await rig.settle()

    assert rig.jobs.get(jobs[0].id, _ME) is None
    assert rig.jobs.get(later.id, _ME) is later


async def test_a_running_one_that_is_too_large_lets_its_followers_go() -> None:
    rig = _Rig(limit=10)
    job = rig.start()
    following = asyncio.ensure_future(_events(job))
    await rig.settle()

    assert "response.completed" not in [event["type"] for event in await following]
    assert not job.streamed
    rig.engine.go.set()
    await rig.jobs.close(1)
    assert _status(job) == "completed"


async def test_its_conversation_is_charged_from_its_start_until_it_is_forgotten(rig: _Rig) -> None:
    job = rig.start(input="x" * 5000)
    size = weight(job.run.turn.context)
    assert rig.budget.used() == rig.budget.used(Scope(KEY, _ME)) == rig.budget.held(job) == size
    await rig.settle()
    assert rig.budget.held(job) == size
    rig.engine.go.set()
    await _events(job)
    await rig.settle()
    assert rig.budget.held(job) == size
    await rig.jobs.forget(job)
    rig.admission.store.delete(job.id, _ME)

    assert rig.budget.used() == 0


@pytest.mark.parametrize(("level", "other"), [(KEY, _ME), (PROCESS, b"you")])
async def test_one_that_finds_no_room_beside_those_that_run_is_refused(level: str, other: bytes) -> None:
    rig = _Rig({level: 40_000})
    running = [rig.start(input="x" * 8000) for _ in range(2)]
    with pytest.raises(ApiError) as caught:
        rig.start(other, input="x" * 8000)
    await rig.settle()

    assert (caught.value.status, caught.value.code) == (429, "too_many_requests")
    assert [_status(job) for job in running] == ["in_progress"] * 2
    rig.engine.go.set()
    for job in running:
        await _events(job)
    await rig.settle()
    assert _status(rig.start(other, input="x" * 8000)) == "queued"


async def test_those_that_ended_are_forgotten_as_any_other_state() -> None:
    rig = _Rig({PROCESS: 60_000})
    rig.engine.go.set()
    jobs = []
    for _ in range(8):
        jobs.append(rig.start(input="x" * 8000))
        await _events(jobs[-1])
        await rig.settle()

    known = [job for job in jobs if rig.jobs.get(job.id, _ME) is job]
    assert 0 < len(known) < 5
    assert rig.budget.used() <= 60_000
    assert known[-1] is jobs[-1]


async def test_closing_waits_and_then_ends_what_still_runs(rig: _Rig) -> None:
    jobs = [rig.start() for _ in range(3)]
    await rig.settle()
    await rig.jobs.close(0.01)

    assert [_status(job) for job in jobs] == ["cancelled"] * 3
