"""Random agents: conversations that branch, fan out, repeat, rewind and leave, over real HTTP."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

import aiohttp

from tests.soak.judge import Body, Judge, Seen
from tests.soak.stage import KEY, MARKER
from tests.support.responses import tool_output, user
from wire.sse import Parser

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.soak.stage import Sidecar

Json = dict[str, Any]

PATIENCE = 60.0
"""Seconds without a byte after which a turn counts as stuck."""
_GLANCE = 0.1
_TOOL = {"type": "function", "name": "run", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
_LOST = "The connection to the upstream was lost"
_TERMINAL = ("response.completed", "response.incomplete", "response.failed")


class Client:
    """Sends turns to one sidecar, and has each try judged."""

    def __init__(self, session: aiohttp.ClientSession, sidecar: Sidecar, judge: Judge, choose: random.Random) -> None:
        self.sidecar = sidecar
        self.judge = judge
        self.choose = choose
        self._session = session

    async def ask(self, body: Body, *, leave: bool = False, slow: bool = False) -> tuple[Seen, list[Json]]:
        """One try of a turn, and the output of its answer."""
        await self.sidecar.there.wait()
        body.tries += 1
        since = monotonic()
        asking = asyncio.ensure_future(self._post(body, slow=slow))
        if leave:
            await asyncio.wait([asking], timeout=self.choose.random() * 0.02)
            asking.cancel()
        seen = Seen("left")
        output: list[Json] = []
        try:
            while not asking.done():
                await asyncio.wait([asking], timeout=_GLANCE)
                if monotonic() - since > PATIENCE:
                    self.judge.blame("stuck", f"body {body.number}, faults {body.faults}")
                    asking.cancel()
                elif not asking.done() and self.judge.hangs(body):
                    asking.cancel()  # no client would wait for ever
            seen, output = asking.result()
        except asyncio.CancelledError:
            if not asking.done():
                asking.cancel()
                raise
        self.judge.seen(body, seen, since, self.sidecar)
        return seen, output

    async def _post(self, body: Body, *, slow: bool) -> tuple[Seen, list[Json]]:
        headers = {"authorization": f"Bearer {KEY}{body.tenant}", "content-type": "application/json"}
        if body.tries > 1:
            headers["x-stainless-retry-count"] = str(body.tries - 1)
        try:
            async with self._session.post(self.sidecar.url, data=body.raw, headers=headers) as answer:
                raw = await _slowly(answer.content) if slow else await answer.read()
        except (aiohttp.ClientError, OSError):
            return Seen("broken"), []
        way = answer.headers.get("x-deltawire-transport", "")
        own = answer.headers.get("x-deltawire-error", "")
        if answer.status != 200:
            return Seen("error", answer.status, json.loads(raw)["error"]["code"] or "", own, way=way), []
        if answer.content_type == "application/json":
            return _of_response(json.loads(raw), way)
        return _of_stream(raw, way)


async def _slowly(content: aiohttp.StreamReader) -> bytes:
    parts = []
    while part := await content.read(4096):
        parts.append(part)
        await asyncio.sleep(0.001)
    return b"".join(parts)


def _of_stream(raw: bytes, way: str) -> tuple[Seen, list[Json]]:
    events = [json.loads(event.data) if event.data.startswith(b"{") else {} for event in Parser().feed(raw)]
    last = events[-1] if events else {}
    if last.get("type") in _TERMINAL:
        return _of_response(
            last["response"], way, [one["item"] for one in events if one.get("item") and "done" in one["type"]]
        )
    if last.get("type") == "error":
        code = last["code"] or ""
        own = code if code in {"link_lost", "upstream_late", "upstream_refused"} else ""
        return Seen("error", 200, code, own, way=way), []
    return Seen("broken", 200, way=way), []


def _of_response(response: Json, way: str, told: list[Json] | None = None) -> tuple[Seen, list[Json]]:
    output = response["output"] or told or []
    texts = [item["content"][0]["text"] for item in output if item["type"] == "message"]
    error = response["error"] or {}
    own = "link_lost" if str(error.get("message", "")).startswith(_LOST) else ""
    seen = Seen(response["status"], 200, error.get("code", ""), own, response["id"], texts[0] if texts else "", way)
    return seen, output if response["status"] == "completed" else []


class Agent:
    """Conversations of one tenant, one after the other, until `enough()`."""

    def __init__(self, client: Client, tenant: str, enough: Callable[[], bool]) -> None:
        self._client = client
        self._tenant = tenant
        self._enough = enough
        self._choose = client.choose

    async def live(self) -> None:
        """Talk."""
        while not self._enough():
            await self._converse()

    async def _converse(self) -> None:
        choose = self._choose
        envelope = {
            "model": "m",
            "stream": choose.random() < 0.6,
            "store": choose.random() < 0.5,
            "instructions": f"{MARKER} {self._tenant} " + "x" * choose.choice([0, 400]),
            "prompt_cache_key": "all",
            **({"tools": [_TOOL]} if choose.random() < 0.6 else {}),
            **({"include": ["reasoning.encrypted_content"]} if choose.random() < 0.3 else {}),
        }
        history: list[Json] = []
        past: list[list[Json]] = []
        for step in range(choose.randrange(2, 9)):
            if self._enough():
                return
            move = choose.random()
            if move < 0.08 and past:
                history = list(choose.choice(past))
            elif move < 0.12:
                history = [{"type": "compaction", "encrypted_content": f"{MARKER} {self._tenant}"}]
            elif move < 0.16:
                envelope["instructions"] = f"{MARKER} {self._tenant} {step}"
            if move > 0.94 and history:
                branches = [list(history) for _ in range(3)]
                await asyncio.gather(*(self._turn(envelope, branch, f"sub {at}") for at, branch in enumerate(branches)))
                history = branches[0]
            else:
                await self._turn(envelope, history, choose.choice("ab"))
            past.append(list(history))

    async def _turn(self, envelope: Json, history: list[Json], text: str) -> None:
        """Say something, after the results of tools that were called; a failure is tried again as SDKs do."""
        choose = self._choose
        answered = {item.get("call_id") for item in history if item["type"] == "function_call_output"}
        calls = [item["call_id"] for item in history if item["type"] == "function_call"]
        results = [tool_output(call, f"{MARKER} {self._tenant}") for call in calls if call not in answered]
        history += results or [user(f"{MARKER} {self._tenant} {text}")]
        members = envelope | {"input": history}
        body = self._client.judge.body(self._tenant, self._client.sidecar.upstream, members)
        if choose.random() < 0.03:
            await self._client.ask(body, leave=True)
            if choose.random() < 0.5:
                return
        if choose.random() < 0.02:  # a second try while the first still runs
            with suppress(asyncio.CancelledError):
                await asyncio.gather(self._client.ask(body), self._client.ask(body))
        for _ in range(3):
            seen, output = await self._client.ask(body, slow=choose.random() < 0.05)
            if seen.kind in {"completed", "incomplete"} or (seen.kind == "failed" and not seen.own):
                history += [_echoed(item, bare=bool(envelope["store"])) for item in output]
                return


def _echoed(item: Json, *, bare: bool) -> Json:
    """The item as clients of one kind or the other send it again."""
    return {name: value for name, value in item.items() if name not in {"id", "status"}} if bare else item
