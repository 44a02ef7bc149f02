import io
import sys
import time

import aiohttp

from bench.child import running
from bench.speed.stub import STAMP, Stub
from bench.speed.turns import Http, Socket, Talk
from bench.speed.workload import Load


async def test_it_answers_every_client_as_an_upstream_would_and_no_two_turns_alike() -> None:
    async with running((sys.executable, "-m", "bench.speed.stub", "--events", "3"), {"stub"}) as child:
        base = f"{child.urls['stub']}/v1"
        seen = set()
        for client in (Http(base), Socket(base)):
            for _ in range(2):
                answer = await client.turn(Talk(Load(1).envelope()), [b'{"role":"user","content":"x"}'])
                assert b'"Done."' in answer.items[0]
                seen.add(answer.id)
            await client.close()
        assert len(seen) == 4


async def test_it_writes_as_many_pieces_as_told_each_with_its_moment() -> None:
    before = time.monotonic_ns()
    data = [data for kind, data in [one async for one in Stub(events=5, pace=0).answer()] if "delta" in kind]
    stamps = [int(piece.partition(STAMP)[2].rstrip(b"}")) for piece in data]
    assert len(stamps) == 5
    assert [before, *stamps] == sorted([before, *stamps])


async def test_it_keeps_its_pace() -> None:
    began = time.monotonic()
    assert len([one async for one in Stub(events=5, pace=100).answer()]) == 8
    assert time.monotonic() - began >= 0.04


async def test_large_histories_are_no_error(http_session: aiohttp.ClientSession) -> None:
    async with running((sys.executable, "-m", "bench.speed.stub"), {"stub"}) as child:
        answer = await http_session.post(f"{child.urls['stub']}/v1/responses", data=io.BytesIO(bytes(20 << 20)))
        assert answer.status == 200
