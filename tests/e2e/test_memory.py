"""The memory of a server that many connections fill: bounded by its budgets, not by what clients send."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

if TYPE_CHECKING:
    from tests.e2e.sidecar import Start

MIB = 1024 * 1024
CONNECTIONS = 200
HISTORY = MIB
BUDGET = 32 * MIB
MARGIN = 60 * MIB
"""Sockets, compression windows and what the allocator does not give back; far less than the histories together."""


def resident(pid: int) -> int:
    """Bytes of memory that a process has at present."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1]) * 1024


async def create(socket: aiohttp.ClientWebSocketResponse[bool], **body: Any) -> dict[str, Any]:
    await socket.send_str(json.dumps({"type": "response.create", "model": "sim"} | body))
    while True:
        event: dict[str, Any] = json.loads((await socket.receive(timeout=60)).data)
        if event["type"] in {"response.completed", "error"}:
            return event


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("store", [False, True])
async def test_histories_of_many_connections_take_no_more_than_the_budget(start: Start, store: bool) -> None:  # noqa: FBT001
    command = start("upstream", "--listen", "127.0.0.1:0", "--max-cache", str(BUDGET), "--log-level", "error")
    url = command.url("upstream") + "/v1/responses"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        first = await http.ws_connect(url)
        await create(first, input="x", store=store)
        idle = resident(command.process.pid)
        sockets, ids = [], []
        for number in range(CONNECTIONS):
            socket = await http.ws_connect(url)
            done = await create(socket, input=f"{number}" + "x" * HISTORY, store=store)
            sockets.append(socket)
            ids.append(done["response"]["id"])
        full = resident(command.process.pid)
        answers = [
            await create(socket, input="y", previous_response_id=known, store=store)
            for socket, known in zip(sockets, ids, strict=True)
        ]
        for socket in (first, *sockets):
            await socket.close()

    assert full - idle < BUDGET + MARGIN < CONNECTIONS * HISTORY / 2
    gone = [answer["error"]["code"] for answer in answers if answer["type"] == "error"]
    assert set(gone) == {"previous_response_not_found"}
    assert len(gone) >= CONNECTIONS - BUDGET // HISTORY
    assert any(answer["type"] == "response.completed" for answer in answers)
