"""One recording, sent line by line: the order of things, and what each answer says."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp

from bench.conversation import Conversation
from bench.differences import Difference, frame_differences, http_differences
from bench.oracle import Oracle, Verdict
from bench.recorded import Pending, Recorded
from bench.report import Report, TurnReport
from bench.trace import HttpRequest, HttpResponse, Trace, WsAnswer, WsClose, WsMessage, WsUpgrade, event_bytes
from bench.wire_client import Answer, exchange
from upstream.scripted import ScriptedUpstream, Turn, compare
from wire.events import COMPLETED, ITEM_DONE

if TYPE_CHECKING:
    from collections.abc import Sequence

ANSWER_LIMIT = 60.0
"""Seconds after which an answer counts as lost. The upstream answers at once, so only a fault takes so long."""
_BUSY = "head_busy"


@dataclass(slots=True)
class _Running:
    pending: Pending
    task: asyncio.Task[Answer | None]
    verdict: Verdict
    beside_others: bool


@dataclass(slots=True)
class Run:
    """The state of one replay: what is on its way, and what was found so far."""

    trace: Trace
    up: ScriptedUpstream
    recorded: Recorded
    origin: str
    report: Report
    oracle: Oracle = field(default_factory=Oracle)
    running: dict[int, _Running] = field(default_factory=dict)
    saying: dict[int, Pending] = field(default_factory=dict)
    conversations: dict[int, Conversation] = field(default_factory=dict)
    claimed: set[int] = field(default_factory=set)
    skipped: dict[str, int] = field(default_factory=dict)
    moved: int = 0

    async def run(self) -> None:
        """Everything in the order of the recording."""
        async with asyncio.TaskGroup() as group:
            for line in self.trace.lines:
                match line:
                    case HttpRequest() if line.n in self.trace.responses:
                        self._send(line, group)
                    case HttpResponse():
                        await self._finish(line)
                    case HttpRequest():
                        self.report.notes.append(f"request {line.n} has no recorded answer")
                    case WsUpgrade():
                        await self._upgrade(line)
                    case _:
                        await self._converse(line)
        await self._close()

    async def _converse(self, line: WsMessage | WsAnswer | WsClose) -> None:
        if line.connection not in self.conversations:
            return  # its handshake was refused, which is a difference already
        match line:
            case WsMessage():
                await self._say(line)
            case WsAnswer():
                await self._hear(line)
            case WsClose():
                await self.conversations.pop(line.connection).close()

    async def _close(self) -> None:
        for conversation in self.conversations.values():
            await conversation.close()
        for answer, count in self.skipped.items():
            self.report.notes.append(f"{count} handshakes answered {answer} in the recording are not replayed")
        if self.moved:
            self.report.notes.append(f"{self.moved} requests outside the base path reached the upstream below it")
        compressed = [request for request in self.trace.requests.values() if request.wire != request.body]
        if compressed:
            size = sum(len(request.body) for request in compressed)
            self.report.notes.append(f"{len(compressed)} bodies came compressed; without that they are {size} bytes")
        self.report.context_errors += self.up.violations

    def _send(self, request: HttpRequest, group: asyncio.TaskGroup) -> None:
        pending = Pending(request.n, request.body, self.trace.responses[request.n], request)
        self.recorded.sent(pending)
        verdict = self.oracle.asked(request.n, request.body) if request.is_turn else Verdict(None)
        task = group.create_task(_answer(self.origin, request))
        self.running[request.n] = _Running(pending, task, verdict, bool(self.running))

    async def _finish(self, recorded: HttpResponse) -> None:
        running = self.running.pop(recorded.n)
        running.pending.gate.set()
        answer = await running.task
        self.recorded.answered(recorded.n)
        if answer is None:
            self.report.differences.append(Difference(recorded.n, "answer", "never came"))
        else:
            self.report.differences += http_differences(recorded, answer)
        request = self.trace.requests[recorded.n]
        if request.is_turn:
            self._learn(recorded)
            self._turn_report(running, request, answer)
        else:
            self._call_report(running.pending, request)

    def _call_report(self, pending: Pending, request: HttpRequest) -> None:
        if [call.body for call in pending.calls] != [request.wire]:
            self.report.context_errors.append(f"request {request.n}: did not reach the upstream once, as it was")
        self.moved += sum(call.path != request.path for call in pending.calls)

    def _learn(self, recorded: HttpResponse) -> None:
        output = _completed_output(recorded)
        if output is None:
            self.oracle.failed(recorded.n)
        else:
            self.oracle.completed(recorded.n, output)

    def _turn_report(self, running: _Running, request: HttpRequest, answer: Answer | None) -> None:
        turns = self._claim(running.pending)
        headers = answer.headers if answer is not None else {}
        turn = TurnReport(
            n=request.n,
            transport=headers.get("x-deltawire-transport", ""),
            reason=headers.get("x-deltawire-reason", ""),
            possible_after=running.verdict.parent,
            why_not=running.verdict.why_not,
            client_bytes=len(request.wire),
            upstream_bytes=sum(turn.size for turn in turns),
        )
        self.report.turns.append(turn)
        if turn.missed:
            busy = running.beside_others and turn.reason == _BUSY
            self.report.missed[turn.n] = "another turn ran on its head" if busy else ""
        self.report.context_errors += _context_errors(request, turn.transport, turns)

    def _claim(self, pending: Pending) -> list[Turn]:
        """Turns of the upstream that belong to this request; one refused by the API's rules belongs to who is here."""
        mine = {turn.number for turn in pending.turns}
        turns = [
            turn
            for turn in self.up.turns
            if turn.number not in self.claimed and (turn.number in mine or turn.outcome == "refused")
        ]
        self.claimed |= {turn.number for turn in turns}
        return turns

    async def _upgrade(self, upgrade: WsUpgrade) -> None:
        if upgrade.answer != "accept":
            self.skipped[upgrade.answer] = self.skipped.get(upgrade.answer, 0) + 1
            return
        try:
            self.conversations[upgrade.connection] = await Conversation.open(self.origin, upgrade)
        except aiohttp.WSServerHandshakeError as error:
            self.report.differences.append(Difference(0, "handshake", f"accept became {error.status}"))

    async def _say(self, message: WsMessage) -> None:
        if message.n not in self.trace.answers:
            self.report.notes.append(f"message {message.n} has no recorded answer")
            return
        pending = Pending(message.n, message.body, self.trace.answers[message.n])
        self.recorded.sent(pending)
        self.saying[message.n] = pending
        await self.conversations[message.connection].send(message.body)

    async def _hear(self, recorded: WsAnswer) -> None:
        pending = self.saying.pop(recorded.n)
        pending.gate.set()
        try:
            async with asyncio.timeout(ANSWER_LIMIT):
                frames = await self.conversations[recorded.connection].answer()
        except TimeoutError:
            frames = []
        self.recorded.answered(recorded.n)
        self.report.messages += 1
        turns = self._claim(pending)
        expected = [event_bytes(event) for event in recorded.events]
        if turns and turns[-1].error is not None and recorded.events[0]["type"] == "error":
            expected = [turns[-1].error.ws_frame()]  # the same refusal in this upstream's words
        self.report.differences += frame_differences(recorded.n, expected, frames)
        seen = [turn for turn in turns if turn.number in {mine.number for mine in pending.turns}]
        self.report.context_errors += [str(m) for turn in seen for m in compare(turn, pending.body, recorded.n)]


async def _answer(origin: str, request: HttpRequest) -> Answer | None:
    try:
        async with asyncio.timeout(ANSWER_LIMIT):
            return await exchange(origin, request.head() + request.wire)
    except (OSError, TimeoutError, ValueError):
        return None


def _completed_output(recorded: HttpResponse) -> list[bytes] | None:
    """Items of a completed answer, as they were told; None for an answer that did not complete."""
    if recorded.response is not None:
        completed = recorded.response.get("status") == "completed"
        return [event_bytes(item) for item in recorded.response["output"]] if completed else None
    events = recorded.events or ()
    if recorded.cut or not events or events[-1]["type"] != COMPLETED:
        return None
    return [event_bytes(event["item"]) for event in events if event["type"] == ITEM_DONE]


def _context_errors(request: HttpRequest, said: str, turns: Sequence[Turn]) -> list[str]:
    where = f"turn {request.n}"
    if not turns:
        return [f"{where}: never reached the upstream"]
    *before, last = turns
    found = [f"{where}: the upstream refused it once ({turn.error})" for turn in before]
    if last.outcome == "refused" and last.error is not None and not last.context:
        return [*found, f"{where}: the upstream refused it ({last.error})"]
    found += [str(mismatch) for mismatch in compare(last, request.body, request.n)]
    was = "http" if last.transport == "http" else "delta" if last.parent else "full"
    if said != was:
        found.append(f"{where}: x-deltawire-transport says {said or 'nothing'}, the upstream saw {was}")
    if last.transport == "http" and last.raw != request.body:
        found.append(f"{where}: the body was written anew")
    if last.transport == "ws":
        found += [f"{where}: {remark}" for remark in last.remarks]
    found += [f"{where}: header {name} reached the upstream" for name in last.headers if name.startswith("x-deltawire")]
    return found
