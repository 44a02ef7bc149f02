"""A sidecar that is told to end while it works: nothing is cut, nothing is taken, everybody is told."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import TYPE_CHECKING, Any

import aiohttp

from tests.support.commands import Command
from tests.support.responses import user
from tests.support.rig import Got, read
from upstream.scripted import Play, ScriptedUpstream, message
from upstream.scripted.faults import Hold

if TYPE_CHECKING:
    from pathlib import Path

STREAMS = 50
HELD = 5
ANY = "127.0.0.1:0"


async def test_of_fifty_running_turns_none_is_cut_by_sigterm_and_no_other_one_begins(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def ask(number: int) -> Got:
        # Every tenth wants one JSON body, and has seen nothing yet when the sidecar is told to end.
        body = {"model": "m", "input": [user(f"turn {number}")], "stream": number % 10 != 0}
        async with session.post(f"{url}/v1/responses", json=body, headers={"authorization": "Bearer k"}) as answer:
            return await read(answer)

    async def ready() -> int:
        async with session.get(f"{admin}/readyz") as answer:
            return answer.status

    async with (
        asyncio.timeout(120),
        ScriptedUpstream(lambda turn: Play(items=[message(str(_asked(turn)))], faults=[Hold(gate, HELD)])) as up,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        command = Command(tmp_path, "proxy", "--upstream", up.url, "--listen", ANY, "--admin", ANY, "--drain", "1m")
        try:
            url = await asyncio.to_thread(command.url, "proxy")
            admin = await asyncio.to_thread(command.url, "admin")
            assert await ready() == 200
            asking = [asyncio.ensure_future(ask(number)) for number in range(STREAMS)]
            await up.until(lambda: len(up.turns) == STREAMS and all(turn.events_sent == HELD for turn in up.turns))
            assert {turn.transport for turn in up.turns} == {"ws"}

            command.process.send_signal(signal.SIGTERM)
            while await ready() != 503:  # noqa: ASYNC110 - a signal has no answer to wait for
                await asyncio.sleep(0)
            refused = await ask(STREAMS)
            assert (refused.status, refused.own_error) == (503, "shutting_down")
            assert len(up.turns) == STREAMS
            assert not any(one.done() for one in asking)
            assert command.running

            gate.set()
            for number, got in enumerate(await asyncio.gather(*asking)):
                assert (got.status, got.response["status"]) == (200, "completed")
                assert got.response["output"][0]["content"][0]["text"] == str(number)
                assert number % 10 == 0 or got.types.count("response.completed") == 1
            assert await asyncio.to_thread(command.process.wait, 60) == 0
            for connection in up.connections:
                await connection.closed.wait()
            assert {connection.close_code for connection in up.connections} == {1001}
        finally:
            gate.set()
            if command.running:
                command.process.kill()
                command.process.wait()
    assert not [record for record in command.records() if record["level"] == "error"]


def _asked(turn: Any) -> int:
    """The number in the turn's only message."""
    return int(json.loads(turn.context[0].raw)["content"][0]["text"].removeprefix("turn "))
