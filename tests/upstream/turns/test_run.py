from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
from typing import TYPE_CHECKING, Any, Literal

import pytest
from structlog.testing import capture_logs

from telemetry.server_metrics import ServerMetrics
from tests.upstream.helpers import SEALER, check_events, members, server_of
from upstream.engine import Accepted, Delta, End, Part, Prompt, Start, Stop, Usage
from upstream.kept.store import Store
from upstream.settling.books import Books
from upstream.turns.admit import Admission
from upstream.turns.run import Run
from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from upstream.settling.outcome import Outcome


class _Played:
    """An engine that plays parts, and raises what stands among them."""

    takes: Literal["items"] = "items"

    def __init__(self, *parts: Part | Exception) -> None:
        self.parts = parts
        self.closed = False
        self.warmed: list[Prompt] = []

    async def warm(self, prompt: Prompt) -> None:
        self.warmed.append(prompt)
        for part in self.parts:
            if isinstance(part, Exception):
                raise part

    def accepts(self, model: str) -> bool:
        return bool(model)

    async def close(self) -> None:
        self.closed = True

    async def generate(self, prompt: Prompt) -> AsyncGenerator[Part, None]:  # noqa: ARG002
        try:
            for part in self.parts:
                await asyncio.sleep(0)
                if isinstance(part, Exception):
                    raise part
                yield part
        finally:
            self.closed = True


def _run(engine: _Played, **request: Any) -> tuple[Run, Admission]:
    admission = Admission(engine=engine, sealer=SEALER, store=Store(1_000_000), now=lambda: 7)
    turn = admission.admit(members(model="m", input="hi", **request), b"me")
    return Run(turn, server_of(engine, admission), "http", 0.0), admission


async def _events(run: Run) -> list[dict[str, Any]]:
    events = [json.loads(event.data) async for event in run.events()]
    check_events(events)
    return events


_GOOD = (Start("message"), Delta("yes"), End(), Stop())


async def test_an_answer_ends_completed_and_is_kept() -> None:
    run, admission = _run(_Played(*_GOOD))
    events = await _events(run)

    assert events[-1]["type"] == "response.completed"
    assert run.kept is not None
    assert run.kept.id == events[-1]["response"]["id"]
    assert admission.store.get(run.kept.id, b"me") is not None


async def test_what_can_be_continued_is_so_before_the_client_hears_of_the_end() -> None:
    run, admission = _run(_Played(*_GOOD))
    async for event in run.events():
        if event.type == "response.completed":
            assert run.kept is not None
            assert len(admission.store) == 1


async def test_what_is_not_to_be_stored_is_not() -> None:
    run, admission = _run(_Played(*_GOOD), store=False)
    await _events(run)

    assert run.kept is not None
    assert len(admission.store) == 0


@pytest.mark.parametrize(
    "parts",
    [
        (RuntimeError("a secret"),),
        (Start("message"), Delta("ye"), ValueError("a secret")),
        (Start("message"), Delta("ye"), End()),
        (Delta("outside of an item"),),
        (),
    ],
)
async def test_an_engine_that_fails_or_ends_early_makes_a_failed_response(parts: tuple[Part | Exception, ...]) -> None:
    run, admission = _run(_Played(*parts))
    with capture_logs() as logs:
        events = await _events(run)

    assert events[-1]["type"] == "response.failed"
    assert run.kept is None
    assert len(admission.store) == 0
    assert "secret" not in json.dumps([events, logs])
    assert [line["event"] for line in logs] == ["engine_failed"]


async def test_leaving_early_closes_the_engine() -> None:
    engine = _Played(*_GOOD)
    run, admission = _run(engine)
    events = run.events()
    async for event in events:
        if event.type == "response.output_text.delta":
            break
    await events.aclose()

    assert engine.closed is True
    assert run.kept is None
    assert len(admission.store) == 0


async def test_nothing_after_the_stop_is_asked_for() -> None:
    run, _ = _run(_Played(*_GOOD, RuntimeError("never reached")))

    assert (await _events(run))[-1]["type"] == "response.completed"


_BUSY = ApiError(429, "a secret", type="rate_limit_error", headers={"retry-after": "3"})


async def test_what_the_engine_refuses_before_it_takes_the_turn_is_an_error_without_any_event() -> None:
    run, admission = _run(_Played(_BUSY))
    with pytest.raises(ApiError) as refused:
        await _events(run)

    assert refused.value is _BUSY
    assert (run.kept, len(admission.store)) == (None, 0)


@pytest.mark.parametrize(
    ("error", "code"), [(_BUSY, "rate_limit_exceeded"), (ApiError(503, "a secret"), "server_error")]
)
async def test_an_error_of_the_engine_after_that_is_a_failed_response_with_its_code(error: ApiError, code: str) -> None:
    run, _ = _run(_Played(Accepted(), error))
    events = await _events(run)

    assert [event["type"] for event in events] == ["response.created", "response.in_progress", "response.failed"]
    assert events[-1]["response"]["error"]["code"] == code
    assert "secret" not in json.dumps(events)


@pytest.mark.parametrize("parts", [(), (RuntimeError("a secret"),)])
async def test_a_warm_up_reaches_the_engine_and_is_whole_whatever_becomes_of_it(parts: tuple[Exception, ...]) -> None:
    engine = _Played(*parts)
    run, admission = _run(engine)
    turn = dataclasses.replace(run.turn, prompt=None, warm=run.turn.prompt)
    warm = Run(turn, server_of(engine, admission), "http", 0.0)

    assert [event["type"] for event in await _events(warm)][-1] == "response.completed"
    assert engine.warmed == [run.turn.prompt]
    assert warm.kept is not None


class _Books(Books):
    """Remembers what it is told; has room when it is given some."""

    def __init__(self) -> None:
        super().__init__(ServerMetrics(), lambda _: None)
        self.outcomes: list[Outcome] = []
        self.failures: list[str] = []
        self.places = asyncio.Semaphore(1)

    async def room(self) -> None:
        await self.places.acquire()

    def engine_failed(self, kind: str) -> None:
        self.failures.append(kind)

    def ended(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


def _booked(*parts: Part | Exception, transport: str = "http") -> tuple[Run, _Books]:
    run, admission = _run(_Played(*parts))
    books, clock = _Books(), itertools.count(10)
    shared = server_of(_Played(*parts), admission)
    server = shared._replace(books=books, clock=lambda: float(next(clock)))
    return Run(run.turn, server, transport, 4.0), books


async def test_the_books_are_told_before_the_client_hears_of_the_end() -> None:
    run, books = _booked(*_GOOD)
    async for event in run.events():
        assert len(books.outcomes) == (event.type == "response.completed")

    (outcome,) = books.outcomes
    assert (outcome.status, outcome.transport, outcome.owner) == ("completed", "http", b"me")
    assert outcome.response_id == run.turn.answer.id
    assert outcome.usage == run.turn.answer.usage
    assert outcome.usage.output_tokens == 1
    assert (outcome.start_s, outcome.first_token_s, outcome.seconds) == (6.0, 7.0, 8.0)


async def test_tokens_that_the_engine_told_are_those_of_the_books() -> None:
    told = Usage(100, 50, 7, 3)
    run, books = _booked(Start("message"), Delta("yes"), End(), Stop(usage=told))
    await _events(run)

    assert books.outcomes[0].usage == told


@pytest.mark.parametrize(
    ("parts", "status", "failure"),
    [
        ((Start("message"), Delta("ye"), End(), Stop("max_output_tokens")), "incomplete", None),
        ((Start("message"), RuntimeError("x")), "failed", "crashed"),
        ((Start("message"), Delta("ye"), End()), "failed", "ended_early"),
        ((Delta("outside of an item"),), "failed", "out_of_order"),
        ((Accepted(), _BUSY), "failed", "rate_limited"),
        ((Accepted(), ApiError(503, "x")), "failed", "error"),
    ],
)
async def test_however_a_turn_ends_the_books_are_told_once(
    parts: tuple[Part | Exception, ...], status: str, failure: str | None
) -> None:
    run, books = _booked(*parts)
    await _events(run)

    assert [outcome.status for outcome in books.outcomes] == [status]
    assert books.failures == ([failure] if failure else [])


async def test_a_turn_that_the_engine_refused_used_no_tokens() -> None:
    run, books = _booked(_BUSY)
    with pytest.raises(ApiError):
        await _events(run)

    (outcome,) = books.outcomes
    assert (outcome.status, outcome.usage, books.failures) == ("refused", Usage(0), ["refused"])


@pytest.mark.parametrize(("transport", "status"), [("websocket", "abandoned"), ("background", "cancelled")])
async def test_a_turn_that_was_left_is_told_with_what_was_written(transport: str, status: str) -> None:
    run, books = _booked(*_GOOD, transport=transport)
    events = run.events()
    async for event in events:
        if event.type == "response.output_text.delta":
            break
    await events.aclose()

    (outcome,) = books.outcomes
    assert (outcome.status, outcome.usage.output_tokens) == (status, 1)


async def test_the_engine_is_not_asked_before_there_is_room_in_the_books() -> None:
    run, books = _booked(*_GOOD)
    await books.places.acquire()
    waiting = asyncio.ensure_future(_events(run))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    assert run.turn.answer.items == []

    books.places.release()
    assert (await asyncio.wait_for(waiting, 10))[-1]["type"] == "response.completed"


async def test_of_a_turn_that_never_began_nothing_is_told() -> None:
    run, books = _booked(*_GOOD)
    await books.places.acquire()
    waiting = asyncio.ensure_future(_events(run))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})

    assert books.outcomes == []
