from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import TYPE_CHECKING, Any, Literal

import pytest
from structlog.testing import capture_logs

from tests.upstream.helpers import SEALER, check_events, members
from upstream.admit import Admission
from upstream.engine import Accepted, Delta, End, Part, Prompt, Start, Stop
from upstream.run import Run
from upstream.store import Store
from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


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
    return Run(turn, engine=engine, admission=admission, now=lambda: 9), admission


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
    run, _ = _run(engine)
    turn = dataclasses.replace(run.turn, prompt=None, warm=run.turn.prompt)
    warm = Run(turn, engine=engine, admission=run._admission, now=lambda: 9)

    assert [event["type"] for event in await _events(warm)][-1] == "response.completed"
    assert engine.warmed == [run.turn.prompt]
    assert warm.kept is not None
