import asyncio
import json
from typing import Any

import pytest

from upstream.scripted.answers import answer, message, reasoning
from upstream.scripted.faults import (
    Big,
    CloseAfter,
    EmptyOutput,
    ErrorAfter,
    ErrorFirst,
    Failed,
    Fault,
    Hold,
    Incomplete,
    Resealed,
    Silence,
    Spaced,
    Stray,
    Style,
)
from upstream.scripted.steps import Binary, Close, Hang, Reset, Step, Text, Wait
from wire.errors import ApiError, connection_limit, from_frame, previous_not_found

EVENTS = [
    json.dumps(event).encode()
    for event in answer([reasoning("e1"), message("hello")], response_id="resp_1", request={})
]


def _steps() -> list[Step]:
    return [Text(event) for event in EVENTS]


def _last(fault: Fault) -> dict[str, Any]:
    step = fault.apply(_steps())[-1]
    assert isinstance(step, Text)
    event: dict[str, Any] = json.loads(step.data)
    return event


def test_an_error_instead_of_the_answer_is_the_only_frame() -> None:
    steps = ErrorFirst(previous_not_found("resp_0")).apply(_steps())
    assert steps == [Text(previous_not_found("resp_0").ws_frame())]


def test_the_connection_limit_can_be_followed_by_the_close() -> None:
    assert ErrorFirst(connection_limit(60), close=1000).apply(_steps())[1:] == [Close(1000)]


@pytest.mark.parametrize("style", ["nested", "no_status", "flat", "untyped"])
def test_every_style_of_an_error_is_still_read_as_that_error(style: Style) -> None:
    error = ApiError(429, "Slow down.", type="rate_limit_error", code="slow_down", headers={"retry-after": "7"})
    (step,) = ErrorFirst(error, style=style).apply(_steps())
    assert isinstance(step, Text)
    frame = json.loads(step.data)
    read = from_frame(frame)
    assert (read.status, read.code, read.message) == (429, "slow_down", "Slow down.")
    assert ("status" in frame) == (style == "nested")
    assert ("error" in frame) == (style != "flat")
    assert ("type" in frame) == (style != "untyped")


def test_an_error_within_the_answer_replaces_its_rest() -> None:
    steps = ErrorAfter(ApiError(503, "Busy."), after=2).apply(_steps())
    assert steps[:2] == _steps()[:2]
    assert len(steps) == 3


@pytest.mark.parametrize(("code", "end"), [(None, Reset()), (1000, Close(1000)), (1011, Close(1011))])
def test_a_connection_ends_before_within_or_after_the_answer(code: int | None, end: Step) -> None:
    assert CloseAfter(0, code).apply(_steps()) == [end]
    assert CloseAfter(3, code).apply(_steps()) == [*_steps()[:3], end]
    assert CloseAfter(None, code).apply(_steps()) == [*_steps(), end]


def test_silence_keeps_the_connection() -> None:
    assert Silence().apply(_steps()) == [Hang()]
    assert Silence(after=2).apply(_steps()) == [*_steps()[:2], Hang()]


def test_a_pause_stands_between_two_events() -> None:
    gate, reached = asyncio.Event(), asyncio.Event()
    steps = Hold(gate, after=1, reached=reached).apply(_steps())
    assert steps == [_steps()[0], Wait(gate, reached), *_steps()[1:]]


def test_faults_add_up_and_count_events_only() -> None:
    gate = asyncio.Event()
    steps = CloseAfter(1).apply(Hold(gate, after=0).apply(_steps()))
    assert steps == [Wait(gate), _steps()[0], Reset()]


def test_the_terminal_event_can_have_no_output() -> None:
    assert _last(EmptyOutput())["response"]["output"] == []
    assert EmptyOutput().apply(_steps())[:-1] == _steps()[:-1]


def test_reasoning_can_be_sealed_anew_at_the_end() -> None:
    output = _last(Resealed())["response"]["output"]
    assert [item.get("encrypted_content") for item in output] == ["e1-again", None]


def test_an_answer_can_end_incomplete_or_failed() -> None:
    incomplete, failed = _last(Incomplete()), _last(Failed(code="rate_limit_exceeded"))
    assert incomplete["type"] == "response.incomplete"
    assert incomplete["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert failed["type"] == "response.failed"
    assert (failed["response"]["status"], failed["response"]["error"]["code"]) == ("failed", "rate_limit_exceeded")


def test_stray_frames_stand_anywhere_as_text_or_binary() -> None:
    assert Stray(after=1).apply(_steps())[1] == Text(b"{not json")
    assert Stray(b"\x00", after=0, binary=True).apply(_steps())[0] == Binary(b"\x00")
    assert Stray(b"{}").apply(_steps())[-1] == Text(b"{}")


def test_spaced_events_mean_the_same() -> None:
    for before, after in zip(_steps(), Spaced().apply(_steps()), strict=True):
        assert isinstance(before, Text)
        assert isinstance(after, Text)
        assert b"\n" in after.data
        assert json.loads(before.data) == json.loads(after.data)


def test_a_big_answer_is_as_big_as_asked() -> None:
    assert len(_last(Big(5000))["response"]["padding"]) == 5000


@pytest.mark.parametrize("fault", [EmptyOutput(), Resealed(), Incomplete(), Failed(), Big(10)])
def test_an_answer_without_an_end_has_none_to_change(fault: Fault) -> None:
    cut = [*_steps()[:3], *Stray(b"[]", binary=True).apply([]), *Stray().apply([]), Close(1011)]
    assert fault.apply(cut) == cut
