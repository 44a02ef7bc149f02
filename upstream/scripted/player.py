"""How one turn is played: rebuild its context, ask the script, carry out the steps, remember what was answered."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import TYPE_CHECKING, Any

from upstream.scripted.answers import answer
from upstream.scripted.condense import condensed
from upstream.scripted.script import Decide, Play, ScriptEnded
from upstream.scripted.steps import Binary, Close, Hang, Pause, Reset, Step, Text, Wait
from upstream.scripted.turn import ContextItem, Transport, Turn
from wire.errors import ApiError, from_frame, server_error
from wire.events import COMPLETED, ITEM_DONE, TERMINAL, Event, peek, response_head
from wire.split import Malformed, elements

if TYPE_CHECKING:
    from collections.abc import Callable

    from upstream.scripted.context import Cache, Contexts
    from upstream.scripted.sinks import Sink


class Player:
    """Turns of one upstream, in order of arrival, and what was wrong about them.

    `keep`: the latest turns of which more than that they came is remembered; all of them when it is None. Ids of
    responses hold `name`, which tells upstreams of one address apart.
    """

    def __init__(
        self,
        decide: Decide,
        contexts: Contexts,
        changed: Callable[[], None],
        *,
        script_warmups: bool,
        keep: int | None = None,
        name: str = "",
    ) -> None:
        self.keep = keep
        self._name = name
        self._received = 0
        self._decide = decide
        self._contexts = contexts
        self._changed = changed
        self._script_warmups = script_warmups
        self.turns: list[Turn] = []
        self.violations: list[str] = []
        self.failures: list[Exception] = []
        """What the script raised; the upstream raises it again when it is closed."""

    def receive(self, transport: Transport, connection: int, raw: bytes, headers: dict[str, str], size: int) -> Turn:
        """A new turn, not read yet. `size` is that of the body on the wire, in bytes."""
        self._received += 1
        turn = Turn(self._received, transport, connection, raw, headers, size)
        self.turns.append(turn)
        if self.keep is not None:
            forget(self.turns, self.keep)
        self._changed()
        return turn

    def violation(self, text: str) -> None:
        """Note something that no correct client does."""
        self.violations.append(text)
        self._changed()

    async def decide(self, turn: Turn, cache: Cache) -> Play:
        """The play for this turn: the script's, or what the rules of the API demand instead."""
        try:
            self._contexts.open(turn, cache)
        except ApiError as error:
            return Play(error=error)
        if turn.members.get("generate") == b"false" and not self._script_warmups:
            return Play(events=answer((), response_id=self._id(turn), request=turn.body))
        try:
            play = self._decide(turn)
            return await play if inspect.isawaitable(play) else play
        except ScriptEnded:
            self.violation(f"turn {turn.number}: the script has no answer left")
        except Exception as error:  # noqa: BLE001 - whatever a test's function raises is reported when the test ends
            self.failures.append(error)
        return Play(error=server_error("The script failed."))

    async def play(self, turn: Turn, play: Play, cache: Cache, sink: Sink) -> None:
        """Carry out the play. What is answered counts as answered before it is written."""
        done: dict[int, bytes] = {}
        try:
            steps = play.steps(turn, self._id(turn))
            for step, said in zip(steps, condensed(steps, turn.members) if turn.resumes else steps, strict=True):
                if isinstance(step, Text):
                    self._note(turn, step.data, cache, done)
                if said is not None:
                    await _carry_out(said, sink)
                if isinstance(step, Close | Reset):
                    break
        except ConnectionError:
            pass  # the other side has gone: what was answered so far stands
        finally:
            if turn.outcome == "running":
                turn.outcome = "broken"
            self._changed()

    def _id(self, turn: Turn) -> str:
        return f"resp_{self._name}{turn.number:06}"

    def _note(self, turn: Turn, data: bytes, cache: Cache, done: dict[int, bytes]) -> None:
        if turn.outcome != "running":
            return
        try:
            event = peek(data)
            head = response_head(event)
        except Malformed:
            return
        turn.response_id = turn.response_id or head.id
        if event.type == ITEM_DONE:
            done[event.output_index if event.output_index is not None else len(done)] = bytes(event.item)
        if event.type in TERMINAL:
            self._ended(turn, data, event, cache, done)
        turn.events_sent += 1
        self._changed()

    def _ended(self, turn: Turn, data: bytes, event: Event, cache: Cache, done: dict[int, bytes]) -> None:
        if event.type == COMPLETED:
            turn.outcome = "completed"
            turn.output = _output(done, bytes(response_head(event).output))
            self._contexts.commit(turn, cache)
            return
        if event.type == "error":
            turn.outcome = "error" if turn.events_sent else "refused"
            turn.error = from_frame(json.loads(data))
        else:
            turn.outcome = "failed" if event.type == "response.failed" else "incomplete"
        self._contexts.evict(turn, cache)


async def _carry_out(step: Step, sink: Sink) -> None:
    match step:
        case Text(data):
            await sink.text(data)
        case Binary(data):
            await sink.binary(data)
        case Wait(gate, reached):
            if reached is not None:
                reached.set()
            await gate.wait()
        case Pause(seconds):
            await asyncio.sleep(seconds)
        case Close(code):
            await sink.close(code)
        case Reset():
            sink.reset()
        case Hang():
            await asyncio.Event().wait()


def _output(done: dict[int, bytes], terminal: bytes) -> list[ContextItem]:
    """The items of the answer: those told one by one, or else those of the terminal event."""
    last = elements(terminal) if terminal.startswith(b"[") else []
    if not done:
        return [ContextItem(raw, output=True) for raw in last]
    return [
        ContextItem(raw, output=True, other=last[index] if index < len(last) and last[index] != raw else b"")
        for index, raw in sorted(done.items())
    ]


def forget(values: list[Any], keep: int) -> None:
    """Forget all but the latest `keep`, once there are twice as many."""
    if len(values) > 2 * keep:
        del values[:-keep]
