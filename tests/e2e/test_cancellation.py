"""A turn that is cancelled, at each place where it ever waits: nothing of it is left, and the next turn is right."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import aiohttp
import pytest

from proxy import turn as turns
from tests.support.responses import user
from tests.support.rig import Rig, Talk, rigged, until
from upstream.scripted import Play, Turn, message
from upstream.scripted.faults import Big, CloseAfter, ErrorAfter, ErrorFirst, Fault, RefuseUpgrade
from upstream.scripted.steps import Pause, Step
from wire.errors import previous_not_found, server_error

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

MOST = 200
"""Places where a turn waits, beyond which something is wrong with the count."""


class Stepped:
    """A coroutine whose task is cancelled where it waits for the `stop`-th time. `waited`: how often it did."""

    def __init__(self, work: Coroutine[Any, Any, Any], stop: int) -> None:
        self.waited = 0
        self._work = work
        self._stop = stop

    def __await__(self) -> Generator[Any, Any, Any]:
        step = self._work.send
        value: Any = None
        while True:
            try:
                waits_for = step(value)
            except StopIteration as done:
                return done.value
            self.waited += 1
            if self.waited == self._stop:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            step = self._work.send
            try:
                value = yield waits_for
            except BaseException as raised:  # noqa: BLE001 - whatever it is, it is for the coroutine
                step, value = self._work.throw, raised


class Paced:
    """Every event on its own, so that a turn waits for each."""

    def apply(self, steps: list[Step]) -> list[Step]:
        return [part for step in steps for part in (Pause(0.001), step)]


FAULTS: dict[str, Fault] = {
    "forget": ErrorFirst(previous_not_found("resp_000001")),
    "fail": ErrorFirst(server_error("no")),
    "break": CloseAfter(5),
    "stumble": ErrorAfter(server_error("no"), 5),
    "grow": Big(4 * 2**20),
}


def script(turn: Turn) -> Play:
    """The fault that the last message names; only a continuation can be one of something forgotten."""
    last: Any = turn.context[-1].value
    name = last["content"][0]["text"]
    faults = [FAULTS[name]] if name in FAULTS and (turn.parent or name != "forget") else []
    return Play(items=[message(f"answer {turn.number}")], faults=[*faults, Paced()])


async def consistent(rig: Rig) -> None:
    """Nothing runs, nothing is held, and every link is one that the upstream has as well."""
    await rig.quiet()
    assert not [head for head in rig.heads if head.leases]
    assert rig.links.pool.counts()["busy"] == rig.links.pool.counts()["dialing"] == 0
    assert rig.links._links.keys() == {slot.id for slot in rig.links.pool}
    assert rig.links.gates._dialling == 0
    await until(lambda: sum(not one.closed.is_set() for one in rig.up.connections) == len(rig.links.pool))


@pytest.mark.parametrize(
    ("said", "mode"),
    [
        ("hello", {"stream": True, "store": False, "begun": True}),
        ("hello", {"stream": False, "store": True, "begun": False}),
        ("forget", {"stream": True, "store": False, "begun": True}),
        ("forget", {"stream": False, "store": True, "begun": True}),
        ("fail", {"stream": True, "store": False, "begun": True}),
        ("break", {"stream": False, "store": False, "begun": True}),
        ("break", {"stream": True, "store": True, "begun": False}),
        ("stumble", {"stream": True, "store": False, "begun": True}),
        ("grow", {"stream": True, "store": True, "begun": True}),
    ],
)
async def test_a_turn_cancelled_wherever_it_waits_leaves_nothing_behind(said: str, mode: dict[str, bool]) -> None:
    assert await everywhere(said, **mode) >= (1 if said == "fail" else 4)


@pytest.mark.parametrize("said", ["hello", "fail", "break"])
async def test_a_turn_by_http_cancelled_wherever_it_waits_leaves_nothing_behind(said: str) -> None:
    refused = {"upgrades": RefuseUpgrade(404)}
    assert await everywhere(said, stream=True, store=True, begun=True, upstream=refused) >= 1


async def everywhere(said: str, *, stream: bool, store: bool, begun: bool, **options: Any) -> int:
    """Cancel such a turn where it waits first, then where it waits next, until it ends before it is cancelled.

    How often it was cancelled.
    """
    real = turns.serve
    stepped: list[Stepped] = []
    stops: list[int] = []

    async def serve(*arguments: Any) -> Any:
        stepped.append(Stepped(real(*arguments), stops.pop() if stops else MOST))
        return await stepped[-1]

    async with rigged(script, **options) as rig:
        gone = sent = 0
        with patch.object(turns, "serve", serve):
            for stop in range(1, MOST):
                talk = Talk(rig, stream=stream, store=store, user=f"{stop}")
                if begun:
                    await talk.say("before")
                else:
                    for link in list(rig.links._links.values()):
                        link.end("retired")  # so that the first turn waits for a handshake
                rig.unserved.add(len(rig.bodies) + 1)
                body = rig.body([*talk.history, user(said)], stream=stream or ..., **talk.envelope)
                stops.append(stop)
                with suppress(aiohttp.ClientError):
                    await rig.post(body)
                await consistent(rig)
                cancelled = stepped[-1].waited >= stop
                gone += cancelled
                talk.history.append(user("after"))
                got = await talk.send()
                assert (got.status, got.response["status"]) == (200, "completed")
                sent += 3 if begun else 2
                value = await rig.metrics()
                assert value("deltawire_turns_total") == sent
                assert value("deltawire_clients_gone_total") == gone
                if not cancelled:
                    return gone
    raise AssertionError("a turn that waits without end")
