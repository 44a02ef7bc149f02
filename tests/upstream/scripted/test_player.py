from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest

from tests.support.responses import create, user
from upstream.scripted.answers import message, reasoning
from upstream.scripted.context import Cache, Contexts
from upstream.scripted.faults import (
    CloseAfter,
    EmptyOutput,
    ErrorAfter,
    ErrorFirst,
    Failed,
    Incomplete,
    Resealed,
    Stray,
)
from upstream.scripted.player import Player
from upstream.scripted.script import Play
from upstream.scripted.turn import Turn
from wire.errors import ApiError

BUSY = ApiError(503, "Busy.")


class Recorder:
    """A sink that remembers; `fails` is raised at the first event."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.frames: list[bytes | str] = []
        self.fails = fails

    async def text(self, data: bytes) -> None:
        if self.fails:
            raise self.fails
        self.frames.append(data)

    async def binary(self, data: bytes) -> None:
        self.frames.append(f"binary {len(data)}")

    async def close(self, code: int) -> None:
        self.frames.append(f"close {code}")

    def reset(self) -> None:
        self.frames.append("reset")


class Stage:
    """A player with one connection's cache."""

    def __init__(self, decide: Callable[[Turn], Play | Awaitable[Play]] = lambda _: Play()) -> None:
        self.cache = Cache()
        self.player = Player(decide, Contexts(), lambda: None, script_warmups=False)

    async def turn(self, play: Play, sink: Recorder | None = None, **members: Any) -> tuple[Turn, Recorder]:
        turn = self.player.receive("ws", 1, orjson.dumps(create([user("a")], **members)), {}, 0)
        decided = await self.player.decide(turn, self.cache)
        recorder = sink or Recorder()
        await self.player.play(turn, decided if decided.error else play, self.cache, recorder)
        return turn, recorder


@pytest.mark.parametrize(
    ("play", "outcome"),
    [
        (Play(items=[message("a")]), "completed"),
        (Play(items=[message("a")], faults=[Incomplete()]), "incomplete"),
        (Play(items=[message("a")], faults=[Failed()]), "failed"),
        (Play(error=BUSY), "refused"),
        (Play(faults=[ErrorFirst(BUSY)]), "refused"),
        (Play(faults=[ErrorAfter(BUSY, 1)]), "error"),
        (Play(faults=[CloseAfter(0, 1011)]), "broken"),
        (Play(faults=[CloseAfter(1)]), "broken"),
    ],
)
async def test_a_turn_says_how_it_ended(play: Play, outcome: str) -> None:
    turn, _ = await Stage().turn(play)
    assert turn.outcome == outcome


async def test_the_end_of_the_connection_is_the_last_step() -> None:
    assert (await Stage().turn(Play(faults=[CloseAfter(0, 1001), Stray()])))[1].frames == ["close 1001"]
    assert (await Stage().turn(Play(faults=[CloseAfter(0)])))[1].frames == ["reset"]


@pytest.mark.parametrize("fault", [Incomplete(), Failed(), ErrorAfter(BUSY, 1), CloseAfter(1)])
async def test_only_a_completed_response_can_be_continued(fault: Any) -> None:
    stage = Stage()
    first, _ = await stage.turn(Play(items=[message("a")], faults=[fault]), store=False)
    second, _ = await stage.turn(Play(), store=False, previous_response_id=first.response_id)
    assert second.error is not None
    assert second.error.code == "previous_response_not_found"


async def test_a_refused_continuation_evicts_its_parent() -> None:
    stage = Stage()
    first, _ = await stage.turn(Play(), store=False)
    chain: dict[str, Any] = {"store": False, "previous_response_id": first.response_id}
    outcomes = [(await stage.turn(play, **chain))[0].outcome for play in (Play(error=BUSY), Play())]
    assert outcomes == ["refused", "refused"]


async def test_an_answer_counts_before_it_is_written() -> None:
    stage = Stage()
    turn, _ = await stage.turn(Play(items=[message("a")]), Recorder(ConnectionResetError()))
    assert (turn.outcome, turn.events_sent) == ("broken", 1)


@pytest.mark.parametrize("fault", [EmptyOutput(), Resealed()])
async def test_the_output_is_what_was_told_item_by_item(fault: Any) -> None:
    turn, _ = await Stage().turn(Play(items=[reasoning("e1"), message("a")], faults=[fault]))
    assert [item.value["type"] for item in turn.output] == ["reasoning", "message"]
    assert turn.output[0].value["encrypted_content"] == "e1"
    assert (b"e1-again" in turn.output[0].other) == isinstance(fault, Resealed)
    assert turn.output[1].other == b""


async def test_an_answer_without_item_events_has_the_output_of_its_end() -> None:
    end = {"type": "response.completed", "response": {"id": "resp_x", "output": [message("a")]}}
    turn, _ = await Stage().turn(Play(events=[end]))
    assert (turn.response_id, len(turn.output)) == ("resp_x", 1)


async def test_stray_frames_change_nothing_of_what_was_answered() -> None:
    strays = [Stray(after=1), Stray(b'{"type":"response.failed","response":{}}'), Stray(b"x", after=2, binary=True)]
    turn, recorder = await Stage().turn(Play(items=[message("a")], faults=strays))
    assert turn.outcome == "completed"
    assert "binary 1" in recorder.frames
