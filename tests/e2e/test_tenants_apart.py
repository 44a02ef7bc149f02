"""Tenants that say the same at the same time, over an upstream with faults: nothing of one ever reaches another."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import suppress
from typing import Any

import aiohttp
import pytest

from tests.support.responses import user
from tests.support.rig import Got, Rig, rigged
from upstream.scripted import Accept, Play, Turn, compare, message
from upstream.scripted.faults import (
    CloseAfter,
    ErrorAfter,
    ErrorFirst,
    Failed,
    Fault,
    Incomplete,
    RefuseUpgrade,
    Stray,
)
from wire.errors import ApiError, connection_limit, previous_not_found
from wire.split import members
from wire.sse import Parser

Json = dict[str, Any]

TENANTS = [f"tenant-{letter}" for letter in "abcdef"]
AGENTS = 18
TEXTS = ["hello", "go on", "again"]


def name_of(turn: Turn) -> str:
    """Whose credentials a turn came with: over a link, those of its handshake."""
    return turn.headers["authorization"].removeprefix("Bearer ")


def script(turn: Turn) -> Play:
    """The same answer to whoever asks, as long as the upstream is well; its errors name whom they are for."""
    choose = random.Random(turn.number)  # noqa: S311 - repeatable on purpose
    name = name_of(turn)
    limited = ApiError(429, f"The limit of {name}.", code="slow_down", headers={"x-ratelimit-owner": name})
    faults: list[Fault] = [
        ErrorFirst(limited),
        ErrorAfter(limited, 5),
        ErrorFirst(connection_limit(60)),
        CloseAfter(choose.randrange(6), choose.choice([None, 1000, 1011])),
        CloseAfter(None, 1001),
        Failed("server_error", f"The model of {name} failed."),
        Incomplete(),
        Stray(),
        *([ErrorFirst(previous_not_found(turn.parent))] if turn.parent else []),
    ]
    return Play(items=[message("answer")], faults=[choose.choice(faults)] if choose.random() < 0.15 else [])


def upgrade(_: dict[str, str]) -> Accept | RefuseUpgrade:
    """One handshake in fifty is refused for the moment."""
    return RefuseUpgrade(503) if random.random() < 0.02 else Accept()  # noqa: S311 - no secret


class Apart:
    """Agents of several tenants, and what each of them may see."""

    def __init__(self, rig: Rig, count: int) -> None:
        self.rig = rig
        self.left = count
        self.owners: dict[int, str] = {}
        self.answers: list[tuple[str, int, Got]] = []

    async def live(self, number: int) -> None:
        """Talk: the words are the same for all, and so are the answers."""
        choose = random.Random(number)  # noqa: S311 - repeatable on purpose
        name = TENANTS[number % len(TENANTS)]
        history: list[Json] = []
        while self.left > 0:
            self.left -= 1
            if choose.random() < 0.25:
                history = history[: choose.randrange(len(history) + 1)]
            history.append(user(choose.choice(TEXTS)))
            stored = choose.random() < 0.5
            body = self.rig.body(history, stream=choose.random() < 0.6, store=stored, prompt_cache_key="all")
            sent = len(self.rig.bodies)
            self.owners[sent] = name
            asking = asyncio.ensure_future(self.rig.post(body, name))
            if choose.random() < 0.03:
                for _ in range(choose.randrange(30)):
                    await asyncio.sleep(0)
                asking.cancel()
            with suppress(asyncio.CancelledError, aiohttp.ClientError):
                got = await asking
                self.answers.append((name, sent, got))
                if self._completed(got):
                    # Without the names that the server gave, so that histories are equal across tenants.
                    history += [{"role": "assistant", "content": "answer"}]

    def check(self) -> None:
        """Turns, the responses that they continue, answers, errors and heads: all are of one tenant each."""
        made: dict[str, str] = {}
        by_number: dict[int, set[str]] = {}
        for turn in self.rig.up.turns:
            sent = int(json.loads(members(turn.raw)["metadata"])["n"])
            assert name_of(turn) == self.owners[sent]
            if turn.parent:
                assert made[turn.parent] == self.owners[sent]
            if turn.response_id:
                made[turn.response_id] = self.owners[sent]
                by_number.setdefault(sent, set()).add(turn.response_id)
            if turn.outcome != "refused" and turn.members:
                assert not compare(turn, self.rig.bodies[sent], sent)
        for name, sent, got in self.answers:
            text = got.raw.decode() + str(got.headers)
            assert not [other for other in TENANTS if other != name and other in text]
            named = {event["response"]["id"] for event in self._responses(got)}
            assert named <= by_number.get(sent, set())
        digests = {(head.tenant, made[head.response_id]) for head in self.rig.heads}
        assert len({digest for digest, _ in digests}) == len({name for _, name in digests}) == len(digests)

    def _completed(self, got: Got) -> bool:
        told = self._responses(got)
        return bool(told) and told[-1]["response"].get("status") == "completed"

    @staticmethod
    def _responses(got: Got) -> list[Json]:
        """What tells of a response; over HTTP there may be events that are no JSON, as the upstream sent them."""
        if got.status != 200 or not got.raw:
            return []
        if not got.headers["content-type"].startswith("text/event-stream"):
            return [{"response": got.response}]
        found = []
        for event in Parser().feed(got.raw):
            with suppress(ValueError):
                found.append(json.loads(event.data))
        return [event for event in found if event.get("response")]


async def apart(count: int) -> Apart:
    """So many turns of all tenants."""
    async with rigged(script, upstream={"upgrades": upgrade}, patience=count, max_links=24, max_state=2**18) as rig:
        rig.checked = False  # in `check`, without looking through all turns for each body
        found = Apart(rig, count)
        await asyncio.gather(*(found.live(number) for number in range(AGENTS)))
        await rig.quiet()
        found.check()
        ways = [turn["transport"] for turn in rig.running.sidecar.recent.newest()]
        assert ways.count("delta") > len(ways) // 5
        assert not rig.up.violations
        return found


async def test_nothing_crosses_tenants_who_say_the_same() -> None:
    found = await apart(1_500)
    assert len(found.answers) > 1_350
    assert len({got.status for _, _, got in found.answers}) > 2


@pytest.mark.soak
async def test_nothing_crosses_tenants_in_ten_thousand_turns() -> None:
    await apart(10_000)
