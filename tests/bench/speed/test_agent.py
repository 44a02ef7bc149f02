import asyncio
import sys

import msgspec
import pytest

from bench.speed.agent import Job, Loop, run
from tests.upstream.helpers import serving


@pytest.mark.parametrize("says", ["history", "id", "frames"])
async def test_a_loop_has_its_calls_and_one_turn_more(says: str) -> None:
    async with serving(tool_turns=100) as server:
        loop = await run(Job(f"{server.url}/v1", says, calls=2, idle=0.0, seed=1, trusted=""))
    assert len(loop.turns) == 3
    assert sum(turn.whole for turn in loop.turns) <= loop.wall
    assert all(0 < turn.first <= turn.whole for turn in loop.turns)
    assert (loop.turns[0].sent < loop.turns[1].sent < loop.turns[2].sent) is (says == "history")


async def test_tools_take_their_time_between_turns() -> None:
    async with serving(tool_turns=100) as server:
        loop = await run(Job(f"{server.url}/v1", "frames", calls=2, idle=0.02, seed=1, trusted=""))
    assert loop.wall - sum(turn.whole for turn in loop.turns) >= 0.04


async def test_as_a_process_it_takes_a_job_and_tells_the_result() -> None:
    async with serving(tool_turns=100) as server:
        job = msgspec.json.encode(Job(f"{server.url}/v1", "history", 1, 0.0, 1, "")).decode()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.speed.agent", job, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
    assert len(msgspec.json.decode(out, type=Loop).turns) == 2
