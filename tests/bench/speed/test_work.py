"""Counting, and what it is for: the work of a turn follows what is new in it, whatever the history."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from bench.speed.turns import Client, Http, Socket, Talk
from bench.speed.work import Calls
from bench.speed.workload import Load, call_id
from proxy import app
from proxy.settings import Address, ProxySettings
from tests.upstream.helpers import serving
from wire.events import peek

SMALL, LARGE = 20_000, 600_000
"""Bytes of history. More would make the client's library warn of large bodies."""


def _double(number: int) -> int:
    return 2 * number


_HERE = (__file__,)


def test_calls_of_functions_are_counted_and_nothing_else() -> None:
    with Calls(_HERE) as none:
        _ = 1 + 1
    with Calls(_HERE) as some:
        _double(abs(-1))
        _double(2)
    assert some.number - none.number == 3


def test_calls_elsewhere_do_not_count() -> None:
    with Calls() as calls:
        _double(1)
    assert calls.number == 0
    with Calls() as calls:
        peek(b'{"type":"x"}')
    assert calls.number > 0


def test_counting_ends_with_the_block_also_when_that_fails() -> None:
    calls = Calls(_HERE)
    with pytest.raises(ZeroDivisionError), calls:
        _ = 1 // 0
    before = calls.number
    _double(1)
    assert calls.number == before


def test_nobody_elses_profile_is_taken_away() -> None:
    with Calls(), pytest.raises(RuntimeError, match="profiled already"), Calls():
        pass


@asynccontextmanager
async def _by_frames() -> AsyncIterator[Client]:
    async with serving(tool_turns=1000) as server:
        client = Socket(f"{server.url}/v1")
        yield client
        await client.close()


@asynccontextmanager
async def _through_the_sidecar() -> AsyncIterator[Client]:
    async with serving(tool_turns=1000) as server:
        anywhere = Address("127.0.0.1", 0)
        sidecar = await app.start(ProxySettings(listen=anywhere, admin=anywhere, upstream=f"{server.url}/v1"))
        client = Http(f"{sidecar.url}/v1")
        yield client
        await client.close()
        await sidecar.close()


async def _counted(client: Client, history: int) -> tuple[int, int]:
    """Calls for a turn after this history, in client, sidecar and server together; and how many items it follows."""
    load = Load(1)
    talk, new = Talk(load.envelope()), load.history(history)
    for _ in range(3):
        answer = await client.turn(talk, new)
        # The simulated agent looks back to what the user said last, which is no work of the server's.
        new = [load.output(call_id(answer.items), 2000), load.question()]
    known = len(talk.items)
    with Calls() as calls:
        await client.turn(talk, new)
    return calls.number, known


@pytest.mark.parametrize("opened", [_by_frames, _through_the_sidecar])
async def test_no_call_is_made_for_an_item_that_is_known(
    opened: Callable[[], AbstractAsyncContextManager[Client]],
) -> None:
    async with opened() as client:
        small, few = await _counted(client, SMALL)
        large, many = await _counted(client, LARGE)
    assert many - few > 300
    assert large - small < (many - few) / 4
