"""Neither content nor credentials stand in anything that the processes write or tell, at any log level."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.support import http
from tests.support.commands import Command
from tests.support.responses import tool_output, user
from upstream.scripted import Play, ScriptedUpstream, Turn, function_call, message, reasoning
from upstream.scripted.catalogue import TURNS
from upstream.scripted.faults import ErrorFirst
from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTENT = "unspeakable"
SECRETS = ("sk-hunter2-and-more", "hunter3pass", "hunter4query", "hunter5cookie", "org-hunter6", "hunter7state")
ANY = "127.0.0.1:0"
_HANGS = {"silent", "stalled"}
_LONG = {"late", "pausing", "big"}


def script(turn: Turn) -> Play:
    """Every fault in turn; its errors quote what they are about, as those of real services do."""
    names = sorted(TURNS.keys() - _HANGS - _LONG)
    fault = TURNS[names[turn.number // 2 % len(names)]].make(turn, 0.0) if turn.number % 2 else None
    if turn.number % 14 == 0:
        fault = ErrorFirst(ApiError(400, f"You said {CONTENT} with {SECRETS[0]}", code="invalid_value", param=CONTENT))
    items = [reasoning(CONTENT), function_call("call_1", CONTENT, json.dumps({CONTENT: CONTENT})), message(CONTENT)]
    return Play(items=items, faults=[] if fault is None else [fault])


def bodies() -> Iterator[tuple[bytes, dict[str, str]]]:
    """Turns, and what is none."""
    history: list[Any] = []
    whole = b""
    for number in range(60):
        history += [
            user(f"{CONTENT} {number}"),
            function_call(f"c{number}", CONTENT),
            tool_output(f"c{number}", CONTENT),
        ]
        body = {
            "model": "m",
            "input": history,
            "stream": number % 2 == 0,
            "store": number % 3 == 0,
            "instructions": CONTENT,
            "user": CONTENT,
            "metadata": {CONTENT: CONTENT},
            "tools": [{"type": "function", "name": CONTENT, "parameters": {}}],
        }
        whole = json.dumps(body).encode()
        yield whole, {}
    yield whole[:-20], {}
    yield f'{{"input": "{CONTENT}", "input": "{CONTENT}"}}'.encode(), {}
    yield CONTENT.encode(), {"content-encoding": "gzip"}
    yield gzip.compress(whole)[:-9], {"content-encoding": "gzip"}
    yield whole, {"content-encoding": CONTENT}
    yield f'{{"input": 5, "{CONTENT}": []}}'.encode(), {}
    yield b"\xff" + CONTENT.encode(), {"content-type": f"text/{CONTENT}"}


def told(where: str, *paths: str) -> str:
    return "".join(http.get(f"{where}{path}").body.decode() for path in paths)


def quoted(*texts: str) -> list[str]:
    """Lines in which something stands that must not."""
    return [line for text in texts for line in text.splitlines() if any(mark in line for mark in (CONTENT, *SECRETS))]


@pytest.mark.parametrize("level", ["debug", "error"])
async def test_whatever_goes_wrong_nothing_that_was_said_or_is_secret_is_written_or_told(
    tmp_path: Path, level: str
) -> None:
    headers = {
        "authorization": f"Bearer {SECRETS[0]}",
        "cookie": f"id={SECRETS[3]}",
        "openai-organization": SECRETS[4],
        "user-agent": f"agent/{CONTENT}",
        "x-team": CONTENT,
        "traceparent": CONTENT,
    }
    async with ScriptedUpstream(script) as up, aiohttp.ClientSession() as session:
        options = ("--upstream", up.url, "--listen", ANY, "--admin", ANY, "--log-level", level)
        env = {"DELTAWIRE_SECRET": SECRETS[1] * 2, "DELTAWIRE_STATE": f"redis://u:{SECRETS[5]}@127.0.0.1:1/0"}
        env |= {"DELTAWIRE_FORWARD_HEADER": "x-team", "PYTHONASYNCIODEBUG": "1" if level == "debug" else ""}
        command = Command(tmp_path, "proxy", *options, env=env)
        try:
            url = await asyncio.to_thread(command.url, "proxy")
            admin = await asyncio.to_thread(command.url, "admin")
            statuses = set()
            for body, more in bodies():
                try:
                    target = f"{url}/v1/responses?key={SECRETS[2]}"
                    async with session.post(target, data=body, headers=headers | more) as answer:
                        statuses.add(answer.status)
                        await answer.read()
                except aiohttp.ClientError:
                    statuses.add(0)
            for path in (f"/v1/{CONTENT}?key={SECRETS[2]}", f"/v1/responses/{CONTENT}", f"/{SECRETS[0]}"):
                async with session.get(f"{url}{path}", headers=headers) as answer:
                    await answer.read()
            async with session.ws_connect(
                f"{url}/v1/responses?k={SECRETS[2]}", headers=headers, protocols=[SECRETS[0]]
            ) as ws:
                await ws.send_str(CONTENT)
                await ws.send_bytes(CONTENT.encode())
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]))
            writer.write(f"GET /{SECRETS[0]} HTTP/{CONTENT}\r\n{CONTENT}\r\n\r\n".encode())
            await reader.read()
            writer.close()
            shown = await asyncio.to_thread(told, admin, "/metrics", "/api/turns", "/api/heads", "/api/links", "/")
        finally:
            await asyncio.to_thread(command.stop)
    assert {200, 400, 429, 500, 502, 503} <= statuses
    assert quoted(shown, command.stdout, command.stderr) == []
    assert "deltawire_turns_total" in shown
    assert level == "error" or command.stderr.count('"event":"turn"') > 60


def test_the_shipped_server_writes_nothing_of_what_it_is_asked_either(tmp_path: Path) -> None:
    command = Command(tmp_path, "upstream", "--listen", ANY, "--admin", ANY, "--log-level", "debug")
    try:
        url, admin = command.url("upstream"), command.url("upstream-admin")
        headers = {"authorization": f"Bearer {SECRETS[0]}", "content-type": "application/json"}
        for body, more in bodies():
            http.post(f"{url}/v1/responses?key={SECRETS[2]}", body, headers | more)
        shown = told(admin, "/metrics")
    finally:
        command.stop()
    assert quoted(shown, command.stdout, command.stderr) == []
