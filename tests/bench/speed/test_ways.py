import pytest

from bench.speed.turns import Talk
from bench.speed.ways import (
    APPEND,
    CHAINED,
    GENERATIONS,
    HTTP,
    NONE,
    SIDECAR,
    SOCKET,
    Way,
    opened,
    server_command,
    sidecar_command,
)
from bench.speed.workload import Load, call_id


def test_the_generations_differ_in_what_the_server_keeps() -> None:
    assert [way.caching for way in GENERATIONS] == ["none", "http", "websocket", "websocket"]
    assert len({way.name for way in (*GENERATIONS, CHAINED, SIDECAR)}) == 6


def test_a_server_is_told_its_generation_and_the_pace_of_its_engine() -> None:
    told = server_command(HTTP, 1000.0)
    assert told[told.index("--caching") + 1] == "http"
    assert told[told.index("--tokens-per-second") + 1] == "1000"


def test_a_sidecar_is_told_its_upstream_and_its_wire() -> None:
    told = sidecar_command(APPEND, "https://h:1/v1")
    assert told[told.index("--upstream") + 1] == "https://h:1/v1"
    assert told[told.index("--append") + 1] == "auto"
    assert "off" in sidecar_command(SIDECAR, "https://h:1/v1")


@pytest.mark.parametrize("way", [NONE, CHAINED, SOCKET, SIDECAR, APPEND], ids=lambda way: way.name)
async def test_every_way_leads_a_conversation(way: Way) -> None:
    load = Load(1)
    talk, new = Talk(load.envelope()), load.history(3000)
    async with opened(way) as running:
        client = running.client()
        said = []
        for _ in range(3):
            answer = await client.turn(talk, new)
            said.append(answer.transport)
            new = [load.output(call_id(answer.items), 2000)]
        await client.close()
        assert said == (["full", "delta", "delta"] if way.sidecar is not None else ["", "", ""])
        assert running.server.cpu() > 0
